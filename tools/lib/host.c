#include "host.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "err.h"
#include "json.h"

const char *ak_host_cpu(void) {
    static char name[256];
    if (name[0]) return name;
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[1024];
    while (f && !name[0] && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (f) fclose(f);
    if (!name[0]) strcpy(name, "unknown cpu");
    return name;
}

char *ak_host_time(char buf[static 32]) {
    time_t now = time(NULL);
    struct tm tm;
    strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    return buf;
}

double ak_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

double ak_host_waited_us(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *d = opendir(path);
    unsigned long long ran, waited, sum = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char file[sizeof path + sizeof e->d_name + 16];
        snprintf(file, sizeof file, "%s/%s/schedstat", path, e->d_name);
        FILE *f = e->d_name[0] != '.' ? fopen(file, "r") : NULL;
        if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2) sum += waited;
        if (f) fclose(f);
    }
    if (d) closedir(d);
    return (double)sum * 1e-3;
}

void ak_host_wait_policy(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("GOMP_SPINCOUNT", "1000", 1);
    execv("/proc/self/exe", argv);
    ak_die_errno(AK_EXIT_MACHINE, "cannot start once more with threads that sleep; set OMP_WAIT_POLICY=passive");
}

static void add_caches(cJSON *o) {
    static const struct {
        const char *name;
        int key;
    } levels[] = {{"L1d", _SC_LEVEL1_DCACHE_SIZE}, {"L2", _SC_LEVEL2_CACHE_SIZE}, {"L3", _SC_LEVEL3_CACHE_SIZE}};
    cJSON *caches = cJSON_AddObjectToObject(o, "caches");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        long n = sysconf(levels[i].key);
        if (n > 0) ak_json_add_i64(caches, levels[i].name, n);
    }
}

cJSON *ak_host_info(void) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "cpu", ak_host_cpu());
    ak_json_add_i64(o, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    add_caches(o);
    ak_json_add_i64(o, "memory_mb", sysconf(_SC_PHYS_PAGES) / 1024 * (sysconf(_SC_PAGESIZE) / 1024));
    struct utsname u;
    if (uname(&u) == 0) {
        char os[sizeof u.sysname + sizeof u.release + sizeof u.machine + 2];
        snprintf(os, sizeof os, "%s %s %s", u.sysname, u.release, u.machine);
        cJSON_AddStringToObject(o, "os", os);
    }
    cJSON_AddStringToObject(o, "compiler", "cc " __VERSION__);
    double load;
    if (getloadavg(&load, 1) == 1) ak_json_add_num(o, "load", load);
    char when[32];
    cJSON_AddStringToObject(o, "time", ak_host_time(when));
    return o;
}
