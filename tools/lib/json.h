/* JSON at the edge: parse text, read fields with types checked, write numbers exactly.
 * Trees are cJSON's; readers copy what they keep and delete the tree. */
#ifndef AK_JSON_H
#define AK_JSON_H

#include <cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"

/* Parses exactly one JSON value; `name` (the file) begins the message, with line and column. */
cJSON *ak_json_parse(const char *text, size_t len, const char *name, struct ak_err *err);
cJSON *ak_json_read(const char *path, struct ak_err *err); /* ak_file_read then ak_json_parse */

/* Checks {"format": format, "version": version} and says what rebuilds the file (remedy) if not. */
int ak_json_check_format(const cJSON *o, const char *format, int version, const char *name, const char *remedy,
                         struct ak_err *err);

/* A field that must be there with that type. Numbers: integral values of magnitude >= 2^63
 * saturate to INT64_MAX/MIN (JSON's 9223372036854775807 is read as 2^63). */
const cJSON *ak_json_get(const cJSON *o, const char *key); /* NULL if absent; case-sensitive */
int ak_json_str(const cJSON *o, const char *key, const char **out, struct ak_err *err);
int ak_json_i64(const cJSON *o, const char *key, int64_t *out, struct ak_err *err);
int ak_json_num(const cJSON *o, const char *key, double *out, struct ak_err *err); /* also "Infinity", "-Infinity", "NaN" */
int ak_json_bool(const cJSON *o, const char *key, bool *out, struct ak_err *err);
int ak_json_array(const cJSON *o, const char *key, const cJSON **out, struct ak_err *err);
int ak_json_object(const cJSON *o, const char *key, const cJSON **out, struct ak_err *err);
/* The value itself as an integer or a number, by the same rules. */
int ak_json_as_i64(const cJSON *v, int64_t *out, struct ak_err *err);
int ak_json_as_num(const cJSON *v, double *out, struct ak_err *err);

/* A field that may be missing, for those who only show it: NaN, or `otherwise`; o may be NULL. */
double ak_json_number(const cJSON *o, const char *key);
const char *ak_json_string(const cJSON *o, const char *key, const char *otherwise);

/* Adding fields. Integers print exactly; non-finite numbers become the strings above. */
void ak_json_add_i64(cJSON *o, const char *key, int64_t v);
void ak_json_add_num(cJSON *o, const char *key, double v);
cJSON *ak_json_new_i64(int64_t v);
cJSON *ak_json_new_num(double v);
cJSON *ak_json_i64_array(const int64_t *v, size_t n);

/* One line without spaces, a newline after it. Deletes nothing. */
int ak_json_print(FILE *f, const cJSON *v);
/* Indented, for people. */
int ak_json_print_pretty(FILE *f, const cJSON *v);

#endif
