/* System calls that a kernel has no business with: processes of its own, other programs, the
 * network, signals to anyone else, files to write. Threads, memory and reading stay. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker_side.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define FAIL(e) RETURN(SECCOMP_RET_ERRNO | (e))
#define IS(nr, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, then)
#define REFUSE(nr) IS(nr, 1), FAIL(EPERM)
/* The call nr goes on only if its argument i has (or has none of) these bits. */
#define NEEDS_BITS(nr, i, bits) IS(nr, 4), LOAD(args[i]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0), FAIL(EPERM), RETURN(SECCOMP_RET_ALLOW)
#define NO_BITS(nr, i, bits) IS(nr, 4), LOAD(args[i]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), FAIL(EPERM), RETURN(SECCOMP_RET_ALLOW)
#define NEEDS_VALUE(nr, i, value) IS(nr, 4), LOAD(args[i]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0), FAIL(EPERM), RETURN(SECCOMP_RET_ALLOW)
#define NOT_VALUE(nr, i, value) IS(nr, 4), LOAD(args[i]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), FAIL(EPERM), RETURN(SECCOMP_RET_ALLOW)

/* 0, or -1 where the kernel has no seccomp: limits and the process group hold all the same. */
int ak_worker_jail(void) {
#ifdef ARCH
    unsigned self = (unsigned)getpid();
    struct sock_filter filter[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#ifdef __x86_64__
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), FAIL(ENOSYS), /* x32 */
        REFUSE(SYS_fork), REFUSE(SYS_vfork),
        NO_BITS(SYS_open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
        REFUSE(SYS_creat), REFUSE(SYS_unlink), REFUSE(SYS_rename), REFUSE(SYS_mkdir), REFUSE(SYS_rmdir), REFUSE(SYS_link), REFUSE(SYS_symlink), REFUSE(SYS_chmod),
#endif
        IS(SYS_clone3, 1), FAIL(ENOSYS), /* its flags cannot be seen: libc then uses clone */
        NEEDS_BITS(SYS_clone, 0, CLONE_THREAD),
        REFUSE(SYS_execve), REFUSE(SYS_execveat), REFUSE(SYS_setsid), REFUSE(SYS_setpgid),
        REFUSE(SYS_ptrace), REFUSE(SYS_process_vm_writev), REFUSE(SYS_socket), REFUSE(SYS_connect), REFUSE(SYS_bind),
        NEEDS_VALUE(SYS_kill, 0, self), NEEDS_VALUE(SYS_tgkill, 0, self), REFUSE(SYS_tkill), REFUSE(SYS_rt_sigqueueinfo), REFUSE(SYS_pidfd_open),
        NOT_VALUE(SYS_prctl, 0, PR_SET_PDEATHSIG),
        NO_BITS(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
        REFUSE(SYS_openat2), REFUSE(SYS_unlinkat), REFUSE(SYS_renameat2), REFUSE(SYS_mkdirat), REFUSE(SYS_linkat), REFUSE(SYS_symlinkat),
        REFUSE(SYS_fchmodat), REFUSE(SYS_truncate), REFUSE(SYS_io_uring_setup), REFUSE(SYS_bpf), REFUSE(SYS_mount), REFUSE(SYS_perf_event_open),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
#else
    return -1;
#endif
}
