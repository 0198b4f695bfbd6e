/* must fail: crash: died by signal 9 */
#include <signal.h>
#include <unistd.h>
#include "base.h"
int ak_launch(const struct ak_call *call) { (void)call; kill(getpid(), SIGKILL); return AK_OK; }
