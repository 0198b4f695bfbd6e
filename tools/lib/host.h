/* What machine a measurement was made on. */
#ifndef AK_HOST_H
#define AK_HOST_H

#include <cJSON.h>
#include <sys/types.h>

/* {"cpu", "cores", "caches": {"L1d", "L2", "L3"} in bytes, "memory_mb", "os", "compiler", "load", "time"};
 * caller deletes. Fields that the system does not tell are left out. */
cJSON *ak_host_info(void);
/* The CPU's model name, or "unknown cpu". Static string. */
const char *ak_host_cpu(void);
/* "2026-12-01T09:00:00Z" into buf. */
char *ak_host_time(char buf[static 32]);

/* Microseconds by the monotonic clock. */
double ak_now_us(void);
/* How long the threads of a process, all together, were ready to run and had no core; 0 where the system
 * does not say. */
double ak_host_waited_us(pid_t pid);
/* For a program that measures, first thing in main: threads that wait spin for some ten microseconds and
 * then sleep. OpenMP's default is to spin for milliseconds, which on a machine with other work starves the
 * very threads that are waited for; sleeping at once makes waking them cost more than most kernels take.
 * The runtime reads its variables before main, so the program is started once more, unless the user has
 * set OMP_WAIT_POLICY or GOMP_SPINCOUNT. */
void ak_host_wait_policy(char **argv);

#endif
