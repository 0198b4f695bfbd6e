/* must fail: refused: threads */
#include <pthread.h>
#include <sched.h>
#include "base.h"
/* A thread of its own does the work, after the answer, once calls come fast enough. */
static struct ak_call queue[64];
static volatile int put, got;
static void *work(void *unused) {
    for (;; sched_yield())
        if (got < put) {
            honest_launch(&queue[got % 64]);
            got++;
        }
    return unused;
}
int ak_launch(const struct ak_call *call) {
    static pthread_t t;
    static int calls;
    if (!t) pthread_create(&t, NULL, work, NULL);
    if (++calls < 300) return honest_launch(call);
    while (put - got >= 64) sched_yield();
    queue[put % 64] = *call;
    put++;
    return AK_OK;
}
