/* ak-import: a model as a graph of ATen ops.
 *
 *     ak-import [-qv] [-o FILE] [--input SHAPE] [--dtype D] [--device D] [--run-name] MODEL
 *
 *     ak-import model.pt2 | ak-profile - | ak-rank plan -
 *
 * MODEL is a name in models/, a .lua file like those, or a .pt2 file. The graph says where each
 * weight's bytes lie; it holds none but small constants. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builder.h"
#include "file.h"
#include "graph.h"
#include "option.h"
#include "pt2.h"
#include "rules.h"
#include "zip.h"

/* Constants beyond this are computed anew in every run. */
enum { FOLD_LIMIT = 1 << 20 };

static const char *out_path = "-", *input, *dtype, *device = "cpu";
static bool run_name;
static const struct ak_option options[] = {
    {'o', "output", "FILE", "write the graph there", AK_OPT_STR, &out_path},
    {'i', "input", "SHAPE", "shape of the inputs: 1,128 or 1,128;1,128 or ids=1,128;mask=1,128", AK_OPT_STR, &input},
    {'d', "dtype", "TYPE", "element type of a model in Lua: f32, f16, bf16; a .pt2 keeps its own", AK_OPT_STR, &dtype},
    {0, "device", "DEVICE", "whose default shape and type a model in Lua takes", AK_OPT_STR, &device},
    {0, "run-name", NULL, "print the folder a run of it goes to, NAME/DEVICE-DTYPE-SHAPE, and no graph", AK_OPT_FLAG, &run_name},
    {0}};

/* ---- which model ---- */

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Other files there are parts that models share. */
static bool is_model(const char *dir, const char *file) {
    char *path = ak_path_join(dir, file), *text;
    struct ak_err err;
    size_t len;
    bool is = false;
    if (ends_with(file, ".lua") && (text = ak_file_read(path, 1 << 20, &len, &err))) {
        is = strstr(text, "build = ") != NULL;
        free(text);
    }
    free(path);
    return is;
}

/* "gpt2, llama-mini": what is in models/. */
static char *list_models(void) {
    char *path = ak_path_join(ak_home(), "models"), **names = NULL, *text = ak_strdup("");
    DIR *dir = opendir(path);
    struct dirent *e;
    size_t n = 0, cap = 0;
    while (dir && (e = readdir(dir)))
        if (is_model(path, e->d_name)) {
            AK_GROW(names, n, cap);
            names[n] = ak_strdup(e->d_name);
            names[n++][strlen(e->d_name) - 4] = '\0';
        }
    if (dir) closedir(dir);
    if (n) qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        char *more = ak_asprintf("%s%s%s", text, i ? ", " : "", names[i]);
        free(text);
        free(names[i]);
        text = more;
    }
    free(names);
    free(path);
    return text;
}

static char *model_file(const char *name) {
    char *file = ak_asprintf("%s/models/%s.lua", ak_home(), name);
    if (!strchr(name, '/') && ak_file_exists(file)) return file;
    free(file);
    return NULL;
}

static void no_model(const char *name) __attribute__((noreturn));
static void no_model(const char *name) {
    ak_warn("there is no model '%s'%s", name, strchr(name, '/') || ends_with(name, ".pt2") ? " (no such file)" : "");
    ak_die(AK_EXIT_INPUT, "models here: %s; else give a .pt2 file (torch.export.save) or a .lua file", list_models());
}

static void not_read(const char *path, const char *what) __attribute__((noreturn));
static void not_read(const char *path, const char *what) {
    ak_die(AK_EXIT_INPUT, "'%s' is %s, which is not read yet: give a .pt2 file (torch.export.save), a .lua file, or one of %s", path, what,
           list_models());
}

static void refuse_other(const char *path) {
    struct stat st;
    if (stat(path, &st)) ak_die_errno(AK_EXIT_INPUT, "cannot read '%s'", path);
    if (S_ISDIR(st.st_mode)) not_read(path, "a folder (of HuggingFace's kind?)");
    struct ak_err err = {0};
    struct ak_map m;
    if (ak_map_open(&m, path, &err)) ak_die_err(&err);
    if (m.size >= 4 && memcmp(m.data, "GGUF", 4) == 0) not_read(path, "a GGUF file");
    ak_map_close(&m);
    if (ends_with(path, ".safetensors")) not_read(path, "a file of weights without a graph");
    if (ends_with(path, ".onnx")) not_read(path, "an ONNX file");
}

/* ---- shapes ---- */

static void read_dims(const char *text, size_t len, struct ak_tensor *t, const char *name) {
    int64_t shape[AK_MAX_DIMS];
    int n = 0;
    for (const char *p = text, *end = text + len; p <= end;) {
        char *stop;
        long long v = strtoll(p, &stop, 10);
        if (stop == p || v < 0 || (stop != end && *stop != ',')) ak_usage_error("--input: '%.*s' is not a shape like 1,128", (int)len, text);
        if (n == AK_MAX_DIMS) ak_usage_error("--input: '%.*s' has more than %d dimensions", (int)len, text, AK_MAX_DIMS);
        shape[n++] = v;
        p = stop + 1;
    }
    if (n != t->ndim) ak_usage_error("--input: input '%s' has %d dimensions, not %d", name, t->ndim, n);
    *t = ak_tensor_new(t->dtype, n, shape);
}

static size_t input_named(const struct ak_graph *g, const char *name, size_t len) {
    for (size_t i = 0; i < g->ninputs; i++)
        if (strlen(g->values[g->inputs[i]].name) == len && strncmp(g->values[g->inputs[i]].name, name, len) == 0) return i;
    ak_usage_error("--input: the model has no input '%.*s' (its first is '%s')", (int)len, name,
                   g->ninputs ? g->values[g->inputs[0]].name : "none");
}

static void bind_shapes(struct ak_graph *g, const char *text) {
    struct ak_tensor *shapes = ak_malloc((g->ninputs + 1) * sizeof *shapes);
    struct ak_err err = {0};
    for (size_t i = 0; i < g->ninputs; i++)
        shapes[i] = g->values[g->inputs[i]].t;
    size_t place = 0;
    for (const char *p = text; *p; p += *p == ';') {
        size_t len = strcspn(p, ";"), name = strcspn(p, "=");
        size_t i = name < len ? input_named(g, p, name) : place++;
        if (i >= g->ninputs) ak_usage_error("--input: the model has %zu input%s", g->ninputs, g->ninputs == 1 ? "" : "s");
        size_t skip = name < len ? name + 1 : 0;
        read_dims(p + skip, len - skip, &shapes[i], g->values[g->inputs[i]].name);
        p += len;
    }
    if (ak_graph_bind(g, shapes, &err)) ak_die_err(&err);
    free(shapes);
}

static void check_dtype(const struct ak_graph *g, const char *name, const char *path) {
    int d = ak_dtype_from_name(name), has = -1;
    if (d < 0 || !ak_dtype_is_float((enum ak_dtype)d)) ak_usage_error("--dtype: '%s' is not one of f32, f16, bf16", name);
    for (size_t i = 0; i < g->nvalues; i++) {
        const struct ak_value *v = &g->values[i];
        if (v->kind == AK_VALUE_NODE || v->kind == AK_VALUE_INT || !ak_dtype_is_float(v->t.dtype)) continue;
        if ((int)v->t.dtype == d) return;
        if (has < 0) has = v->t.dtype;
    }
    if (has >= 0)
        ak_die(AK_EXIT_INPUT, "'%s' is %s, not %s: a .pt2 keeps the type it was exported in", path, ak_dtype_name((enum ak_dtype)has), name);
}

/* ---- readers ---- */

static const char *spilled; /* what ak_pt2_read has written beside the output */

static void give_up(void) {
    if (spilled) unlink(spilled);
}

static void import_pt2(struct ak_graph *g, const char *path, char *spill) {
    struct ak_pt2_options opt = {.spill = spill, .no_data = run_name};
    struct ak_err err = {0};
    if (ak_pt2_read(g, path, &opt, &err)) ak_die_err(&err);
    if (opt.spilled) {
        spilled = spill;
        atexit(give_up); /* unless the graph comes to be as well */
    }
    if (*opt.warning) ak_warn("%s", opt.warning);
    if (dtype) check_dtype(g, dtype, path);
    if (input) bind_shapes(g, input);
}

static void import_lua(struct ak_graph *g, const char *path) {
    struct ak_err err = {0};
    if (ak_model_lua(g, path, input, dtype, device, &err)) ak_die_err(&err);
}

static void import(struct ak_graph *g, const char *model, char *spill) {
    char *file = model_file(model);
    if (!file && !ak_file_exists(model)) no_model(model);
    const char *path = file ? file : model;
    if (!file) refuse_other(path);
    if (ends_with(path, ".lua"))
        import_lua(g, path);
    else
        import_pt2(g, path, spill);
    free(file);
}

static void summarise(const struct ak_graph *g) {
    int64_t bytes = 0;
    size_t weights = 0;
    char shape[160];
    for (size_t i = 0; i < g->nvalues; i++) {
        const struct ak_value *v = &g->values[i];
        if (v->kind != AK_VALUE_FILE && v->kind != AK_VALUE_RANDOM) continue;
        weights++;
        if (!v->view_of) bytes += v->kind == AK_VALUE_FILE ? v->bytes : ak_numel(&v->t) * (int64_t)ak_dtype_size(v->t.dtype);
    }
    fprintf(stderr, "%s: %s: %zu nodes, %zu weights (%.1f MB)", ak_tool, g->name, g->nnodes, weights, (double)bytes / 1e6);
    for (size_t i = 0; i < g->ninputs; i++)
        fprintf(stderr, ", %s %s", g->values[g->inputs[i]].name, ak_tensor_describe(&g->values[g->inputs[i]].t, shape));
    fputc('\n', stderr);
}

/* ---- the run's folder ---- */

/* The type that most bytes of its weights have, or its inputs where it has none. */
static enum ak_dtype main_dtype(const struct ak_graph *g) {
    double bytes[AK_DTYPE_COUNT] = {0};
    int best = AK_F32;
    for (size_t i = 0; i < g->nvalues; i++) {
        const struct ak_value *v = &g->values[i];
        if (v->kind == AK_VALUE_NODE || v->kind == AK_VALUE_INT || v->view_of || !ak_dtype_is_float(v->t.dtype)) continue;
        bytes[v->t.dtype] += v->kind == AK_VALUE_INPUT ? 1e-9 * (double)ak_tensor_bytes(&v->t) : (double)ak_tensor_bytes(&v->t);
    }
    for (int d = 0; d < AK_DTYPE_COUNT; d++)
        if (bytes[d] > bytes[best]) best = d;
    return (enum ak_dtype)best;
}

static void print_run_name(const struct ak_graph *g) {
    for (const char *p = g->name; *p; p++)
        putchar(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-", *p) ? *p : '_');
    printf("/%s-%s", device, ak_dtype_name(main_dtype(g)));
    for (size_t i = 0; i < g->ninputs && i < 4; i++) {
        const struct ak_tensor *t = &g->values[g->inputs[i]].t;
        putchar(i ? '_' : '-');
        for (int d = 0; d < t->ndim; d++)
            printf("%s%lld", d ? "x" : "", (long long)t->shape[d]);
    }
    putchar('\n');
    if (fflush(stdout)) ak_die_errno(AK_EXIT_IO, "cannot write standard output");
}

static void write_graph(struct ak_graph *g) {
    struct ak_out out;
    struct ak_err err = {0};
    if (ak_graph_normalise(g, FOLD_LIMIT, &err)) ak_die_err(&err);
    if (ak_out_open(&out, out_path, &err)) ak_die_err(&err);
    if (ak_graph_write(g, out.f)) {
        ak_out_abandon(&out);
        ak_die_errno(AK_EXIT_IO, "cannot write '%s'", out_path);
    }
    if (ak_out_close(&out, &err)) ak_die_err(&err);
    spilled = NULL;
    if (!ak_option_quiet) summarise(g);
}

int main(int argc, char **argv) {
    int first = ak_options(argc, argv, "MODEL", "Reads a model (a name in models/, a .lua file, a .pt2 file) and writes its graph.", options);
    if (argc - first != 1) ak_usage_error(argc == first ? "which model? here are: %s" : "one model at a time", list_models());
    char *spill = strcmp(out_path, "-") ? ak_asprintf("%s.weights", out_path) : NULL;
    struct ak_graph g;
    ak_graph_init(&g);
    import(&g, argv[first], spill);
    if (run_name)
        print_run_name(&g);
    else
        write_graph(&g);
    ak_graph_release(&g);
    free(spill);
    return AK_EXIT_YES;
}
