/* What the two sides of a worker agree on beside its commands. */
#ifndef AK_WORKER_SIDE_H
#define AK_WORKER_SIDE_H

#include "worker.h"

#define AK_WORKER_FLAG "--worker" /* and the parent's process id */
enum { AK_WORKER_SOCK_FD = 3, AK_WORKER_MEM_FD = 4 };
/* Address space for the shared memory: the file grows, the worker's map of it never moves. */
#define AK_WORKER_SPAN ((size_t)64 << 30)
#define AK_WORKER_AT ((uintptr_t)1 << 44) /* a hint */

int ak_worker_jail(void);

#endif
