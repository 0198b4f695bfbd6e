#include "knob.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char *skip(const char *s, const char *end) {
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    return s;
}

static const char *word(const char *s, const char *end) {
    while (s < end && (isalnum((unsigned char)*s) || *s == '_' || *s == '-' || *s == '.'))
        s++;
    return s;
}

static char *piece(struct ak_arena *a, const char *from, const char *to) {
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    char *p = ak_arena_alloc(a, (size_t)(to - from) + 1);
    memcpy(p, from, (size_t)(to - from));
    return p;
}

/* "tier=1 values=1,2,4 : why" between s and end. */
static int parse_range(struct ak_knobs *k, struct ak_knob *knob, const char *s, const char *end, struct ak_err *err) {
    s = skip(s, end);
    if (end - s < 6 || strncmp(s, "tier=", 5) || s[5] < '1' || s[5] > '6')
        return ak_fail(err, AK_EXIT_INPUT, "knob '%s' wants tier=1 to tier=6", knob->name);
    knob->tier = s[5] - '0';
    s = skip(s + 6, end);
    if (end - s < 7 || strncmp(s, "values=", 7)) return ak_fail(err, AK_EXIT_INPUT, "knob '%s' wants values=A,B,...", knob->name);
    s += 7;
    size_t cap = 0;
    char **list = NULL;
    for (;;) {
        const char *e = word(s, end);
        if (e == s) break;
        AK_GROW(list, knob->nvalues, cap);
        list[knob->nvalues++] = piece(&k->arena, s, e);
        s = e;
        if (s < end && *s == ',') s++;
    }
    knob->values = ak_arena_alloc(&k->arena, knob->nvalues * sizeof *list);
    if (list) memcpy(knob->values, list, knob->nvalues * sizeof *list);
    free(list);
    s = skip(s, end);
    knob->why = s < end && *s == ':' ? piece(&k->arena, skip(s + 1, end), end) : piece(&k->arena, end, end);
    for (size_t i = 0; i < knob->nvalues; i++)
        if (strcmp(knob->values[i], knob->value) == 0) return 0;
    return ak_fail(err, AK_EXIT_INPUT, "knob '%s' has the value %s, which is not in its list", knob->name, knob->value);
}

/* #define NAME VALUE, then the comment that makes it a knob. */
static int parse_knob(struct ak_knobs *k, const char *source, const char *line, const char *mark, const char *end, struct ak_err *err) {
    const char *s = skip(line, mark);
    if (strncmp(s, "#define", 7)) return ak_fail(err, AK_EXIT_INPUT, "a knob is a line '#define NAME VALUE'");
    const char *name = skip(s + 7, mark), *name_end = word(name, mark);
    const char *value = skip(name_end, mark), *value_end = word(value, mark);
    if (name == name_end || value == value_end || skip(value_end, mark) != mark)
        return ak_fail(err, AK_EXIT_INPUT, "a knob is a line '#define NAME VALUE' with one word as its value");
    struct ak_knob knob = {.name = piece(&k->arena, name, name_end),
                           .value = piece(&k->arena, value, value_end),
                           .at = (size_t)(value - source),
                           .len = (size_t)(value_end - value)};
    if (ak_knobs_find(k, knob.name)) return ak_fail(err, AK_EXIT_INPUT, "knob '%s' is defined twice", knob.name);
    if (parse_range(k, &knob, mark + strlen("/* knob"), end, err)) return -1;
    AK_GROW(k->knobs, k->n, k->cap);
    k->knobs[k->n++] = knob;
    return 0;
}

static void parse_constraint(struct ak_knobs *k, const char *s, const char *end) {
    const char *colon = s;
    while (colon < end && *colon != ':')
        colon++;
    AK_GROW(k->constraints, k->nconstraints, k->cap_constraints);
    k->constraints[k->nconstraints++] = piece(&k->arena, skip(s, end), colon);
}

static int parse_line(struct ak_knobs *k, const char *source, const char *line, const char *eol, struct ak_err *err) {
    const char *mark = memmem(line, (size_t)(eol - line), "/* knob ", 8);
    const char *rule = memmem(line, (size_t)(eol - line), "/* constraint ", 14);
    if (!mark && !rule) return 0;
    const char *from = mark ? mark : rule, *end = memmem(from, (size_t)(eol - from), "*/", 2);
    if (!end) return ak_fail(err, AK_EXIT_INPUT, "the comment does not end on its line");
    if (mark) return parse_knob(k, source, line, mark, end, err);
    parse_constraint(k, rule + 14, end);
    return 0;
}

int ak_knobs_parse(struct ak_knobs *k, const char *source, const char *name, struct ak_err *err) {
    *k = (struct ak_knobs){0};
    int number = 0;
    for (const char *line = source; *line;) {
        const char *eol = strchrnul(line, '\n');
        number++;
        if (parse_line(k, source, line, eol, err)) {
            ak_knobs_release(k);
            return ak_fail_in(err, "%s:%d", name, number);
        }
        line = *eol ? eol + 1 : eol;
    }
    return 0;
}

void ak_knobs_release(struct ak_knobs *k) {
    free(k->knobs);
    free(k->constraints);
    ak_arena_release(&k->arena);
    *k = (struct ak_knobs){0};
}

const struct ak_knob *ak_knobs_find(const struct ak_knobs *k, const char *name) {
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->knobs[i].name, name) == 0) return &k->knobs[i];
    return NULL;
}

/* The knob's own spelling of a value given as a string or a number; NULL if it has none such. */
static const char *spelling(const struct ak_knob *knob, const cJSON *v) {
    char buf[32];
    const char *want = cJSON_IsString(v) ? v->valuestring : buf;
    if (cJSON_IsNumber(v)) snprintf(buf, sizeof buf, "%.0f", v->valuedouble);
    if (!cJSON_IsString(v) && !cJSON_IsNumber(v)) return NULL;
    for (size_t i = 0; i < knob->nvalues; i++)
        if (strcmp(knob->values[i], want) == 0) return knob->values[i];
    return NULL;
}

/* The source with the value of every knob replaced by values[i]. */
static char *rewrite(const struct ak_knobs *k, const char *source, const char *const *values) {
    char *out = NULL;
    size_t len;
    FILE *f = open_memstream(&out, &len);
    if (!f) ak_die(AK_EXIT_IO, "out of memory");
    size_t at = 0;
    for (size_t i = 0; i < k->n; i++) {
        fwrite(source + at, 1, k->knobs[i].at - at, f);
        fputs(values[i], f);
        at = k->knobs[i].at + k->knobs[i].len;
    }
    fputs(source + at, f);
    if (fclose(f)) ak_die(AK_EXIT_IO, "out of memory");
    return out;
}

char *ak_knobs_apply(const struct ak_knobs *k, const char *source, const cJSON *values, struct ak_err *err) {
    const char **v = ak_malloc((k->n + 1) * sizeof *v);
    for (size_t i = 0; i < k->n; i++)
        v[i] = k->knobs[i].value;
    const cJSON *item;
    char *out = NULL;
    cJSON_ArrayForEach(item, values) {
        const struct ak_knob *knob = ak_knobs_find(k, item->string);
        const char *s = knob ? spelling(knob, item) : NULL;
        if (!s) {
            if (knob)
                ak_fail(err, AK_EXIT_INPUT, "knob '%s' was given a value that is not in its list", item->string);
            else
                ak_fail(err, AK_EXIT_INPUT, "there is no knob '%s'", item->string);
            goto out;
        }
        v[knob - k->knobs] = s;
    }
    out = rewrite(k, source, v);
out:
    free(v);
    return out;
}

/* Copies a string or character literal whole. */
static const char *copy_literal(const char *s, FILE *f) {
    char quote = *s;
    fputc(*s++, f);
    while (*s && *s != quote && *s != '\n') {
        if (*s == '\\' && s[1]) fputc(*s++, f);
        fputc(*s++, f);
    }
    if (*s == quote) fputc(*s++, f);
    return s;
}

/* Past a comment, or s itself where there is none. */
static const char *skip_comment(const char *s) {
    if (s[0] == '/' && s[1] == '/') return strchrnul(s, '\n');
    if (s[0] == '/' && s[1] == '*') {
        const char *end = strstr(s + 2, "*/");
        return end ? end + 2 : s + strlen(s);
    }
    return s;
}

/* Comments go, runs of blanks become one, blank lines and blanks at line ends vanish. */
char *ak_source_strip(const char *s) {
    char *out = NULL;
    size_t len;
    FILE *f = open_memstream(&out, &len);
    if (!f) ak_die(AK_EXIT_IO, "out of memory");
    bool blank = false, line = false; /* blanks owed; something on this line */
    while (*s) {
        const char *after = skip_comment(s);
        if (after != s || *s == ' ' || *s == '\t' || *s == '\r') {
            blank = true;
            s = after != s ? after : s + 1;
        } else if (*s == '\n') {
            if (line) fputc('\n', f);
            blank = line = false;
            s++;
        } else {
            if (blank && line) fputc(' ', f);
            blank = false;
            line = true;
            if (*s == '"' || *s == '\'')
                s = copy_literal(s, f);
            else
                fputc(*s++, f);
        }
    }
    if (line) fputc('\n', f);
    if (fclose(f)) ak_die(AK_EXIT_IO, "out of memory");
    return out;
}

char *ak_source_base(const struct ak_knobs *k, const char *source) {
    const char **blank = ak_malloc((k->n + 1) * sizeof *blank);
    for (size_t i = 0; i < k->n; i++)
        blank[i] = "?";
    char *text = rewrite(k, source, blank), *base = ak_source_strip(text);
    free(text);
    free(blank);
    return base;
}

static cJSON *value_json(const char *s) {
    char *end;
    long long v = strtoll(s, &end, 10);
    return *end ? cJSON_CreateString(s) : ak_json_new_i64(v);
}

cJSON *ak_knobs_to_json(const struct ak_knobs *k) {
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "knobs"), *rules = cJSON_AddArrayToObject(o, "constraints");
    for (size_t i = 0; i < k->n; i++) {
        cJSON *knob = cJSON_CreateObject();
        cJSON_AddStringToObject(knob, "name", k->knobs[i].name);
        ak_json_add_i64(knob, "tier", k->knobs[i].tier);
        cJSON_AddItemToObject(knob, "value", value_json(k->knobs[i].value));
        cJSON *values = cJSON_AddArrayToObject(knob, "values");
        for (size_t j = 0; j < k->knobs[i].nvalues; j++)
            cJSON_AddItemToArray(values, value_json(k->knobs[i].values[j]));
        cJSON_AddStringToObject(knob, "why", k->knobs[i].why);
        cJSON_AddItemToArray(list, knob);
    }
    for (size_t i = 0; i < k->nconstraints; i++)
        cJSON_AddItemToArray(rules, cJSON_CreateString(k->constraints[i]));
    return o;
}

cJSON *ak_knobs_values(const struct ak_knobs *k) {
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < k->n; i++)
        cJSON_AddItemToObject(o, k->knobs[i].name, value_json(k->knobs[i].value));
    return o;
}
