/* Each rate is the best of several passes: a ceiling is what the machine can do undisturbed. */
#include "ceilings.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "json.h"
#include "mem.h"

#if defined __AVX512F__
enum { VECTOR = 64 };
#elif defined __AVX__
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif
typedef float vec __attribute__((vector_size(VECTOR), aligned(VECTOR)));
enum { LANES = VECTOR / sizeof(float), CHAINS = 12 };

static double now(void) { return ak_now_us() * 1e-6; }

/* Another pass? At least seven, and for as long as others on the machine may take turns with us. */
static bool more_passes(int done, double from) { return done < 7 || now() - from < 0.15; }

static volatile float sink;

static float total(vec v) {
    float s = 0;
    for (int i = 0; i < LANES; i++)
        s += v[i];
    return s;
}

/* Sums n floats (a multiple of 8 vectors) `times` times over. */
static float read_all(const float *p, size_t n, int times) {
    vec acc[8] = {0};
    for (int t = 0; t < times; t++) {
        for (size_t i = 0; i + 8 * LANES <= n; i += 8 * LANES)
            for (int j = 0; j < 8; j++)
                acc[j] += *(const vec *)(p + i + (size_t)j * LANES);
        __asm__ volatile("" : : "r"(p) : "memory"); /* the next pass reads again */
    }
    vec s = acc[0];
    for (int j = 1; j < 8; j++)
        s += acc[j];
    return total(s);
}

static double read_gbps(const float *p, size_t bytes) {
    size_t threads = (size_t)omp_get_max_threads(), each = bytes / sizeof(float) / threads / (8 * LANES) * (8 * LANES);
    int times = (int)fmax(1, 2e8 / (double)bytes); /* waking the threads is nothing beside it */
    double best = 0, from = now();
    for (int pass = 0; more_passes(pass, from); pass++) {
        double t0 = now();
#pragma omp parallel
        sink = read_all(p + (size_t)omp_get_thread_num() * each, each, times);
        double gbps = (double)(each * threads * sizeof(float)) * times / (now() - t0) * 1e-9;
        best = fmax(best, gbps);
    }
    return best;
}

static double copy_gbps(float *p, size_t bytes) {
    size_t threads = (size_t)omp_get_max_threads(), each = bytes / 2 / threads;
    double best = 0, from = now();
    for (int pass = 0; more_passes(pass, from); pass++) {
        double t0 = now();
#pragma omp parallel
        {
            char *part = (char *)p + (size_t)omp_get_thread_num() * each;
            memcpy(part + bytes / 2, part, each);
        }
        best = fmax(best, 2.0 * (double)(each * threads) / (now() - t0) * 1e-9);
    }
    return best;
}

static double f32_gflops(void) {
    enum { STEPS = 250000 }; /* less than a millisecond: some passes fall between the turns of others */
    double best = 0, from = now();
    for (int pass = 0; more_passes(pass, from); pass++) {
        double t0 = now();
#pragma omp parallel
        {
            vec acc[CHAINS];
            for (int j = 0; j < CHAINS; j++)
                acc[j] = (vec){0} + (float)j;
            vec a = (vec){0} + 0.999f, b = (vec){0} + 1e-3f;
            for (int i = 0; i < STEPS; i++) {
                __asm__ volatile("" : "+x"(a), "+x"(b)); /* nothing here is a constant */
                for (int j = 0; j < CHAINS; j++)
                    acc[j] = acc[j] * a + b;
            }
            for (int j = 1; j < CHAINS; j++)
                acc[0] += acc[j];
            sink = total(acc[0]);
        }
        double flops = 2.0 * STEPS * CHAINS * LANES * omp_get_max_threads();
        best = fmax(best, flops / (now() - t0) * 1e-9);
    }
    return best;
}

static int empty_call(const void *call) { return call != NULL; }

static double call_us(void) {
    enum { CALLS = 1000000 };
    int (*volatile launch)(const void *) = empty_call;
    double t0 = now();
    for (int i = 0; i < CALLS; i++)
        launch(&t0);
    return (now() - t0) * 1e6 / CALLS;
}

void ak_ceilings_measure(struct ak_ceilings *c) {
    *c = (struct ak_ceilings){0};
    size_t largest = (size_t)512 << 20;
    float *p = aligned_alloc(4096, largest);
    if (!p) ak_die(AK_EXIT_IO, "out of memory (%zu bytes wanted)", largest);
#pragma omp parallel for
    for (size_t i = 0; i < largest / sizeof *p; i += 1024)
        for (size_t j = i; j < i + 1024; j++)
            p[j] = 1e-9f * (float)(j & 1023);
    read_gbps(p, 1 << 20); /* wakes the threads */
    for (size_t bytes = (size_t)64 << 10; bytes <= largest; bytes *= 4) {
        c->set[c->nsets].bytes = (double)bytes;
        c->set[c->nsets++].gbps = read_gbps(p, bytes);
    }
    c->read_gbps = read_gbps(p, largest);
    c->copy_gbps = copy_gbps(p, largest);
    free(p);
    c->f32_gflops = f32_gflops();
    c->call_us = call_us();
}

/* Log-linear between the measured working sets, flat beyond them. */
static double bandwidth(const struct ak_ceilings *c, double bytes) {
    size_t i = 0;
    while (i < c->nsets && c->set[i].bytes < bytes)
        i++;
    if (i == 0) return c->set[0].gbps;
    if (i == c->nsets) return c->set[i - 1].gbps;
    double at = log(bytes / c->set[i - 1].bytes) / log(c->set[i].bytes / c->set[i - 1].bytes);
    return c->set[i - 1].gbps + at * (c->set[i].gbps - c->set[i - 1].gbps);
}

double ak_floor_us(const struct ak_ceilings *c, double bytes, double flops, const char **bound) {
    double memory = bytes > 0 ? bytes / bandwidth(c, bytes) * 1e-3 : 0, compute = flops / c->f32_gflops * 1e-3;
    if (bound) *bound = fmax(memory, compute) < c->call_us ? "call" : memory >= compute ? "memory" : "compute";
    return fmax(memory, compute) + c->call_us;
}

cJSON *ak_ceilings_to_json(const struct ak_ceilings *c) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", "ak-ceilings");
    cJSON_AddNumberToObject(o, "version", 1);
    cJSON_AddStringToObject(o, "device", "cpu");
    cJSON_AddItemToObject(o, "host", ak_host_info());
    cJSON *sets = cJSON_AddArrayToObject(o, "bandwidth");
    for (size_t i = 0; i < c->nsets; i++) {
        cJSON *s = cJSON_CreateObject();
        ak_json_add_num(s, "bytes", c->set[i].bytes);
        ak_json_add_num(s, "gbps", c->set[i].gbps);
        cJSON_AddItemToArray(sets, s);
    }
    ak_json_add_num(o, "read_gbps", c->read_gbps);
    ak_json_add_num(o, "copy_gbps", c->copy_gbps);
    ak_json_add_num(o, "f32_gflops", c->f32_gflops);
    ak_json_add_num(o, "call_us", c->call_us);
    return o;
}

int ak_ceilings_from_json(struct ak_ceilings *c, const cJSON *o, const char *name, struct ak_err *err) {
    *c = (struct ak_ceilings){0};
    const cJSON *sets, *s;
    if (ak_json_check_format(o, "ak-ceilings", 1, name, "make ceilings", err) || ak_json_array(o, "bandwidth", &sets, err) ||
        ak_json_num(o, "read_gbps", &c->read_gbps, err) || ak_json_num(o, "copy_gbps", &c->copy_gbps, err) ||
        ak_json_num(o, "f32_gflops", &c->f32_gflops, err) || ak_json_num(o, "call_us", &c->call_us, err))
        return -1;
    cJSON_ArrayForEach(s, sets) {
        if (c->nsets == AK_CEILINGS_SETS) return ak_fail(err, AK_EXIT_INPUT, "'%s' has more than %d working sets", name, AK_CEILINGS_SETS);
        if (ak_json_num(s, "bytes", &c->set[c->nsets].bytes, err) || ak_json_num(s, "gbps", &c->set[c->nsets].gbps, err)) return -1;
        if (!(c->set[c->nsets].bytes > 0 && c->set[c->nsets].gbps > 0)) return ak_fail(err, AK_EXIT_INPUT, "'%s' has a bandwidth that is not positive", name);
        c->nsets++;
    }
    if (!c->nsets || !(c->f32_gflops > 0) || !(c->read_gbps > 0)) return ak_fail(err, AK_EXIT_INPUT, "'%s' has a rate that is not positive", name);
    return 0;
}

int ak_ceilings_read(struct ak_ceilings *c, const char *path, struct ak_err *err) {
    cJSON *o = ak_json_read(path, err);
    int rc = o ? ak_ceilings_from_json(c, o, path, err) : -1;
    cJSON_Delete(o);
    return rc;
}
