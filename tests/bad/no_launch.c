/* must fail: load_fail: it has no ak_launch */
#include "base.h"
