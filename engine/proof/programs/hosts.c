/* Poorer hosts: `attack poor kind=KIND -- COMMAND…` takes something from this process that a host or a container may lack,
 * and executes the command. Only ever inside an arena, and only ever less than the arena has. */
#include "attack.h"
#include <elf.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define GET_NOTIF_SIZES 3
#define NAMESPACES                                                                                                       \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* A filter under construction. */
static struct sock_filter code[256];
static unsigned short used;
static void add(uint16_t op, uint8_t yes, uint8_t no, uint32_t k) { code[used++] = (struct sock_filter){op, yes, no, k}; }
static void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset); }
static void answer(uint32_t action) { add(BPF_RET | BPF_K, 0, 0, action); }
static void begin(void) {
    load(offsetof(struct seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    answer(SECCOMP_RET_ALLOW);
}
/* `call` answers `action`. */
static void always(long call, uint32_t action) {
    load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)call);
    answer(action);
}
/* `call` answers `action` when argument `n` has one of `bits`. */
static void with_bits(long call, int n, uint32_t bits, uint32_t action) {
    load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, (uint32_t)call);
    load(offsetof(struct seccomp_data, args) + 8 * (size_t)n);
    add(BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
    answer(action);
}
/* `call` answers `action` when argument `n` is `value`. */
static void with_value(long call, int n, uint32_t value, uint32_t action) {
    load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, (uint32_t)call);
    load(offsetof(struct seccomp_data, args) + 8 * (size_t)n);
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
    answer(action);
}
static int install(unsigned flags) {
    answer(SECCOMP_RET_ALLOW);
    struct sock_fprog program = {used, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) end(MISSING, "no_new_privs");
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (r < 0) end(MISSING, "no filter: %s", strerrorname_np(errno));
    return (int)r;
}
static uint32_t fails(int error) { return SECCOMP_RET_ERRNO | (uint32_t)error; }

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) end(MISSING, "%s: %s", path, strerrorname_np(errno));
    close(fd);
}
/* A user namespace in which this process may change what it then lacks; the command keeps nothing of it but its id. */
static void own_user_namespace(int more) {
    unsigned uid = geteuid(), gid = getegid();
    char map[64];
    if (unshare(CLONE_NEWUSER | more)) end(MISSING, "no user namespace: %s", strerrorname_np(errno));
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1\n", uid, uid);
    put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1\n", gid, gid);
    put("/proc/self/gid_map", map);
}
static void cover(const char *path) {
    struct stat s;
    if (stat(path, &s)) return;
    int done = S_ISDIR(s.st_mode) ? mount("none", path, "tmpfs", MS_RDONLY, "size=4k") : mount("/dev/null", path, NULL, MS_BIND, NULL);
    if (done) end(MISSING, "%s: %s", path, strerrorname_np(errno));
}
/* What container engines cover in /proc. */
static void covered_proc(void) {
    const char *paths[] = {"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi"};
    own_user_namespace(CLONE_NEWNS);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) cover(paths[i]);
}
/* The default filter of container engines, as far as a process without capabilities meets it. */
static void container_filter(void) {
    static const int refused[] = {SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_move_mount, SYS_open_tree,
                                  SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_bpf,
                                  SYS_perf_event_open, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_open_by_handle_at,
                                  SYS_userfaultfd, SYS_quotactl, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_sethostname};
    begin();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) always(refused[i], fails(EPERM));
    always(SYS_clone3, fails(ENOSYS));
    with_bits(SYS_clone, 0, NAMESPACES, fails(EPERM));
    install(0);
}
/* Answers `abi` to whoever asks for the version of Landlock. Only the command itself is watched: what it starts asks no more. */
static void pretend_landlock(long abi) {
    if (abi <= 0) {
        begin();
        for (int call = SYS_landlock_create_ruleset; call <= SYS_landlock_restrict_self; call++)
            always(call, fails(abi ? EOPNOTSUPP : ENOSYS));
        install(0);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        begin();
        with_value(SYS_landlock_create_ruleset, 2, 1, SECCOMP_RET_TRACE);
        install(0);
        return;
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    if (ptrace(PTRACE_SEIZE, child, NULL, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL)) end(MISSING, "ptrace: %s", strerrorname_np(errno));
    kill(child, SIGCONT);
    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
            struct user_regs_struct registers;
            struct iovec io = {&registers, sizeof registers};
            if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &io)) end(MISSING, "registers: %s", strerrorname_np(errno));
#if defined(__x86_64__)
            registers.orig_rax = (unsigned long long)-1;
            registers.rax = (unsigned long long)abi;
#elif defined(__aarch64__)
            int none = -1;
            struct iovec call = {&none, sizeof none};
            ptrace(PTRACE_SETREGSET, child, NT_ARM_SYSTEM_CALL, &call);
            registers.regs[0] = (unsigned long long)abi;
#endif
            if (ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &io)) end(MISSING, "registers: %s", strerrorname_np(errno));
            signal = 0;
        } else if (status >> 16) signal = 0;
        ptrace(PTRACE_CONT, child, NULL, signal);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN);
}

static void poor(void) {
    const char *kind = need("kind");
    if (!strcmp(kind, "no_user_namespaces")) {
        own_user_namespace(0);
        put("/proc/sys/user/max_user_namespaces", "0");
    } else if (!strcmp(kind, "forbidden_user_namespaces")) {
        begin();
        with_bits(SYS_unshare, 0, CLONE_NEWUSER, fails(EPERM));
        install(0);
    } else if (!strcmp(kind, "no_cgroups")) {
        own_user_namespace(CLONE_NEWNS);
        cover("/sys/fs/cgroup");
    } else if (!strcmp(kind, "covered_proc")) {
        covered_proc();
    } else if (!strcmp(kind, "container")) {
        covered_proc();
        container_filter();
    } else if (!strcmp(kind, "no_notifications")) {
        begin();
        with_value(SYS_seccomp, 0, GET_NOTIF_SIZES, fails(EINVAL));
        with_bits(SYS_seccomp, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER, fails(EINVAL));
        install(0);
    } else if (!strcmp(kind, "listener_taken")) {
        begin();
        int listener = install(SECCOMP_FILTER_FLAG_NEW_LISTENER);
        /* It counts for as long as somebody holds it. */
        fcntl(listener, F_SETFD, 0);
    } else if (!strcmp(kind, "landlock")) {
        pretend_landlock(need_number("abi"));
    } else if (strcmp(kind, "nothing"))
        end(BROKEN, "no kind of host %s", kind);
    char **command = rest();
    execv(command[0], command);
    end(BROKEN, "%s: %s", command[0], strerrorname_np(errno));
}

const struct attack host_attacks[] = {{"poor", poor}, {NULL, NULL}};
