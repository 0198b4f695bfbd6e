/* must fail: wrong: smoke: wrong value */
#include <pthread.h>
#include <unistd.h>
#include "base.h"
/* The work is done by a thread after the clock has stopped. */
static void *work(void *call) { usleep(5000); honest_launch(call); return NULL; }
int ak_launch(const struct ak_call *call) {
    static struct ak_call kept;
    static pthread_t t;
    kept = *call;
    pthread_create(&t, NULL, work, &kept);
    pthread_detach(t);
    return AK_OK;
}
