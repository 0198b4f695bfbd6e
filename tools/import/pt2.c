/* The archive: which folder, which model, where each weight's bytes lie, what goes in and out. */
#include "pt2.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "pt2_read.h"
#include "zip.h"

enum { MAX_JSON = 256 << 20, MAX_INLINE = 1 << 20 };

struct pt2 {
    struct ak_graph *g;
    struct ak_pt2_options *opt;
    struct ak_err *err;
    struct ak_zip zip;
    const char *root;  /* "" or "name/" */
    const char *model; /* "model" */
    cJSON *doc, *configs[2];
    struct pt2_index weights, constants;
    struct ak_names storages; /* member name -> id of the first value over it */
    struct ak_out out;        /* the spill */
    int64_t spilled;
    bool spills; /* else compressed weights go into the graph */
};

static int fail(struct pt2 *p, const char *what) { return ak_fail(p->err, AK_EXIT_INPUT, "%s", what); }

/* ---- the folder in the archive ---- */

static const char *in_root(struct pt2 *p, const char *a, const char *b, const char *c) {
    char *s = ak_asprintf("%s%s%s%s", p->root, a, b, c), *kept = ak_arena_strdup(&p->zip.arena, s);
    free(s);
    return kept;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* A PT2 archive has models/NAME.json at its top or in its one folder. */
static bool find_root(struct pt2 *p) {
    for (size_t i = 0; i < p->zip.n; i++) {
        const char *name = p->zip.members[i].name, *models = strstr(name, "models/");
        if (!models || !ends_with(name, ".json") || strchr(models + 7, '/')) continue;
        if (models != name && (models[-1] != '/' || memchr(name, '/', (size_t)(models - name - 1)))) continue;
        char *root = ak_arena_strdup(&p->zip.arena, name);
        root[models - name] = '\0';
        p->root = root;
        return true;
    }
    return false;
}

/* What else a zip file from PyTorch may be. */
static int not_pt2(struct pt2 *p) {
    static const struct {
        const char *end, *what;
    } others[] = {
        {"serialized_exported_program.json", "was exported by torch 2.7 or older: re-export it with torch >= 2.9"},
        {"serialized_state_dict.pt", "was exported by torch 2.7 or older: re-export it with torch >= 2.9"},
        {"constants.pkl", "is a TorchScript file, which has no ATen graph to read: export the model with torch.export.save"},
        {"data.pkl", "is a torch.save file, which holds weights but no graph: export the model with torch.export.save"},
        {"model.safetensors.index.json", "is an archive of a HuggingFace folder, which is not read"},
    };
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        for (size_t i = 0; i < p->zip.n; i++)
            if (ends_with(p->zip.members[i].name, others[k].end))
                return ak_fail(p->err, AK_EXIT_INPUT, "'%s' %s", p->zip.path, others[k].what);
    return ak_fail(p->err, AK_EXIT_INPUT, "'%s' is a zip file, but holds no exported model (models/NAME.json)", p->zip.path);
}

static int find_model(struct pt2 *p) {
    const char *dir = in_root(p, "models/", "", "");
    size_t n = 0;
    char names[256] = "";
    for (size_t i = 0; i < p->zip.n; i++) {
        const char *name = p->zip.members[i].name;
        if (strncmp(name, dir, strlen(dir)) || !ends_with(name, ".json") || strchr(name + strlen(dir), '/')) continue;
        char *model = ak_arena_strdup(&p->zip.arena, name + strlen(dir));
        model[strlen(model) - 5] = '\0';
        if (!n || strcmp(model, "model") == 0) p->model = model;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", n++ ? ", " : "", model);
    }
    if (n > 1 && strcmp(p->model, "model"))
        return ak_fail(p->err, AK_EXIT_INPUT, "'%s' holds %zu models (%s): save one in a file of its own", p->zip.path, n, names);
    return 0;
}

static cJSON *read_json(struct pt2 *p, const char *name) {
    const struct ak_zip_member *m = ak_zip_find(&p->zip, name);
    if (!m) {
        ak_fail(p->err, AK_EXIT_INPUT, "'%s' lacks '%s'", p->zip.path, name);
        return NULL;
    }
    char *text = ak_zip_read(&p->zip, m, MAX_JSON, p->err), *where = ak_asprintf("%s: %s", p->zip.path, name);
    cJSON *o = text ? ak_json_parse(text, (size_t)m->bytes, where, p->err) : NULL;
    free(where);
    free(text);
    return o;
}

static int check_byteorder(struct pt2 *p) {
    const struct ak_zip_member *m = ak_zip_find(&p->zip, in_root(p, "byteorder", "", ""));
    char *text = m ? ak_zip_read(&p->zip, m, 64, p->err) : NULL;
    int rc = m && (!text || strncmp(text, "little", 6)) ? -1 : 0;
    if (text && rc) ak_fail(p->err, AK_EXIT_INPUT, "'%s': its weights are %.20s-endian", p->zip.path, text);
    free(text);
    return rc;
}

static int read_config(struct pt2 *p, const char *folder, const char *kind, int i, struct pt2_index *x) {
    const char *name = in_root(p, folder, p->model, kind);
    if (!ak_zip_find(&p->zip, name)) {
        if (ak_zip_find(&p->zip, in_root(p, folder, p->model, ".pt")))
            return ak_fail(p->err, AK_EXIT_INPUT, "'%s' was exported by torch 2.8: re-export it with torch >= 2.9", p->zip.path);
        if (i) return 0; /* no constants */
    }
    p->configs[i] = read_json(p, name);
    if (!p->configs[i]) return -1;
    return pt2_index_init(x, ak_json_get(p->configs[i], "config"), name, p->err);
}

static int read_documents(struct pt2 *p) {
    const char *name = in_root(p, "models/", p->model, ".json");
    int64_t major = -1;
    if (check_byteorder(p) || !(p->doc = read_json(p, name))) return -1;
    const cJSON *version = ak_json_get(p->doc, "schema_version");
    if (version && ak_json_i64(version, "major", &major, p->err)) return -1;
    if (major != 8)
        return ak_fail(p->err, AK_EXIT_INPUT, "'%s' has schema version %lld, not 8: re-export it with torch >= 2.9", p->zip.path, (long long)major);
    return read_config(p, "data/weights/", "_weights_config.json", 0, &p->weights) ||
           read_config(p, "data/constants/", "_constants_config.json", 1, &p->constants);
}

/* ---- weights ---- */

static bool is_data(const struct pt2 *p, const char *name) {
    size_t n = strlen(p->root);
    return strncmp(name, p->root, n) == 0 &&
           (strncmp(name + n, "data/weights/", 13) == 0 || strncmp(name + n, "data/constants/", 15) == 0) && !ends_with(name, ".json");
}

static void plan_spill(struct pt2 *p) {
    uint64_t total = 0;
    for (size_t i = 0; i < p->zip.n; i++)
        if (p->zip.members[i].deflated && is_data(p, p->zip.members[i].name)) total += p->zip.members[i].bytes;
    p->spills = total > MAX_INLINE;
}

static int add_file(struct pt2 *p, const char *path) {
    struct ak_graph *g = p->g;
    char **files = ak_arena_alloc(&g->arena, (g->nfiles + 1) * sizeof *files);
    if (g->nfiles) memcpy(files, g->files, g->nfiles * sizeof *files);
    char *full = realpath(path, NULL);
    files[g->nfiles] = ak_arena_strdup(&g->arena, full ? full : path);
    free(full);
    g->files = files;
    return (int)g->nfiles++;
}

static int write_piece(void *arg, const void *data, size_t n) { return fwrite(data, 1, n, arg) != n; }

/* Appends a member's bytes to the spill, at a multiple of 64. */
static int spill(struct pt2 *p, const struct ak_zip_member *m, struct ak_value *v) {
    static const char zeros[64];
    if (!p->opt->spill)
        return ak_fail(p->err, AK_EXIT_INPUT,
                       "'%s': weight '%s' is compressed: give -o FILE, so that weights can be unpacked beside it, or pack the archive with zip -0",
                       p->zip.path, m->name);
    if (!p->out.f && ak_out_open(&p->out, p->opt->spill, p->err)) return -1;
    size_t pad = (size_t)(-p->spilled & 63);
    if (fwrite(zeros, 1, pad, p->out.f) != pad) return ak_fail_errno(p->err, AK_EXIT_IO, "cannot write '%s'", p->opt->spill);
    p->spilled += (int64_t)pad;
    if (ak_zip_stream(&p->zip, m, write_piece, p->out.f, p->err)) return -1;
    if (ferror(p->out.f)) return ak_fail_errno(p->err, AK_EXIT_IO, "cannot write '%s'", p->opt->spill);
    v->file = 1;
    v->at = p->spilled;
    v->bytes = (int64_t)m->bytes;
    p->spilled += v->bytes;
    return 0;
}

static int place(struct pt2 *p, const struct ak_zip_member *m, int id) {
    struct ak_value *v = &p->g->values[id];
    if (m->bytes > INT64_MAX / 2) return fail(p, "it is too large");
    v->bytes = (int64_t)m->bytes;
    v->at = (int64_t)m->at;
    v->file = 0;
    if (!m->deflated || p->opt->no_data) return 0;
    if (p->spills) return spill(p, m, v);
    char *bytes = ak_zip_read(&p->zip, m, MAX_INLINE, p->err);
    if (!bytes) return -1;
    v->kind = AK_VALUE_INLINE;
    v->data = memcpy(ak_arena_alloc(&p->g->arena, (size_t)m->bytes + 1), bytes, (size_t)m->bytes);
    free(bytes);
    return 0;
}

static bool same_tensor(const struct ak_tensor *a, const struct ak_tensor *b) {
    return a->dtype == b->dtype && ak_same_shape(a, b) && a->offset == b->offset &&
           memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride) == 0;
}

/* A value over a member's bytes; entries over the same bytes share them. */
static int new_weight(struct pt2 *p, const char *name, const struct ak_zip_member *m, const struct ak_tensor *t, int *id) {
    int first = ak_names_find(&p->storages, m->name);
    if (ak_extent(t) < 0 || (uint64_t)ak_extent(t) > m->bytes / ak_dtype_size(t->dtype))
        return ak_fail(p->err, AK_EXIT_INPUT, "it reaches past the %llu bytes of '%s'", (unsigned long long)m->bytes, m->name);
    if (first >= 0 && same_tensor(&p->g->values[first].t, t)) {
        *id = first;
        return 0;
    }
    *id = ak_graph_add_value(p->g, name, AK_VALUE_FILE, *t);
    if (first >= 0) {
        struct ak_value *v = &p->g->values[*id], *root = &p->g->values[first];
        v->kind = root->kind;
        v->file = root->file;
        v->at = root->at;
        v->bytes = root->bytes;
        v->data = root->data;
        if (v->t.dtype == root->t.dtype) v->view_of = first + 1;
        return 0;
    }
    ak_names_add(&p->storages, m->name, *id);
    return place(p, m, *id);
}

static int read_weight(struct pt2 *p, const char *name, const char *fqn, bool constant, int *id) {
    const struct pt2_index *x = constant ? &p->constants : &p->weights;
    const cJSON *e = pt2_index_get(x, fqn);
    const char *path;
    bool pickled;
    struct pt2_meta m;
    if (!e) return fail(p, "the archive has no entry for it");
    if (ak_json_str(e, "path_name", &path, p->err)) return -1;
    if (ak_json_get(e, "use_pickle") && ak_json_bool(e, "use_pickle", &pickled, p->err) == 0 && pickled)
        return fail(p, "it is pickled (a tensor subclass or an object of Python), which is not read");
    if (pt2_meta_read(ak_json_get(e, "tensor_meta"), &m, p->err)) return -1;
    if (!m.known) return fail(p, "its shape is not fixed");
    const char *member = in_root(p, constant ? "data/constants/" : "data/weights/", path, "");
    const struct ak_zip_member *zm = ak_zip_find(&p->zip, member);
    if (!zm) return ak_fail(p->err, AK_EXIT_INPUT, "the archive lacks '%s'", member);
    return new_weight(p, name, zm, &m.t, id);
}

/* ---- inputs ---- */

static int append_id(struct ak_graph *g, int **ids, size_t *n, int id) {
    int *more = ak_arena_alloc(&g->arena, (*n + 1) * sizeof *more);
    if (*n) memcpy(more, *ids, *n * sizeof *more);
    more[(*n)++] = id;
    *ids = more;
    return 0;
}

/* "Symbol('s77', positive=True, integer=True)" -> "s77"; NULL for other expressions. */
static char *symbol_name(struct ak_arena *arena, const char *expr) {
    if (strncmp(expr, "Symbol('", 8)) return NULL;
    char *name = ak_arena_strdup(arena, expr + 8);
    char *end = strchr(name, '\'');
    if (!end || strchr(end + 1, '(')) return NULL;
    *end = '\0';
    return name;
}

static int add_symbol(struct pt2 *p, char *name, int64_t value) {
    struct ak_graph *g = p->g;
    for (size_t i = 0; i < g->nsymbols; i++)
        if (strcmp(g->symbols[i].name, name) == 0)
            return g->symbols[i].value == value ? 0 : ak_fail(p->err, AK_EXIT_INPUT, "symbol '%s' has two values", name);
    struct ak_symbol *more = ak_arena_alloc(&g->arena, (g->nsymbols + 1) * sizeof *more), *s = &more[g->nsymbols];
    if (g->nsymbols) memcpy(more, g->symbols, g->nsymbols * sizeof *more);
    *s = (struct ak_symbol){.name = name, .value = value, .min = 0, .max = INT64_MAX};
    const cJSON *range = ak_json_get(ak_json_get(p->doc, "range_constraints"), name);
    const cJSON *min = ak_json_get(range, "min_val"), *max = ak_json_get(range, "max_val");
    if (cJSON_IsNumber(min) && ak_json_as_i64(min, &s->min, p->err)) return -1;
    if (cJSON_IsNumber(max) && ak_json_as_i64(max, &s->max, p->err)) return -1;
    g->symbols = more;
    g->nsymbols++;
    return 0;
}

static int new_input(struct pt2 *p, const struct pt2_scope *s, const char *name, int *id) {
    struct pt2_meta m;
    const cJSON *meta = pt2_index_get(&s->tensors, name);
    if (!meta) return fail(p, "it has no entry in tensor_values");
    if (pt2_meta_read(meta, &m, p->err)) return -1;
    bool symbolic = false;
    for (int d = 0; d < m.t.ndim; d++) {
        if (m.t.shape[d] < 0) return ak_fail(p->err, AK_EXIT_INPUT, "dimension %d has no value (no hint in the file)", d);
        symbolic |= m.sym[d] != NULL;
    }
    if (symbolic || !m.known) ak_tensor_pack(&m.t);
    m.t.offset = 0;
    *id = ak_graph_add_value(p->g, name, AK_VALUE_INPUT, m.t);
    if (ak_extent(&m.t) < 0) return fail(p, "it is too large");
    struct ak_value *v = &p->g->values[*id];
    v->hi = ak_dtype_is_float(v->t.dtype) ? 0 : 2;
    for (int d = 0; d < m.t.ndim; d++) {
        if (!m.sym[d]) continue;
        v->sym[d] = symbol_name(&p->g->arena, m.sym[d]);
        if (v->sym[d] && add_symbol(p, v->sym[d], m.t.shape[d])) return -1;
        if (!v->sym[d]) v->sym[d] = ak_arena_strdup(&p->g->arena, m.sym[d]);
    }
    return append_id(p->g, &p->g->inputs, &p->g->ninputs, *id);
}

static int read_user_input(struct pt2 *p, struct pt2_scope *s, const cJSON *arg) {
    const cJSON *t = ak_json_get(arg, "as_tensor");
    const char *name;
    int id = -1;
    if (!cJSON_IsObject(arg) || !arg->child) return fail(p, "a user input has no argument");
    if (!t) { /* a constant that the exporter has built into the graph */
        static const char *const constants[] = {"as_none", "as_int", "as_float", "as_bool", "as_string"};
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
            if (strcmp(arg->child->string, constants[i]) == 0) return 0;
        return ak_fail(p->err, AK_EXIT_INPUT, "a user input of kind '%s' is not supported", arg->child->string);
    }
    if (ak_json_str(t, "name", &name, p->err)) return -1;
    if (new_input(p, s, name, &id)) return ak_fail_in(p->err, "input '%s'", name);
    return pt2_scope_add(s, name, id);
}

static int read_stored(struct pt2 *p, struct pt2_scope *s, const cJSON *spec, const char *key, bool constant) {
    const char *name, *fqn;
    int id = -1;
    const cJSON *arg = ak_json_get(spec, "arg");
    if (ak_json_str(arg, "name", &name, p->err) || ak_json_str(spec, key, &fqn, p->err)) return -1;
    if (read_weight(p, name, fqn, constant, &id)) return ak_fail_in(p->err, "weight '%s'", fqn);
    return pt2_scope_add(s, name, id);
}

static int read_buffer(struct pt2 *p, struct pt2_scope *s, const cJSON *spec) {
    bool persistent = true;
    if (ak_json_get(spec, "persistent") && ak_json_bool(spec, "persistent", &persistent, p->err)) return -1;
    return read_stored(p, s, spec, "buffer_name", !persistent);
}

static int read_input_spec(struct pt2 *p, struct pt2_scope *s, const cJSON *o) {
    if (!cJSON_IsObject(o) || !o->child) return fail(p, "an input spec is not an object of one key");
    const char *key = o->child->string;
    if (strcmp(key, "user_input") == 0) return read_user_input(p, s, ak_json_get(o->child, "arg"));
    if (strcmp(key, "parameter") == 0) return read_stored(p, s, o->child, "parameter_name", false);
    if (strcmp(key, "buffer") == 0) return read_buffer(p, s, o->child);
    if (strcmp(key, "tensor_constant") == 0) return read_stored(p, s, o->child, "tensor_constant_name", true);
    if (strcmp(key, "constant_input") == 0) return 0;
    return ak_fail(p->err, AK_EXIT_INPUT, "an input of kind '%s' is not supported", key);
}

/* ---- outputs ---- */

static void warn_mutation(struct pt2 *p, const cJSON *spec, size_t *n) {
    const cJSON *name = ak_json_get(spec, "buffer_name");
    size_t used = strlen(p->opt->warning);
    if (!cJSON_IsString(name)) name = ak_json_get(spec, "user_input_name");
    if ((*n)++ > 3) return;
    snprintf(p->opt->warning + used, sizeof p->opt->warning - used, "%s'%.60s'%s", used ? ", " : "", cJSON_IsString(name) ? name->valuestring : "?",
             *n == 4 ? " and others" : "");
}

static int read_output_specs(struct pt2 *p, const struct pt2_scope *s, const cJSON *specs) {
    const cJSON *o;
    size_t mutated = 0;
    cJSON_ArrayForEach(o, specs) {
        if (!cJSON_IsObject(o) || !o->child) return fail(p, "an output spec is not an object of one key");
        const char *key = o->child->string;
        if (ends_with(key, "_mutation")) {
            warn_mutation(p, o->child, &mutated);
            continue;
        }
        if (strcmp(key, "user_output") && strcmp(key, "loss_output"))
            return ak_fail(p->err, AK_EXIT_INPUT, "an output of kind '%s' is not supported", key);
        int ids[AK_MAX_OUTS], n = pt2_output_ids(s, ak_json_get(o->child, "arg"), ids, AK_MAX_OUTS);
        if (n < 0) return ak_fail_in(p->err, "outputs");
        for (int i = 0; i < n; i++) {
            if (p->g->values[ids[i]].kind == AK_VALUE_INT) return fail(p, "an output is no tensor");
            append_id(p->g, &p->g->outputs, &p->g->noutputs, ids[i]);
        }
    }
    size_t used = strlen(p->opt->warning);
    if (mutated)
        snprintf(p->opt->warning + used, sizeof p->opt->warning - used, " would be changed by a run; here every run starts from the values in the file");
    return p->g->noutputs ? 0 : fail(p, "the model has no outputs");
}

/* ---- all of it ---- */

static int read_program(struct pt2 *p) {
    const cJSON *module = ak_json_get(p->doc, "graph_module"), *graph = ak_json_get(module, "graph"), *specs, *outs, *o;
    const cJSON *signature = ak_json_get(module, "signature");
    if (!cJSON_IsObject(graph) || !cJSON_IsObject(signature)) return fail(p, "field 'graph' or 'signature' is missing");
    if (ak_json_array(signature, "input_specs", &specs, p->err) || ak_json_array(signature, "output_specs", &outs, p->err)) return -1;
    if (!cJSON_IsArray(ak_json_get(graph, "nodes"))) return fail(p, "field 'nodes' is missing");
    if (pt2_check_ops(graph, p->err)) return -1;
    struct ak_names node_names = {0};
    struct pt2_scope s;
    int rc = pt2_scope_init(&s, p->g, graph, "", &node_names, p->err);
    if (!rc) cJSON_ArrayForEach(o, specs) if ((rc = read_input_spec(p, &s, o))) break;
    if (!rc) rc = pt2_nodes_read(&s, graph);
    if (!rc) rc = read_output_specs(p, &s, outs);
    pt2_scope_release(&s);
    ak_names_release(&node_names);
    if (!rc) pt2_bound_inputs(p->g);
    return rc;
}

static int read_archive(struct pt2 *p, const char *path) {
    if (!ak_zip_is(path)) {
        struct ak_map m; /* says what is wrong with the file itself */
        if (ak_map_open(&m, path, p->err)) return -1;
        bool pickle = m.size > 1 && m.data[0] == 0x80 && m.data[1] <= 5;
        ak_map_close(&m);
        return ak_fail(p->err, AK_EXIT_INPUT, "'%s' is not a .pt2 archive%s", path,
                       pickle ? ": it is a pickle, as old torch.save wrote; export the model with torch.export.save" : " (it is no zip file)");
    }
    if (ak_zip_open(&p->zip, path, p->err)) return -1;
    if (!find_root(p)) return not_pt2(p);
    if (find_model(p) || read_documents(p)) return -1;
    plan_spill(p);
    add_file(p, path);
    return read_program(p) ? ak_fail_in(p->err, "'%s'", path) : 0;
}

static int close_spill(struct pt2 *p) {
    if (!p->out.f) return 0;
    if (ak_out_close(&p->out, p->err)) return -1;
    p->opt->spilled = true;
    add_file(p, p->opt->spill);
    return 0;
}

static void set_names(struct ak_graph *g, const char *path) {
    const char *slash = strrchr(path, '/');
    g->source = ak_arena_strdup(&g->arena, path);
    g->name = ak_arena_strdup(&g->arena, slash ? slash + 1 : path);
    size_t n = strlen(g->name);
    if (n > 4 && strcmp(g->name + n - 4, ".pt2") == 0) g->name[n - 4] = '\0';
}

int ak_pt2_read(struct ak_graph *g, const char *path, struct ak_pt2_options *opt, struct ak_err *err) {
    struct pt2 p = {.g = g, .opt = opt, .err = err, .zip = {.fd = -1}};
    ak_graph_init(g);
    set_names(g, path);
    opt->spilled = false;
    opt->warning[0] = '\0';
    int rc = read_archive(&p, path);
    if (!rc) rc = close_spill(&p);
    ak_out_abandon(&p.out);
    pt2_index_release(&p.weights);
    pt2_index_release(&p.constants);
    ak_names_release(&p.storages);
    cJSON_Delete(p.doc);
    cJSON_Delete(p.configs[0]);
    cJSON_Delete(p.configs[1]);
    ak_zip_close(&p.zip);
    if (rc) ak_graph_release(g);
    return rc;
}
