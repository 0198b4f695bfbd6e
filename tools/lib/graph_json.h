/* Shared by graph_json.c (writing) and graph_read.c. */
#ifndef AK_GRAPH_JSON_H
#define AK_GRAPH_JSON_H

static const char ak_base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char *const ak_value_kinds[] = {"node", "input", "file", "random", "inline", "int"}; /* in the order of ak_value_kind */

#endif
