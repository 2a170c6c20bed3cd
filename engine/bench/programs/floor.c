// The floor: one sandboxed run made of the same kernel calls as hotcell's launcher, init and runner, in the
// same processes, with the same messages between them, and nothing else. What hotcell costs above this is
// its own; what this costs above a bare spawn is the kernel's.
//
// It is a measure and no sandbox: nothing is checked that an attacker could change, and a failing call ends it.
//
//   floor [--runs N] [--serve] [--steps] [--without STEP,…] [--filter FILE] [--init-filter FILE] [PROGRAM]
//
// --serve       one run for each line on standard input; prints the microseconds of each (else: N runs, a line each)
// --steps       prints the median microseconds at which each step was done, counted from the request
// --without     leaves steps out, to see what they cost (see STEPS)
// --filter      the program's system call filter, as `struct sock_filter`s; without a file there is none
// --init-filter the filter of process 1
//
// Processes, as in hotcell:
//   supervisor  asks, holds the pipes, waits for the end; its time is what is measured
//   launcher    single-threaded; holds the prepared root; forks
//   init        process 1 of the sandbox: mounts, waits, reports
//   runner      shares memory and descriptors with init; makes the network namespace and confines itself
//               while init mounts; becomes the program

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// ---- Small things -------------------------------------------------------------------------------------------

// Raw calls: the runner shares memory with init, so it must not touch the C library's errno.
static long raw(long n, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "another architecture"
#endif
}
#define L(x) ((long)(x))
#define PAD(a, b, c, d, e, f, ...) L(a), L(b), L(c), L(d), L(e), L(f)
#define try_call(n, ...) raw(n, PAD(__VA_ARGS__ __VA_OPT__(, ) 0, 0, 0, 0, 0, 0))
// A call that has to succeed.
#define call(n, ...) must(try_call(n, __VA_ARGS__), __LINE__)

static long must(long result, int line) {
    if (result < 0) {
        dprintf(2, "floor.c:%d: %s\n", line, strerror((int)-result));
        try_call(SYS_exit_group, 1);
    }
    return result;
}

static uint64_t now(void) {
    struct timespec t;
    try_call(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Everything that can be left out, in the order in which it happens.
#define STEPS(X)                                                                                                  \
    X(USER_NS, "user_ns") X(PID_NS, "pid_ns") X(IPC_NS, "ipc_ns") X(UTS_NS, "uts_ns") X(TIME_NS, "time_ns")        \
    X(CGROUP, "cgroup") X(CGROUP_NS, "cgroup_ns") X(NET_NS, "net_ns") X(LO_UP, "lo_up") X(ROOT, "root")            \
    X(PROC, "proc") X(MASKS, "masks") X(CEILING, "ceiling") X(SCRATCH, "scratch") X(DEVPTS, "devpts")              \
    X(PIVOT, "pivot") X(CAPS, "caps") X(SECCOMP, "seccomp") X(LANDLOCK, "landlock") X(READBACK, "readback")        \
    X(RLIMITS, "rlimits") X(INIT_FILTER, "init_filter")
#define NUMBER(id, name) id,
#define NAME(id, name) name,
enum { STEPS(NUMBER) COUNT };
static const char *const STEP_NAMES[] = {STEPS(NAME)};
static bool left_out[COUNT];
#define want(step) (!left_out[step])

// Times at which something was done. Shared by all processes; each slot has one writer.
#define MARKS(X)                                                                                                  \
    X(M_ASKED, "asked") X(M_HEARD, "launcher heard") X(M_CLONED, "tree cloned") X(M_FORKED, "forked")              \
    X(M_BORN, "init runs") X(M_MAPPED, "maps written") X(M_WOKEN, "init woken") X(M_IDS, "ids")                    \
    X(M_CGROUP, "cgroup") X(M_RUNNER, "runner made") X(M_MOVED, "root attached") X(M_PROC, "proc")                 \
    X(M_CEILING, "ceiling") X(M_MASKS, "masks") X(M_SCRATCH, "scratch") X(M_DEVPTS, "devpts")                      \
    X(M_PIVOT, "pivoted") X(M_R_START, "runner: starts") X(M_R_NET, "runner: net ns") X(M_R_LO, "runner: lo up")   \
    X(M_R_CAPS, "runner: capabilities") X(M_R_SECCOMP, "runner: seccomp") X(M_R_ROOTED, "runner: sees root")       \
    X(M_R_LANDLOCK, "runner: landlock") X(M_CONFINED, "confined") X(M_READBACK, "readback")                        \
    X(M_JOB, "job mapped") X(M_R_EXEC, "runner: at exec") X(M_EXECUTED, "executed") X(M_RETIRED, "init retired")   \
    X(M_REAPED, "program reaped") X(M_ENDED, "told the end") X(M_COLLECTED, "output collected")
enum { MARKS(NUMBER) MARK_COUNT };
static const char *const MARK_NAMES[] = {MARKS(NAME)};
static uint64_t *marks;
static void mark(int which) { marks[which] = now(); }

struct message {
    unsigned char bytes[4096];
    long len;
    int fds[16];
    int count;
};

static void tell(int socket, const void *bytes, size_t len, const int *fds, int count) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    struct iovec iov = {(void *)bytes, len};
    struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count > 0) {
        head.msg_control = control;
        head.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *c = (struct cmsghdr *)control;
        c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
    }
    call(SYS_sendmsg, socket, &head, MSG_NOSIGNAL);
}

static void hear(int socket, struct message *m, int flags) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    struct iovec iov = {m->bytes, sizeof m->bytes};
    struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    m->len = call(SYS_recvmsg, socket, &head, MSG_CMSG_CLOEXEC | flags);
    m->count = 0;
    if (head.msg_controllen >= sizeof(struct cmsghdr)) {
        struct cmsghdr *c = (struct cmsghdr *)control;
        m->count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(m->fds, CMSG_DATA(c), (size_t)m->count * sizeof(int));
    }
}

// Messages of launcher and init begin with one of these.
enum { BORN = 1, READY, RUNNING, ENDED };
static void tell_kind(int socket, int kind, const int *fds, int count) {
    int words[8] = {kind};
    tell(socket, words, sizeof words, fds, count);
}

static void wait_until(atomic_uint *word, unsigned stage) {
    for (unsigned seen; (seen = atomic_load(word)) < stage;)
        try_call(SYS_futex, word, FUTEX_WAIT, seen, 0);
}
static void advance(atomic_uint *word, unsigned stage) {
    atomic_store(word, stage);
    try_call(SYS_futex, word, FUTEX_WAKE, INT32_MAX);
}

static void write_at(int dir, const char *path, const char *text) {
    int fd = (int)call(SYS_openat, dir, path, O_WRONLY | O_CLOEXEC);
    call(SYS_write, fd, text, strlen(text));
    call(SYS_close, fd);
}
#define format(name, ...) char name[96]; snprintf(name, sizeof name, __VA_ARGS__)

static bool root_outside;           // we may map any id
static int v2_group = -1;           // the folder of the group
static int v1_tasks[4], v1_count;   // or its `tasks` files
static struct sock_fprog filter, init_filter;
static const char *program = "/bin/true";

// ---- The runner ---------------------------------------------------------------------------------------------

enum { ROOTED = 1, RELEASED };
struct shared {
    atomic_uint alive, runner, init;
    atomic_int listener;
    int stdio[3];
};

static void landlock(void) {
    int abi = (int)try_call(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1)
        return;
    const uint64_t all = (1u << (abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13)) - 1;
    struct { uint64_t fs, net, scoped; } set = {all, 0, abi >= 6 ? 3 : 0};
    const uint64_t list = 1 << 3, read = list | 1 << 2, execute = read | 1, device = (read | 1 << 1 | 1 << 14 | 1 << 15) & all;
    const uint64_t write = all & ~(uint64_t)(1 << 6 | 1 << 11 | 1 << 15);
    const struct { const char *path; uint64_t rights; } rules[] = {
        {"/", list}, {"/usr", execute}, {"/etc", read}, {"/proc", read}, {"/dev", device},
        {"/home/sandbox", write}, {"/tmp", write}, {"/var/tmp", write}, {"/dev/shm", write},
    };
    int ruleset = (int)call(SYS_landlock_create_ruleset, &set, sizeof set, 0);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        int fd = (int)try_call(SYS_openat, AT_FDCWD, rules[i].path, O_PATH | O_CLOEXEC);
        if (fd < 0)
            continue;
        struct { uint64_t rights; int fd; } __attribute__((packed)) rule = {rules[i].rights, fd};
        call(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        call(SYS_close, fd);
    }
    call(SYS_landlock_restrict_self, ruleset, 0);
    call(SYS_close, ruleset);
}

static void empty_capability_sets(void) {
    struct { uint32_t version; int pid; } head = {0x20080522, 0};
    uint32_t sets[6] = {0};
    call(SYS_capset, &head, sets);
}

static void make_network(void) {
    if (want(NET_NS)) {
        call(SYS_unshare, CLONE_NEWNET);
        mark(M_R_NET);
        if (want(LO_UP)) {
            int socket = (int)call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
            call(SYS_ioctl, socket, SIOCSIFFLAGS, &request);
            call(SYS_close, socket);
        }
        mark(M_R_LO);
    }
}

static int run_runner(void *argument) {
    struct shared *s = argument;
    mark(M_R_START);
    make_network();
    call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (want(CAPS)) {
        for (long c = 0; try_call(SYS_prctl, PR_CAPBSET_DROP, c, 0, 0, 0) == 0; c++) {}
        call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        empty_capability_sets();
        mark(M_R_CAPS);
    }
    if (want(SECCOMP)) {
        atomic_store(&s->listener,
                     (int)call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
        mark(M_R_SECCOMP);
    }
    wait_until(&s->init, ROOTED);
    mark(M_R_ROOTED);
    struct stat at;
    call(SYS_newfstatat, AT_FDCWD, "/", &at, 0);
    if (want(LANDLOCK)) {
        landlock();
        mark(M_R_LANDLOCK);
    }
    advance(&s->runner, 1);

    wait_until(&s->init, RELEASED);
    call(SYS_close_range, 3, ~0u, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC);
    for (int i = 0; i < 3; i++)
        call(SYS_dup3, s->stdio[i], i, 0);
    call(SYS_chdir, want(ROOT) ? "/home/sandbox" : "/");
    try_call(SYS_setsid);
    try_call(SYS_umask, 022);
    uint64_t none = 0;
    try_call(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
    if (want(RLIMITS)) {
        const struct { int what; uint64_t soft, hard; } limits[] = {
            {RLIMIT_CORE, 0, 0}, {RLIMIT_NOFILE, 1024, 16384}, {RLIMIT_NPROC, 81, 81}, {RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
            {RLIMIT_MSGQUEUE, 204800, 204800}, {RLIMIT_SIGPENDING, 1024, 1024}, {RLIMIT_NICE, 0, 0},
            {RLIMIT_RTPRIO, 0, 0}, {RLIMIT_STACK, 8 << 20, RLIM_INFINITY}, {RLIMIT_CPU, 62, 63},
        };
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
            call(SYS_prlimit64, 0, limits[i].what, &limits[i].soft, 0);
    }
    mark(M_R_EXEC);
    const char *const argv[] = {program, 0};
    const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/sandbox", "LANG=C.UTF-8", "TMPDIR=/tmp", 0};
    call(SYS_execve, program, argv, env);
    return 0;
}

// ---- Init ---------------------------------------------------------------------------------------------------

enum { CONTROL = 10, LIFE, SCRATCH_TOP, TREE };

static void mask(const char *path) {
    int folder = (int)try_call(SYS_openat, AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        call(SYS_close, folder);
        call(SYS_mount, path, path, "", MS_BIND | MS_REC, "");
        call(SYS_mount, "", path, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
    } else if (folder == -ENOTDIR) {
        call(SYS_mount, "dev/.masked", path, "", MS_BIND, "");
    }
}

static void enter_root(void) {
    if (want(UTS_NS))
        call(SYS_sethostname, "sandbox", 7);
    if (!want(ROOT))
        return;
    call(SYS_move_mount, TREE, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
    call(SYS_fchdir, TREE);
    mark(M_MOVED);
    if (want(PROC) && want(PID_NS)) {
        call(SYS_mount, "proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
        mark(M_PROC);
        if (want(CEILING) && want(USER_NS)) {
            write_at(AT_FDCWD, "proc/sys/user/max_user_namespaces", "0");
            mark(M_CEILING);
        }
        if (want(MASKS)) {
            const char *const masked[] = {"proc/sysrq-trigger", "proc/kcore", "proc/kmsg", "proc/kallsyms",
                                          "proc/keys", "proc/timer_list", "proc/sys"};
            for (size_t i = 0; i < sizeof masked / sizeof *masked; i++)
                mask(masked[i]);
            mark(M_MASKS);
        }
    }
    if (want(SCRATCH)) {
        call(SYS_mount, "scratch", "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=268435456,nr_inodes=65544,mode=0755");
        int top = (int)call(SYS_openat, AT_FDCWD, "tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
        call(SYS_mkdirat, top, "home", 0755);
        call(SYS_mkdirat, top, "shm", 01777);
        call(SYS_mkdirat, top, "tmp", 01777);
        call(SYS_mount, "tmp/home", "home/sandbox", "", MS_BIND, "");
        call(SYS_mount, "tmp/shm", "dev/shm", "", MS_BIND, "");
        call(SYS_mount, "tmp/tmp", "var/tmp", "", MS_BIND, "");
        call(SYS_mount, "tmp/tmp", "tmp", "", MS_BIND, "");
        call(SYS_dup3, top, SCRATCH_TOP, O_CLOEXEC);
        mark(M_SCRATCH);
    }
    if (want(DEVPTS)) {
        call(SYS_mount, "devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620");
        mark(M_DEVPTS);
    }
    if (want(PIVOT)) {
        call(SYS_pivot_root, ".", ".");
        call(SYS_umount2, ".", MNT_DETACH);
        call(SYS_chdir, "/");
        mark(M_PIVOT);
    } else {
        call(SYS_chroot, ".");
    }
}

static void slurp(const char *path) {
    static char text[4096];
    int fd = (int)call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    call(SYS_read, fd, text, sizeof text);
    call(SYS_close, fd);
}

static void read_back(int pid) {
    format(status, "/proc/%d/status", pid);
    slurp(status);
    int root = (int)call(SYS_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct statfs mounted;
    struct stat at;
    call(SYS_fstatfs, root, &mounted);
    call(SYS_close, root);
    call(SYS_newfstatat, AT_FDCWD, "/", &at, 0);
    format(group, "/proc/%d/cgroup", pid);
    slurp(group);
    mark(M_READBACK);
}

static _Noreturn void run_init(int control, int tree, int go, int life) {
    mark(M_BORN);
    char byte;
    call(SYS_read, go, &byte, 1);
    mark(M_WOKEN);
    call(SYS_prctl, PR_SET_NAME, "floor-init", 0, 0, 0);
    if (root_outside && want(USER_NS)) {
        call(SYS_setgroups, 0, 0);
        call(SYS_setresgid, 1000, 1000, 1000);
        call(SYS_setresuid, 1000, 1000, 1000);
    }
    call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    struct pollfd poll[3] = {{.fd = life}};
    struct timespec at_once = {0, 0};
    call(SYS_ppoll, poll, 1, &at_once, 0, 8);
    uint64_t action[4] = {0}, every = ~0ull;
    call(SYS_rt_sigaction, SIGCHLD, action, 0, 8);
    call(SYS_rt_sigprocmask, SIG_SETMASK, &every, 0, 8);
    mark(M_IDS);
    if (want(CGROUP)) {
        for (int i = 0; i < v1_count; i++)
            call(SYS_write, v1_tasks[i], "0", 1);
        if (want(CGROUP_NS))
            call(SYS_unshare, CLONE_NEWCGROUP);
        mark(M_CGROUP);
    }
    const int kept[3][2] = {{control, CONTROL}, {life, LIFE}, {tree, TREE}};
    for (int i = 0; i < 3; i++)
        if (kept[i][0] >= 0)
            call(SYS_dup3, kept[i][0], 500 + i, O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (kept[i][0] >= 0)
            call(SYS_dup3, 500 + i, kept[i][1], O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        call(SYS_dup3, CONTROL, i, O_CLOEXEC);
    call(SYS_close_range, 3, 9, 0);
    call(SYS_close_range, SCRATCH_TOP, SCRATCH_TOP, 0);
    call(SYS_close_range, TREE + 1, ~0u, 0);

    static struct shared s = {.alive = 1, .listener = -1};
    const size_t size = 64 * 1024;
    char *stack = (char *)call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pid = clone(run_runner, stack + size, CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID | SIGCHLD, &s, 0, 0, &s.alive);
    must(pid < 0 ? -errno : pid, __LINE__);
    mark(M_RUNNER);
    enter_root();
    advance(&s.init, ROOTED);
    uint64_t child = 1ull << (SIGCHLD - 1);
    int signals = (int)call(SYS_signalfd4, -1, &child, 8, SFD_CLOEXEC | SFD_NONBLOCK);
    wait_until(&s.runner, 1);
    mark(M_CONFINED);
    if (want(READBACK) && want(ROOT) && want(PROC) && want(PID_NS))
        read_back(pid);
    int fds[2], count = 0;
    if (want(SCRATCH) && want(ROOT))
        fds[count++] = SCRATCH_TOP;
    if (want(SECCOMP))
        fds[count++] = atomic_load(&s.listener);
    tell_kind(CONTROL, READY, fds, count);

    struct pollfd wake[3] = {{.fd = CONTROL, .events = POLLIN}, {.fd = LIFE}};
    call(SYS_ppoll, wake, 2, 0, 0, 8);
    struct message job;
    hear(CONTROL, &job, 0);
    uint64_t len;
    memcpy(&len, job.bytes, sizeof len);
    volatile char *text = (char *)call(SYS_mmap, 0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, job.fds[0], 0);
    (void)text[0];
    mark(M_JOB);
    memcpy(s.stdio, &job.fds[1], sizeof s.stdio);
    advance(&s.init, RELEASED);
    while (atomic_load(&s.alive) != 0)
        try_call(SYS_futex, &s.alive, FUTEX_WAIT, 1, 0);
    mark(M_EXECUTED);
    tell_kind(CONTROL, RUNNING, 0, 0);
    empty_capability_sets();
    call(SYS_close_range, 0, 2, 0);
    for (int fd = 3; fd <= 64; fd++)
        if (fd != signals && !(fd >= CONTROL && fd <= SCRATCH_TOP))
            try_call(SYS_close, fd);
    if (want(INIT_FILTER)) {
        call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &init_filter);
    }
    mark(M_RETIRED);

    struct pollfd end[3] = {{.fd = CONTROL}, {.fd = LIFE}, {.fd = signals, .events = POLLIN}};
    for (;;) {
        call(SYS_ppoll, end, 3, 0, 0, 8);
        char info[128];
        try_call(SYS_read, signals, info, sizeof info);
        int status = 0;
        while (try_call(SYS_wait4, -1, &status, WNOHANG | __WALL, 0) > 0) {
            mark(M_REAPED);
            struct rusage usage;
            call(SYS_getrusage, RUSAGE_CHILDREN, &usage);
            int words[8] = {ENDED, status};
            tell(CONTROL, words, sizeof words, 0, 0);
            call(SYS_exit_group, 0);
        }
    }
}

// ---- The launcher -------------------------------------------------------------------------------------------

static void bind_tree(int root, const char *from, const char *to, bool devices) {
    int clone = (int)try_call(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (clone < 0)
        return;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | (devices ? 0 : MOUNT_ATTR_NODEV)};
    call(SYS_mount_setattr, clone, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr);
    call(SYS_move_mount, clone, "", root, to, MOVE_MOUNT_F_EMPTY_PATH);
    call(SYS_close, clone);
}

static void make_file(int root, const char *path, mode_t mode) {
    call(SYS_close, call(SYS_openat, root, path, O_WRONLY | O_CREAT | O_CLOEXEC, mode));
}

// The prepared root: the same mounts as hotcell's.
static int build_root(void) {
    call(SYS_mkdirat, AT_FDCWD, "/t0", 0755);
    call(SYS_mount, "floor", "/t0", "tmpfs", MS_NOSUID, "size=4m,nr_inodes=4096,mode=0755");
    int root = (int)call(SYS_openat, AT_FDCWD, "/t0", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *const folders[] = {"usr", "etc", "etc/ssl", "dev", "dev/pts", "dev/shm", "proc", "run", "tmp",
                                   "var", "var/tmp", "home", "home/sandbox"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        call(SYS_mkdirat, root, folders[i], 0755);
    bind_tree(root, "/host/usr", "usr", false);
    const char *const tops[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        char link[64] = {0};
        format(path, "/host/%s", tops[i]);
        if (readlink(path, link, sizeof link - 1) > 0) {
            call(SYS_symlinkat, link, root, tops[i]);
        } else if (try_call(SYS_faccessat, AT_FDCWD, path, F_OK) == 0) {
            call(SYS_mkdirat, root, tops[i], 0755);
            bind_tree(root, path, tops[i], false);
        }
    }
    DIR *etc = opendir("/host/etc");
    for (struct dirent *d; etc && (d = readdir(etc));) {
        const char *n = d->d_name;
        bool folder = !strcmp(n, "alternatives") || !strcmp(n, "fonts") || !strcmp(n, "perl") ||
                      !strcmp(n, "terminfo") || !strncmp(n, "java-", 5) || !strncmp(n, "python3", 7);
        if (folder) {
            format(from, "/host/etc/%.60s", n);
            format(to, "etc/%.60s", n);
            call(SYS_mkdirat, root, to, 0755);
            bind_tree(root, from, to, false);
        }
    }
    if (etc)
        closedir(etc);
    call(SYS_mkdirat, root, "etc/ssl/certs", 0755);
    bind_tree(root, "/host/etc/ssl/certs", "etc/ssl/certs", false);
    // The loader's cache: without it every program start searches folders.
    int cache = (int)try_call(SYS_openat, AT_FDCWD, "/host/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (cache >= 0) {
        int copy = (int)call(SYS_openat, root, "etc/ld.so.cache", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
        char piece[4096];
        for (long n; (n = try_call(SYS_read, cache, piece, sizeof piece)) > 0;)
            call(SYS_write, copy, piece, n);
        call(SYS_close, copy);
        call(SYS_close, cache);
    }
    const char *const devices[] = {"null", "zero", "full", "random", "urandom"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        format(from, "/host/dev/%s", devices[i]);
        format(to, "dev/%s", devices[i]);
        make_file(root, to, 0666);
        bind_tree(root, from, to, true);
    }
    make_file(root, "dev/.masked", 0);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
    call(SYS_mount_setattr, root, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr);
    return root;
}

static _Noreturn void run_launcher(int socket) {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    call(SYS_unshare, CLONE_NEWNS | CLONE_NEWNET | (root_outside ? 0 : CLONE_NEWUSER));
    if (!root_outside) {
        format(uids, "%u %u 1\n", uid, uid);
        format(gids, "%u %u 1\n", gid, gid);
        write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
        write_at(AT_FDCWD, "/proc/self/uid_map", uids);
        write_at(AT_FDCWD, "/proc/self/gid_map", gids);
    }
    call(SYS_mount, "", "/", "", MS_REC | MS_SLAVE, "");
    call(SYS_mount, "floor", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=1024,mode=0700");
    call(SYS_mkdirat, AT_FDCWD, "/tmp/host", 0700);
    call(SYS_chdir, "/tmp");
    call(SYS_pivot_root, ".", "host");
    call(SYS_chdir, "/");
    int proc = (int)call(SYS_openat, AT_FDCWD, "/host/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int template = want(ROOT) ? build_root() : -1;
    int life[2];
    call(SYS_pipe2, life, O_CLOEXEC);
    struct sigaction reap = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &reap, 0);

    uint64_t namespaces = CLONE_NEWNS;
    const struct { int step; uint64_t flag; } all[] = {
        {USER_NS, CLONE_NEWUSER}, {PID_NS, CLONE_NEWPID}, {IPC_NS, CLONE_NEWIPC}, {UTS_NS, CLONE_NEWUTS}, {TIME_NS, CLONE_NEWTIME}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (want(all[i].step))
            namespaces |= all[i].flag;
    for (;;) {
        struct message request;
        hear(socket, &request, 0);
        if (request.len == 0)
            call(SYS_exit_group, 0);
        mark(M_HEARD);
        int control = request.fds[0];
        v1_count = v2_group < 0 ? request.count - 1 : 0;
        memcpy(v1_tasks, &request.fds[1], (size_t)v1_count * sizeof(int));
        int tree = want(ROOT) ? (int)call(SYS_open_tree, template, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE) : -1;
        mark(M_CLONED);
        int go[2], pidfd = -1;
        call(SYS_pipe2, go, O_CLOEXEC);
        struct clone_args args = {.flags = namespaces | CLONE_PIDFD, .pidfd = (uint64_t)&pidfd, .exit_signal = SIGCHLD};
        if (v2_group >= 0 && want(CGROUP)) {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = (uint64_t)request.fds[1];
        }
        int pid = (int)call(SYS_clone3, &args, sizeof args);
        if (pid == 0) {
            call(SYS_close, go[1]);
            call(SYS_close, life[1]);
            run_init(control, tree, go[0], life[0]);
        }
        mark(M_FORKED);
        if (want(USER_NS)) {
            format(path, "%d/uid_map", pid);
            format(group_path, "%d/gid_map", pid);
            format(groups, "%d/setgroups", pid);
            format(uids, "1000 %u 1\n", root_outside ? 2000000000u : uid);
            format(gids, "1000 %u 1\n", root_outside ? 2000000000u : gid);
            if (!root_outside)
                write_at(proc, groups, "deny");
            write_at(proc, path, uids);
            write_at(proc, group_path, gids);
        }
        mark(M_MAPPED);
        tell_kind(control, BORN, &pidfd, 1);
        call(SYS_write, go[1], "g", 1);
        call(SYS_close, pidfd);
        call(SYS_close, go[0]);
        call(SYS_close, go[1]);
        if (tree >= 0)
            call(SYS_close, tree);
        for (int i = 0; i < request.count; i++)
            call(SYS_close, request.fds[i]);
    }
}

// ---- Cgroups, made ahead ------------------------------------------------------------------------------------

static char group_folders[3][768];
static int group_count;

static bool group_file(int folder, const char *name, const char *text) {
    int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) >= 0;
    if (fd >= 0)
        close(fd);
    return good;
}

// Version 1 below our own groups; version 2 at the top of its tree.
static void find_groups(void) {
    FILE *own = fopen("/proc/self/cgroup", "re");
    char line[512];
    while (own && fgets(line, sizeof line, own)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : 0;
        if (!path)
            continue;
        *path++ = 0;
        controllers++;
        path[strcspn(path, "\n")] = 0;
        bool useful = !strcmp(controllers, "memory") || !strcmp(controllers, "pids") || !strcmp(controllers, "cpuacct");
        if (useful && group_count < 3)
            snprintf(group_folders[group_count++], sizeof *group_folders, "/sys/fs/cgroup/%s%s/floor-%d", controllers,
                     strcmp(path, "/") ? path : "", getpid());
    }
    if (own)
        fclose(own);
    int top = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (group_count == 0 && group_file(top, "cgroup.subtree_control", "+memory +pids"))
        snprintf(group_folders[group_count++], sizeof *group_folders, "/sys/fs/cgroup/floor-%d", getpid());
    if (top >= 0)
        close(top);
}

// A fresh group with limits; false where none can be made.
static bool make_group(void) {
    v1_count = 0;
    for (int i = 0; i < group_count; i++) {
        int folder = mkdir(group_folders[i], 0755) < 0 ? -1 : open(group_folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
            return false;
        int tasks = openat(folder, "tasks", O_WRONLY | O_CLOEXEC);
        if (tasks >= 0)
            v1_tasks[v1_count++] = tasks;
        group_file(folder, "memory.limit_in_bytes", "805306368");
        group_file(folder, "memory.max", "805306368");
        group_file(folder, "pids.max", "65");
        if (tasks < 0)
            v2_group = folder;
        else
            close(folder);
    }
    return group_count > 0;
}

static void remove_group(void) {
    while (v1_count > 0)
        close(v1_tasks[--v1_count]);
    if (v2_group >= 0)
        close(v2_group);
    for (int i = 0; i < group_count; i++)
        for (int tries = 0; rmdir(group_folders[i]) < 0 && errno == EBUSY && tries < 1000; tries++)
            usleep(500);
}

// ---- The supervisor -----------------------------------------------------------------------------------------

static void make_pipe(int ends[2]) {
    call(SYS_pipe2, ends, O_CLOEXEC);
    call(SYS_fchown, ends[1], root_outside ? 2000000000 : -1, -1);
    call(SYS_fcntl, ends[0], F_SETFL, O_NONBLOCK);
}

// One run; its time in nanoseconds. Making and removing the group lies outside the time, as with hotcell's pool.
static uint64_t run(int launcher) {
    if (want(CGROUP) && !make_group()) {
        perror("floor: cgroup");
        exit(1);
    }
    memset(marks, 0, MARK_COUNT * sizeof *marks);
    uint64_t asked = marks[M_ASKED] = now();
    int control[2], out[2], err[2];
    call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
    int fds[8] = {control[1]}, count = 1;
    if (v2_group >= 0)
        fds[count++] = v2_group;
    for (int i = 0; i < v1_count; i++)
        fds[count++] = v1_tasks[i];
    static const char request[3500]; // as long as a request with its two filters
    tell(launcher, request, sizeof request, fds, count);
    call(SYS_close, control[1]);

    // While the sandbox is made: the job.
    static const char job[600];
    int memory = (int)call(SYS_memfd_create, "floor-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    call(SYS_write, memory, job, sizeof job);
    call(SYS_fcntl, memory, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    int null = (int)call(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
    make_pipe(out);
    make_pipe(err);
    const int handed[] = {memory, null, out[1], err[1]};
    const uint64_t len = sizeof job;
    tell(control[0], &len, sizeof len, handed, 4);
    for (int i = 0; i < 4; i++)
        call(SYS_close, handed[i]);

    struct pollfd poll[3] = {{.fd = control[0], .events = POLLIN}, {.fd = out[0], .events = POLLIN}, {.fd = err[0], .events = POLLIN}};
    int kept[8], kept_count = 0, pidfd = -1, status = -1;
    bool ended = false;
    while (!ended) {
        call(SYS_ppoll, poll, 3, 0, 0, 8);
        char text[4096];
        for (int i = 1; i < 3; i++)
            if (poll[i].revents && try_call(SYS_read, poll[i].fd, text, sizeof text) == 0)
                poll[i].fd = -1;
        if (poll[0].revents) {
            struct message said;
            hear(control[0], &said, 0);
            if (said.len == 0) {
                fprintf(stderr, "floor: the sandbox is gone\n");
                exit(1);
            }
            int words[2];
            memcpy(words, said.bytes, sizeof words);
            for (int i = 0; i < said.count; i++)
                kept[kept_count++] = said.fds[i];
            if (words[0] == BORN)
                pidfd = said.fds[0];
            if (words[0] == ENDED) {
                ended = true;
                status = words[1];
                mark(M_ENDED);
            }
        }
    }
    for (int i = 1; i < 3; i++) {
        char text[4096];
        if (poll[i].fd >= 0)
            while (try_call(SYS_read, poll[i].fd, text, sizeof text) > 0) {}
    }
    mark(M_COLLECTED);
    uint64_t took = now() - asked;

    if (status != 0) {
        fprintf(stderr, "floor: %s ended with status %d\n", program, status);
        exit(1);
    }
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    call(SYS_ppoll, &gone, 1, 0, 0, 8);
    close(control[0]);
    close(out[0]);
    close(err[0]);
    while (kept_count > 0)
        close(kept[--kept_count]);
    if (want(CGROUP))
        remove_group();
    return took;
}

static struct sock_fprog load_filter(const char *path, int step) {
    static struct sock_filter code[2][4096];
    struct sock_fprog loaded = {0, code[step == SECCOMP]};
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    long n = fd < 0 ? 0 : read(fd, loaded.filter, sizeof *code);
    if (n <= 0) {
        if (path) {
            fprintf(stderr, "floor: %s: no filter there\n", path);
            exit(2);
        }
        left_out[step] = true;
        return loaded;
    }
    close(fd);
    loaded.len = (unsigned short)(n / (long)sizeof **code);
    return loaded;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void leave_out(char *names) {
    for (char *name = strtok(names, ","); name; name = strtok(0, ",")) {
        int step = 0;
        while (step < COUNT && strcmp(STEP_NAMES[step], name))
            step++;
        if (step == COUNT) {
            fprintf(stderr, "floor: there is no step %s; there are:", name);
            for (step = 0; step < COUNT; step++)
                fprintf(stderr, " %s", STEP_NAMES[step]);
            fprintf(stderr, "\n");
            exit(2);
        }
        left_out[step] = true;
    }
}

int main(int argc, char **argv) {
    int runs = 1;
    bool serve = false, steps = false;
    const char *filter_path = 0, *init_filter_path = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--runs") && i + 1 < argc)
            runs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--serve"))
            serve = true;
        else if (!strcmp(argv[i], "--steps"))
            steps = true;
        else if (!strcmp(argv[i], "--without") && i + 1 < argc)
            leave_out(argv[++i]);
        else if (!strcmp(argv[i], "--filter") && i + 1 < argc)
            filter_path = argv[++i];
        else if (!strcmp(argv[i], "--init-filter") && i + 1 < argc)
            init_filter_path = argv[++i];
        else if (argv[i][0] != '-')
            program = argv[i];
        else {
            fprintf(stderr, "usage: floor [--runs N] [--serve] [--steps] [--without STEP,...] [--filter FILE] [--init-filter FILE] [PROGRAM]\n");
            return 2;
        }
    }
    if (runs < 1 || runs > 100000)
        runs = 1;
    filter = load_filter(filter_path, SECCOMP);
    init_filter = load_filter(init_filter_path, INIT_FILTER);
    root_outside = geteuid() == 0;
    marks = mmap(0, MARK_COUNT * sizeof *marks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t(*all)[MARK_COUNT] = calloc((size_t)runs, sizeof *all);
    if (marks == MAP_FAILED || !all)
        return 2;
    if (want(CGROUP))
        find_groups();
    // Once before the launcher is forked, which has to know the kind.
    if (want(CGROUP) && make_group())
        remove_group();
    else
        left_out[CGROUP] = true;

    int launcher[2];
    call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, launcher);
    pid_t pid = fork();
    if (pid == 0) {
        close(launcher[0]);
        run_launcher(launcher[1]);
    }
    close(launcher[1]);
    char line[16];
    for (int done = 0; serve ? fgets(line, sizeof line, stdin) != 0 : done < runs; done++) {
        uint64_t took = run(launcher[0]);
        if (!steps || serve) {
            printf("%.1f\n", (double)took / 1000);
            fflush(stdout);
        }
        if (!serve)
            memcpy(all[done], marks, sizeof *all);
        if (!serve)
            usleep(2000); // let the kernel take the namespaces down
    }
    if (steps && !serve) {
        for (int m = 0; m < MARK_COUNT; m++) {
            uint64_t *at = calloc((size_t)runs, sizeof *at);
            if (!at)
                return 2;
            for (int i = 0; i < runs; i++)
                at[i] = all[i][m] ? all[i][m] - all[i][M_ASKED] : 0;
            qsort(at, (size_t)runs, sizeof *at, by_size);
            if (at[runs / 2] || m == M_ASKED)
                printf("%7.1f  %s\n", (double)at[runs / 2] / 1000, MARK_NAMES[m]);
            free(at);
        }
    }
    close(launcher[0]);
    waitpid(pid, 0, 0);
    free(all);
    return 0;
}
