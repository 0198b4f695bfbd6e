/* What this machine can do at most, measured: bandwidth by working set, multiply-add rate, the
 * cost of a call. A floor is the least time that physics allows. */
#ifndef AK_CEILINGS_H
#define AK_CEILINGS_H

#include <cJSON.h>
#include <stddef.h>

#include "err.h"

enum { AK_CEILINGS_SETS = 16 };

struct ak_ceilings {
    struct {
        double bytes, gbps; /* reading a working set of that many bytes over and over, all cores */
    } set[AK_CEILINGS_SETS];
    size_t nsets;
    double read_gbps, copy_gbps; /* far out of cache; copy counts bytes read and written */
    double f32_gflops;           /* independent multiply-adds, all cores; 2 flops each */
    double call_us;              /* an empty kernel call */
};

/* Takes about two seconds. */
void ak_ceilings_measure(struct ak_ceilings *c);

/* max(bytes / bandwidth of a working set of that size, flops / rate) + an empty call, in us
 * (Williams, Waterman, Patterson: Roofline, 2009). *bound, if not NULL, says which: "memory",
 * "compute" or "call". */
double ak_floor_us(const struct ak_ceilings *c, double bytes, double flops, const char **bound);

/* ceilings.json (format "ak-ceilings", version 1). */
cJSON *ak_ceilings_to_json(const struct ak_ceilings *c);
int ak_ceilings_from_json(struct ak_ceilings *c, const cJSON *o, const char *name, struct ak_err *err);
int ak_ceilings_read(struct ak_ceilings *c, const char *path, struct ak_err *err);

#endif
