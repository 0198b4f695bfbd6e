/* The table of ops. Rows live in the files named in ops.h; the first look-up copies them all into one
 * sorted table and parses their schemas. */
#include "ops.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

static struct ak_op *table;
static size_t count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- schema ---- */

static char *cut(const char *from, const char *to) {
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    size_t n = (size_t)(to - from);
    char *s = ak_malloc(n + 1);
    memcpy(s, from, n);
    s[n] = 0;
    return s;
}

/* "Tensor(a!)?" -> "Tensor?", "SymInt[2]" -> "int[]" */
static char *plain_type(const char *from, const char *to) {
    char *s = cut(from, to), *w = s;
    const char *r = s;
    if (strncmp(r, "SymInt", 6) == 0) {
        memcpy(w, "int", 3);
        w += 3;
        r += 6;
    }
    for (; *r; r++) {
        if (*r == '(') {
            r = strchr(r, ')');
            continue;
        }
        if (*r == '[') {
            *w++ = '[';
            r = strchr(r, ']');
        }
        *w++ = *r;
    }
    *w = 0;
    return s;
}

static struct ak_val list_default(char *s) {
    int64_t v[AK_MAX_DIMS];
    size_t n = 0;
    for (char *p = strtok(s + 1, ",] "); p; p = strtok(NULL, ",] "))
        v[n++] = strcmp(p, "True") == 0 ? 1 : atoll(p);
    return (struct ak_val){.kind = AK_VAL_INTS, .ints = {n ? ak_memdup(v, n * sizeof *v) : NULL, n}};
}

static struct ak_val default_of(const char *type, char *s) {
    if (strcmp(s, "None") == 0) return (struct ak_val){.kind = AK_VAL_NONE};
    if (strcmp(s, "True") == 0 || strcmp(s, "False") == 0) return (struct ak_val){.kind = AK_VAL_BOOL, .i = *s == 'T'};
    if (*s == '[') return list_default(s);
    if (*s == '"') {
        s[strlen(s) - 1] = 0;
        return (struct ak_val){.kind = AK_VAL_STR, .s = ak_strdup(s + 1)};
    }
    if (strcmp(s, "Mean") == 0) return (struct ak_val){.kind = AK_VAL_INT, .i = 1}; /* at::Reduction */
    if (strcmp(s, "contiguous_format") == 0) return (struct ak_val){.kind = AK_VAL_INT, .i = 0};
    if (strncmp(type, "int[", 4) == 0) { /* SymInt[2] stride=1 */
        int64_t v = atoll(s);
        return (struct ak_val){.kind = AK_VAL_INTS, .ints = {ak_memdup(&v, sizeof v), 1}};
    }
    if (strncmp(type, "float", 5) == 0 || strpbrk(s, ".e")) return (struct ak_val){.kind = AK_VAL_FLOAT, .f = strtod(s, NULL)};
    return (struct ak_val){.kind = AK_VAL_INT, .i = atoll(s)};
}

static struct ak_op_arg parse_arg(const char *from, const char *to, bool kwarg_only) {
    struct ak_op_arg a = {.kwarg_only = kwarg_only};
    char *s = cut(from, to), *eq = strchr(s, '='), *end = eq ? eq : s + strlen(s), *name = end;
    while (name > s && !isspace((unsigned char)name[-1]))
        name--;
    char *type = plain_type(s, name);
    a.name = cut(name, end);
    a.type = type;
    a.optional = type[strlen(type) - 1] == '?';
    a.has_default = eq != NULL;
    if (eq) a.def = default_of(type, eq + 1);
    free(s);
    return a;
}

/* Where the item that begins at p ends: a comma or the closing parenthesis of its own level. */
static const char *item_end(const char *p) {
    for (int depth = 0; *p; p++) {
        if (*p == '(' || *p == '[') depth++;
        if ((*p == ')' || *p == ']') && depth-- == 0) return p;
        if (*p == ',' && depth == 0) return p;
    }
    return p;
}

static size_t count_outs(const char *arrow) {
    const char *p = strchr(arrow, '>') + 1;
    while (*p == ' ')
        p++;
    if (*p != '(') return 1;
    if (*++p == ')') return 0;
    for (size_t n = 1;; n++) {
        p = item_end(p);
        if (*p != ',') return n;
        p++;
    }
}

static void parse(struct ak_op *op) {
    const char *open = strchr(op->schema, '('), *p = open + 1, *end;
    bool kwarg_only = false;
    op->name = cut(op->schema, open);
    op->args = ak_calloc(AK_MAX_ARGS, sizeof *op->args);
    for (; *p != ')'; p = *end == ',' ? end + 1 : end) {
        end = item_end(p);
        while (*p == ' ')
            p++;
        if (*p == '*')
            kwarg_only = true;
        else
            op->args[op->nargs++] = parse_arg(p, end, kwarg_only);
    }
    op->nouts = count_outs(p + 1);
}

/* ---- table ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct ak_op *)a)->name, ((const struct ak_op *)b)->name);
}

static void build(void) {
    static const struct ak_op_rows *const files[] = {
#define X(name) &ak_ops_##name,
        AK_OP_FILES(X)
#undef X
    };
    size_t n = 0, nfiles = sizeof files / sizeof *files;
    for (size_t i = 0; i < nfiles; i++)
        n += files[i]->n;
    table = ak_calloc(n, sizeof *table);
    for (size_t i = 0; i < nfiles; i++)
        for (size_t j = 0; j < files[i]->n; j++) {
            table[count] = files[i]->v[j];
            parse(&table[count++]);
        }
    qsort(table, count, sizeof *table, by_name);
}

size_t ak_op_count(void) {
    pthread_once(&once, build);
    return count;
}

const struct ak_op *ak_op_at(size_t i) { return i < ak_op_count() ? &table[i] : NULL; }

const struct ak_op *ak_op_find(const char *name) {
    pthread_once(&once, build);
    const char *dot = strchr(name, '.');
    bool whole = !dot || strchr(dot + 1, '.') || strncmp(name, "aten.", 5) != 0;
    char full[128];
    if (snprintf(full, sizeof full, whole ? "%s" : "%s.default", name) >= (int)sizeof full) return NULL;
    struct ak_op key = {.name = full};
    return bsearch(&key, table, count, sizeof *table, by_name);
}

int ak_op_arg_index(const struct ak_op *op, const char *name) {
    for (size_t i = 0; i < op->nargs; i++)
        if (strcmp(op->args[i].name, name) == 0) return (int)i;
    return -1;
}

const struct ak_op *ak_op_meaning(const struct ak_op *op) {
    const struct ak_op *f = op->functional ? ak_op_find(op->functional) : NULL;
    return f ? f : op;
}

/* ---- near names ---- */

static int least(int a, int b, int c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

/* Levenshtein's distance of the first 63 bytes. */
static int distance(const char *a, const char *b) {
    int row[64], n = (int)strnlen(b, 63);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; *a && i < 64; i++, a++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int up = row[j];
            row[j] = least(row[j - 1] + 1, up + 1, diagonal + (b[j - 1] != *a));
            diagonal = up;
        }
    }
    return row[n];
}

/* The overload counts little: softmax.default should find softmax.int. */
static int farness(const char *wanted, const char *name) {
    char a[64], b[64];
    snprintf(a, sizeof a, "%s", strncmp(wanted, "aten.", 5) == 0 ? wanted + 5 : wanted);
    snprintf(b, sizeof b, "%s", strncmp(name, "aten.", 5) == 0 ? name + 5 : name);
    int whole = distance(a, b);
    a[strcspn(a, ".")] = 0;
    b[strcspn(b, ".")] = 0;
    int base = distance(a, b);
    if (base && strstr(b, a)) base = 1; /* log_softmax for softmax */
    return 16 * base + (whole < 15 ? whole : 15);
}

char *ak_op_near(const char *name, char *buf, size_t size) {
    enum { SHOWN = 4 };
    size_t best[SHOWN], n = 0;
    int far[SHOWN];
    for (size_t i = 0; i < ak_op_count(); i++) {
        int d = farness(name, table[i].name);
        size_t at = n;
        while (at > 0 && far[at - 1] > d)
            at--;
        if (at == SHOWN) continue;
        if (n < SHOWN) n++;
        for (size_t j = n - 1; j > at; j--) {
            best[j] = best[j - 1];
            far[j] = far[j - 1];
        }
        best[at] = i;
        far[at] = d;
    }
    size_t used = 0;
    if (size) *buf = 0;
    for (size_t i = 0; i < n; i++) {
        int w = snprintf(buf + used, size - used, "%s%s", i ? ", " : "", table[best[i]].name);
        if (w < 0 || (size_t)w >= size - used) {
            buf[used] = 0;
            break;
        }
        used += (size_t)w;
    }
    return buf;
}

/* ---- calls ---- */

static const char *const kind_names[] = {
    [AK_VAL_NONE] = "absent",      [AK_VAL_TENSOR] = "a tensor",  [AK_VAL_TENSORS] = "a list of tensors",
    [AK_VAL_INT] = "an integer",   [AK_VAL_INTS] = "integers",    [AK_VAL_FLOAT] = "a real number",
    [AK_VAL_FLOATS] = "reals",     [AK_VAL_BOOL] = "a boolean",   [AK_VAL_STR] = "a string",
};

static bool starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static bool is_number(enum ak_val_kind k) { return k == AK_VAL_INT || k == AK_VAL_FLOAT || k == AK_VAL_BOOL; }

static bool fits(const struct ak_op_arg *a, const struct ak_val *v) {
    if (v->kind == AK_VAL_NONE) return a->optional || starts(a->type, "Generator");
    if (starts(a->type, "Tensor[") || starts(a->type, "Tensor?[")) return v->kind == AK_VAL_TENSORS;
    if (starts(a->type, "Tensor")) return v->kind == AK_VAL_TENSOR || is_number(v->kind); /* a number as the exporter leaves it */
    if (starts(a->type, "int[") || starts(a->type, "bool["))
        return v->kind == AK_VAL_INTS || v->kind == AK_VAL_INT || (v->kind == AK_VAL_FLOATS && v->floats.n == 0);
    if (starts(a->type, "float[")) return v->kind == AK_VAL_FLOATS || (v->kind == AK_VAL_INTS && v->ints.n == 0);
    if (starts(a->type, "ScalarType")) return v->kind == AK_VAL_INT && v->i >= 0 && v->i < AK_DTYPE_COUNT;
    if (starts(a->type, "str")) return v->kind == AK_VAL_STR;
    if (starts(a->type, "float") || starts(a->type, "Scalar") || starts(a->type, "bool")) return is_number(v->kind);
    if (starts(a->type, "int")) return v->kind == AK_VAL_INT || v->kind == AK_VAL_BOOL;
    return v->kind != AK_VAL_TENSOR && v->kind != AK_VAL_TENSORS; /* Device, Layout, MemoryFormat */
}

static int check_args(const struct ak_opcall *c, struct ak_err *err) {
    if (c->nin != c->op->nargs) return ak_bad(err, "%zu arguments given, %zu wanted", c->nin, c->op->nargs);
    for (size_t i = 0; i < c->nin; i++)
        if (!fits(&c->op->args[i], &c->in[i]))
            return ak_bad(err, "argument '%s' (%s) is %s", c->op->args[i].name, c->op->args[i].type, kind_names[c->in[i].kind]);
    return 0;
}

static void append(char *buf, size_t size, const char *s) {
    size_t n = strlen(buf);
    snprintf(buf + n, size - n, "%s", s);
}

/* "aten.mm.default(f32[2,3], f32[4,5])" */
static int in_call(const struct ak_opcall *c, struct ak_err *err) {
    char shapes[480] = "", one[160];
    for (size_t i = 0; i < c->nin; i++) {
        size_t n = c->in[i].kind == AK_VAL_TENSORS ? c->in[i].ts.n : c->in[i].kind == AK_VAL_TENSOR;
        for (size_t j = 0; j < n; j++) {
            const struct ak_tensor *t = c->in[i].kind == AK_VAL_TENSOR ? c->in[i].t : c->in[i].ts.v[j];
            if (*shapes) append(shapes, sizeof shapes, ", ");
            append(shapes, sizeof shapes, t ? ak_tensor_describe(t, one) : "none");
        }
    }
    return ak_fail_in(err, "%s(%s)", c->op->name, shapes);
}

int ak_op_infer(struct ak_opcall *call, struct ak_err *err) {
    const struct ak_op *op = ak_op_meaning(call->op);
    call->nout = 0;
    call->is_int = false;
    memset(call->alias, 0, sizeof call->alias);
    if (check_args(call, err) || op->infer(call, err)) return in_call(call, err);
    for (size_t i = 0; i < call->nout; i++) {
        const struct ak_tensor *t = &call->out[i];
        int64_t n = ak_extent(t), bytes;
        if (n < 0 || __builtin_mul_overflow(n, (int64_t)ak_dtype_size(t->dtype), &bytes)) {
            ak_bad(err, "its result is too large");
            return in_call(call, err);
        }
    }
    return 0;
}

int ak_op_run(struct ak_opcall *call, struct ak_err *err) {
    const struct ak_op *op = ak_op_meaning(call->op);
    bool work = false;
    for (size_t i = 0; i < call->nout; i++)
        work |= !call->alias[i];
    if (!work || !op->run) return 0;
    return op->run(call, err) ? in_call(call, err) : 0;
}

double ak_op_flops(const struct ak_opcall *call) {
    const struct ak_op *op = ak_op_meaning(call->op);
    if (op->flops) return op->flops(call);
    return op->flags & AK_OP_POINTWISE && call->nout ? (double)ak_numel(&call->out[0]) : 0;
}
