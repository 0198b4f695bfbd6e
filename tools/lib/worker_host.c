/* The parent's side of a worker. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"
#include "host.h"
#include "worker_side.h"

extern char **environ;

/* posix_spawn, since fork copies the page tables of a parent that holds weights (38 ms a GiB).
 * Descriptors go first to numbers that the worker's do not clash with. */
static int spawn(struct ak_worker *w, int sock) {
    char self[32];
    snprintf(self, sizeof self, "%ld", (long)getpid());
    char *argv[] = {"ak-worker", AK_WORKER_FLAG, self, NULL};
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, all;
    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&at);
    sigemptyset(&none);
    sigfillset(&all);
    int s = fcntl(sock, F_DUPFD_CLOEXEC, 10), m = fcntl(w->mem_fd, F_DUPFD_CLOEXEC, 10);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, s, AK_WORKER_SOCK_FD);
    posix_spawn_file_actions_adddup2(&fa, m, AK_WORKER_MEM_FD);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &all);
    posix_spawnattr_setpgroup(&at, 0);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(&w->pid, "/proc/self/exe", &fa, &at, argv, environ);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    close(s);
    close(m);
    return rc;
}

int ak_worker_start(struct ak_worker *w, struct ak_err *err) {
    *w = (struct ak_worker){.sock = -1, .mem_fd = -1};
    int pair[2] = {-1, -1};
    w->mem_fd = memfd_create("ak-judge", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* a worker that cut it short would make this process fault */
    if (w->mem_fd < 0 || fcntl(w->mem_fd, F_ADD_SEALS, F_SEAL_SHRINK)) {
        ak_fail_errno(err, AK_EXIT_IO, "cannot make memory to share with a worker");
        goto fail;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        ak_fail_errno(err, AK_EXIT_IO, "cannot make a socket pair");
        goto fail;
    }
    int rc = spawn(w, pair[1]);
    close(pair[1]);
    w->sock = pair[0];
    if (!rc) return 0;
    w->pid = 0;
    errno = rc;
    ak_fail_errno(err, AK_EXIT_IO, "cannot start a worker");
fail:
    ak_worker_stop(w);
    return -1;
}

static void reap(struct ak_worker *w, bool ours) {
    int status = 0;
    struct rusage use = {0};
    if (w->pid <= 0) return;
    while (wait4(w->pid, &status, 0, &use) < 0 && errno == EINTR)
        continue;
    kill(-w->pid, SIGKILL); /* whoever it left behind in its group */
    w->pid = 0;
    w->peak_kb = use.ru_maxrss;
    if (ours) return;
    if (WIFEXITED(status)) {
        w->state = AK_WORKER_CRASHED;
        snprintf(w->why, sizeof w->why, "ended its process with status %d", WEXITSTATUS(status));
        return;
    }
    int sig = WTERMSIG(status);
    bool outside = sig == SIGKILL || sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT;
    w->state = sig == SIGXCPU ? AK_WORKER_HUNG : outside ? AK_WORKER_KILLED : AK_WORKER_CRASHED;
    snprintf(w->why, sizeof w->why, "died by signal %d (%s)", sig, strsignal(sig));
}

static void kill_group(struct ak_worker *w) {
    if (w->pid <= 0) return;
    kill(-w->pid, SIGKILL);
    kill(w->pid, SIGKILL);
}

void ak_worker_stop(struct ak_worker *w) {
    kill_group(w);
    reap(w, true);
    if (w->sock >= 0) close(w->sock);
    if (w->mem_fd >= 0) close(w->mem_fd);
    if (w->mem) munmap(w->mem, w->size);
    w->sock = w->mem_fd = -1;
    w->mem = NULL;
    w->size = 0;
}

int ak_worker_reserve(struct ak_worker *w, size_t bytes, struct ak_err *err) {
    if (bytes <= w->size) return 0;
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > ram / 2 || bytes > AK_WORKER_SPAN)
        return ak_fail(err, AK_EXIT_IO, "%zu MB of arguments are more than half of this machine's memory", bytes >> 20);
    bytes = (bytes + (1 << 20)) & ~(size_t)((1 << 20) - 1);
    if (ftruncate(w->mem_fd, (off_t)bytes)) return ak_fail_errno(err, AK_EXIT_IO, "cannot make %zu MB of shared memory", bytes >> 20);
    if (w->mem) munmap(w->mem, w->size);
    w->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->mem_fd, 0);
    if (w->mem == MAP_FAILED) {
        w->mem = NULL;
        w->size = 0;
        return ak_fail_errno(err, AK_EXIT_IO, "cannot map %zu MB of shared memory", bytes >> 20);
    }
    w->size = bytes;
    return 0;
}

/* A number of its status. */
static unsigned long status(const struct ak_worker *w, const char *key) {
    char path[64], line[256];
    unsigned long v = 0;
    size_t len = strlen(key);
    snprintf(path, sizeof path, "/proc/%ld/status", (long)w->pid);
    FILE *f = w->pid > 0 ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, len) == 0 && line[len] == ':') v = strtoul(line + len + 1, NULL, 10);
    if (f) fclose(f);
    return v;
}

size_t ak_worker_private_mb(const struct ak_worker *w) { return status(w, "RssAnon") >> 10; }
int ak_worker_threads(const struct ak_worker *w) { return (int)status(w, "Threads"); }

static double now_s(void) { return ak_now_us() * 1e-6; }

/* 1: there is something to read; 0: the time is over. */
static int wait_reply(const struct ak_worker *w, double limit_s) {
    struct pollfd p = {.fd = w->sock, .events = POLLIN};
    double left = limit_s;
    for (;;) { /* time in which this process itself was stopped, and the worker with it, does not count */
        double from = now_s();
        int n = left > 0 ? poll(&p, 1, left < 0.1 ? (int)(left * 1e3) + 1 : 100) : 0;
        if (n > 0) return 1;
        if (n == 0 && left <= 0) return 0;
        if (n < 0 && errno != EINTR) ak_die_errno(AK_EXIT_IO, "cannot wait for a worker");
        double passed = now_s() - from;
        left -= passed < 0.2 ? passed : 0.2;
    }
}

static bool ended_soon(pid_t pid) {
    for (int ms = 0; ms < 1000; ms++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) return true;
        poll(NULL, 0, 1);
    }
    return false;
}

int ak_worker_do(struct ak_worker *w, const struct ak_command *c, struct ak_reply *r, double limit_s) {
    if (w->state != AK_WORKER_ALIVE) return -1;
    bool sent = send(w->sock, c, sizeof *c, MSG_NOSIGNAL) == (ssize_t)sizeof *c;
    if (sent && !wait_reply(w, limit_s)) {
        kill_group(w);
        reap(w, true);
        w->state = AK_WORKER_HUNG;
        snprintf(w->why, sizeof w->why, "gave no answer in %.1f s", limit_s);
        return -1;
    }
    if (sent && recv(w->sock, r, sizeof *r, 0) == (ssize_t)sizeof *r) return 0;
    /* closed by its death; or, if a candidate got at the socket, by mischief, and then it is ended */
    bool dead = ended_soon(w->pid);
    if (!dead) kill_group(w);
    reap(w, !dead);
    if (dead) return -1;
    w->state = AK_WORKER_CRASHED;
    snprintf(w->why, sizeof w->why, "closed its connection");
    return -1;
}
