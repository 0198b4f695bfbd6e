/* A case of a spec made real: where its arguments lie in the memory shared with the worker, what
 * they hold, what they should turn into, and how far off that they may be. Inside the judge. */
#ifndef AK_JUDGE_CASE_H
#define AK_JUDGE_CASE_H

#include "judge.h"

/* ---- places: sets of arguments, each with guard bands around it ---- */

struct ak_place {
    const struct ak_spec *spec;
    const struct ak_case *c;
    size_t at[AK_WORKER_ARGS], bytes[AK_WORKER_ARGS]; /* storages in set 0; 0 bytes: absent or empty */
    size_t step, nsets, end;
};
enum { AK_GUARD = 1024 };
/* align: of the storages; "odd" ones begin at an odd element, since a kernel may ask for no more. */
void ak_place_init(struct ak_place *p, const struct ak_spec *s, const struct ak_case *c, size_t nsets, bool odd, uint64_t seed);
void ak_place_call(const struct ak_place *p, struct ak_worker_call *call);

/* ---- contents: private copies of the inputs' storages ---- */

struct ak_image {
    size_t n;
    void *data[AK_WORKER_ARGS]; /* NULL for outputs and what is absent */
};
void ak_image_draw(struct ak_image *im, const struct ak_place *p, uint64_t seed);
/* Changes some elements, none of the first ones, of one input: like the old image to who looks at a part. */
void ak_image_touch(struct ak_image *im, const struct ak_place *p, uint64_t seed);
/* Changes one element of every float input, in the image and in the memory. */
void ak_image_nudge(struct ak_image *im, const struct ak_place *p, char *mem, size_t set, uint64_t seed);
void ak_image_release(struct ak_image *im);

/* Inputs, poison in outputs and in gaps, guards: numbers of kind 0 or 1 (guards NaN, or large). */
void ak_set_write(char *mem, const struct ak_place *p, size_t set, const struct ak_image *im, int kind, uint64_t seed);
/* What must not have been written: 0, or -1 with w->what, arg, index set. */
int ak_set_check(const char *mem, const struct ak_place *p, size_t set, const struct ak_image *im, int kind, uint64_t seed, struct ak_where *w);

/* ---- truth ---- */

struct ak_truth { /* of a graph */
    struct ak_exec *exec;
    struct ak_weights *weights;
    double length; /* the longest reduction */
};
int ak_truth_init(struct ak_truth *t, const struct ak_graph *g, struct ak_err *err);
void ak_truth_release(struct ak_truth *t);

struct ak_want { /* of one image */
    size_t n;
    struct {
        size_t arg;
        int64_t rows, length; /* length: of the last dim */
        int64_t *row;         /* which rows of the output they are; NULL: all, in order */
        double *value, *noise, *size; /* by element; by row: D and S */
    } out[AK_WORKER_ARGS];
    double tol, floor;    /* floor: of D, relative to S */
    bool opponents;       /* values are the opponent's */
    struct ak_want *also; /* must be met, too; or NULL */
};
/* full: with the runs that measure D. */
int ak_want_make(struct ak_want *w, struct ak_truth *t, const struct ak_place *p, const struct ak_image *im, bool full, uint64_t seed, struct ak_err *err);
/* As near to another kernel's outputs (of the case's arguments t) as two right ones may be: D is step*S. */
void ak_want_near(struct ak_want *w, const struct ak_place *p, const struct ak_tensor *t, double step);
/* Of the own shape: fresh rows by truth, all elements by the opponent. 1 where that cannot be done. */
int ak_want_sample(struct ak_want *w, struct ak_judge *j, const struct ak_place *p, const struct ak_image *im, uint64_t seed, struct ak_err *err);
void ak_want_release(struct ak_want *w);
/* 0, or -1 with the first wrong element in *where. */
int ak_want_compare(const struct ak_want *w, const char *mem, const struct ak_place *p, size_t set, struct ak_where *where);

/* ---- the parts of a judge ---- */

struct ak_truth *ak_judge_truth(struct ak_judge *j, const struct ak_case *c, struct ak_err *err);
/* What an image should give, by the means that its size allows. */
int ak_judge_want(struct ak_judge *j, struct ak_want *w, const struct ak_place *p, const struct ak_image *im, uint64_t seed, struct ak_err *err);
/* The first verdict but "pass" stays. Returns -1. */
int ak_judge_say(struct ak_judge *j, enum ak_verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A command; -1 if the worker is gone, which is a verdict (or an outside kill): doing says what was being done. */
int ak_judge_do(struct ak_judge *j, const struct ak_command *c, struct ak_reply *r, double limit_s, const char *doing);
double ak_judge_limit(const struct ak_judge *j, double calls); /* seconds for so many calls at the own shape */
/* Memory and threads that it should not have: 0, or -1. */
int ak_judge_habits(struct ak_judge *j);
void ak_where_text(char *to, size_t size, const struct ak_where *w);

/* Timing is planned before the candidate is loaded. */
int ak_bench_plan(struct ak_judge *j, struct ak_err *err);
void ak_bench_free(struct ak_bench *b);

#endif
