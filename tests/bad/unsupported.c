/* must fail: unsupported: ak_query says AK_UNSUPPORTED */
#define OWN_QUERY
#include "base.h"
int ak_query(const struct ak_call *call, struct ak_needs *needs) { (void)call, (void)needs; return AK_UNSUPPORTED; }
int ak_launch(const struct ak_call *call) { (void)call; return AK_OK; }
