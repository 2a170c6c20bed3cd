/* System calls that a program has no business with. Arguments are such that success changes nothing. */
#include "attack.h"
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/uio.h>
#include <grp.h>

static void ptrace_outside(void) {
    pid_t pids[] = {(pid_t)need_number("pid"), getppid()};
    for (int i = 0; i < 2; i++) {
        if (pids[i] <= 0) continue;
        long r = ptrace(PTRACE_SEIZE, pids[i], 0, 0);
        if (r == 0) {
            ptrace(PTRACE_INTERRUPT, pids[i], 0, 0);
            waitpid(pids[i], NULL, __WALL);
            ptrace(PTRACE_DETACH, pids[i], 0, 0);
        }
        attempt(r, "PTRACE_SEIZE");
    }
    all_stopped();
}
static void ptrace_sibling(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    long r = ptrace(PTRACE_SEIZE, child, 0, 0);
    int e = errno;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    errno = e;
    attempt(r, "PTRACE_SEIZE of a child");
    all_stopped();
}
static void vm_read(void) {
    char memory[32] = "";
    struct iovec to = {memory, sizeof memory}, from = {(void *)decoy_secret, sizeof memory};
    long r = process_vm_readv((pid_t)need_number("pid"), &to, 1, &from, 1, 0);
    if (r > 0 && !holds_secret(memory, sizeof memory)) end(BROKEN, "read something else");
    attempt(r, "process_vm_readv");
    /* Zeros over zeros. */
    struct iovec zeros = {memory, sizeof decoy_zeros}, there = {decoy_zeros, sizeof decoy_zeros};
    memset(memory, 0, sizeof memory);
    attempt(process_vm_writev((pid_t)need_number("pid"), &zeros, 1, &there, 1, 0), "process_vm_writev");
    all_stopped();
}
static void take_descriptor(void) {
    int pidfd = (int)syscall(SYS_pidfd_open, need_number("pid"), 0);
    if (pidfd < 0) attempt(-1, "pidfd_open");
    else attempt(syscall(SYS_pidfd_getfd, pidfd, 0, 0), "pidfd_getfd");
    all_stopped();
}
static void keyrings(void) {
    attempt(syscall(SYS_add_key, "user", "hotcell", "x", 1, -2 /* process keyring */), "add_key");
    attempt(syscall(SYS_keyctl, 0 /* get id */, -3 /* session keyring */, 1), "keyctl");
    attempt(syscall(SYS_request_key, "user", "hotcell", NULL, 0), "request_key");
    all_stopped();
}
static void bpf(void) {
    struct {
        uint32_t type, key, value, entries, flags;
    } map = {2, 4, 8, 1, 0};
    static const int passed[] = {EINVAL, E2BIG, 0};
    attempt_or(syscall(SYS_bpf, 0 /* create map */, &map, sizeof map), "bpf", passed);
    all_stopped();
}
static void perf(void) {
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK,
                                .disabled = 1, .exclude_kernel = 1, .exclude_hv = 1};
    attempt(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0), "perf_event_open of oneself");
    a.exclude_kernel = 0;
    attempt(syscall(SYS_perf_event_open, &a, -1, 0, -1, 0), "perf_event_open of a processor");
    all_stopped();
}
static void io_uring(void) {
    struct io_uring_params p = {0};
    attempt(syscall(SYS_io_uring_setup, 2, &p), "io_uring_setup");
    all_stopped();
}
static void user_fault(void) {
    attempt(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), "userfaultfd");
    attempt(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), "/dev/userfaultfd");
    all_stopped();
}
static void modules(void) {
    static const char image[] = "not an image";
    static const int passed[] = {ENOEXEC, EBADF, 0};
    attempt_or(syscall(SYS_init_module, image, sizeof image, ""), "init_module", passed);
    attempt_or(syscall(SYS_finit_module, -1, "", 0), "finit_module", passed);
    attempt(syscall(SYS_delete_module, "hotcell_no_such_module", O_NONBLOCK), "delete_module");
    all_stopped();
}
static void kexec(void) {
    static const int passed[] = {EINVAL, EBADF, 0};
    attempt_or(syscall(SYS_kexec_load, 0, 0, NULL, 0x10 /* a wrong flag */), "kexec_load", passed);
    attempt_or(syscall(SYS_kexec_file_load, -1, -1, 0, "", 0x80), "kexec_file_load", passed);
    all_stopped();
}
static void host_switches(void) {
    static const int wrong_magic[] = {EINVAL, 0}, no_file[] = {ENOENT, 0};
    attempt_or(syscall(SYS_reboot, 1, 2, 3, NULL), "reboot with a wrong magic number", wrong_magic);
    attempt_or(syscall(SYS_swapon, "/hotcell/no/such/file", 0), "swapon", no_file);
    attempt_or(syscall(SYS_acct, "/hotcell/no/such/file"), "acct", no_file);
    all_stopped();
}
static void quotas(void) {
    static const int passed[] = {ENODEV, ENOENT, ENOTBLK, 0};
    attempt_or(syscall(SYS_quotactl, 0x800005 << 8, "/hotcell/no/such/device", 0, NULL), "quotactl", passed);
    all_stopped();
}
static void io_ports(void) {
    attempt(syscall(SYS_ioperm, 0x80, 1, 1), "ioperm");
    attempt(syscall(SYS_iopl, 3), "iopl");
    all_stopped();
}
static void secure_bits(void) {
    attempt(prctl(PR_SET_SECUREBITS, 1 << 6 /* keep-caps raise locked off */, 0, 0, 0), "PR_SET_SECUREBITS");
    all_stopped();
}
static void old_descriptor_table(void) {
    char table[64];
    attempt(syscall(SYS_modify_ldt, 0, table, sizeof table), "modify_ldt");
    all_stopped();
}
static void compare_processes(void) {
    attempt(syscall(SYS_kcmp, getpid(), (pid_t)need_number("pid"), 1, 0, 0), "kcmp");
    all_stopped();
}
static void cookie(void) {
    char path[64];
    attempt(syscall(SYS_lookup_dcookie, 0UL, path, sizeof path), "lookup_dcookie");
    all_stopped();
}
static void set_personality(void) {
    attempt(syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */), "READ_IMPLIES_EXEC");
    attempt(syscall(SYS_personality, 0x0100000 /* MMAP_PAGE_ZERO */), "MMAP_PAGE_ZERO");
    all_stopped();
}
static void fixed_addresses(void) {
    attempt(syscall(SYS_personality, 0x0040000 /* ADDR_NO_RANDOMIZE */), "ADDR_NO_RANDOMIZE");
    all_stopped();
}
static void kernel_log(void) {
    char text[64];
    attempt(syscall(SYS_syslog, 3 /* read all */, text, sizeof text), "syslog");
    attempt(syscall(SYS_syslog, 10 /* size */, NULL, 0), "size of the log");
    all_stopped();
}

static long int80(long number, long a, long b) {
#ifdef __x86_64__
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b) : "memory", "r8", "r9", "r10", "r11");
    return result;
#else
    (void)number, (void)a, (void)b;
    return -ENOSYS;
#endif
}
static int old_getpid(void) { return int80(20, 0, 0) > 0 ? THROUGH : ABSENT; }
static int old_io_uring(void) {
    /* Needs a 32-bit address for its parameters. */
    void *low = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (low == MAP_FAILED) return MISSING;
    return int80(425, 2, (long)low) >= 0 ? THROUGH : ABSENT;
}
static int x32_getpid(void) { return syscall(0x40000000 | SYS_getpid) > 0 ? THROUGH : ABSENT; }
static void other_entry(int (*f)(void), const char *what) {
    int code = in_child(f);
    if (code == THROUGH) end(THROUGH, "through: %s", what);
    if (code == 128 + SIGSYS) end(STOPPED, "stopped: %s was killed by SIGSYS", what);
    if (code == 128 + SIGSEGV) end(ABSENT, "%s: no such entry", what);
    end(code, "%s: %d", what, code);
}
static void int80_entry(void) { other_entry(old_getpid, "int 0x80"); }
static void int80_io_uring(void) { other_entry(old_io_uring, "io_uring_setup by int 0x80"); }
static void x32_entry(void) { other_entry(x32_getpid, "an x32 number"); }

static void loosen_filter(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) fprintf(stderr, "second filter: %s; ", strerrorname_np(errno));
    struct io_uring_params p = {0};
    attempt(syscall(SYS_io_uring_setup, 2, &p), "io_uring_setup under a second filter");
    if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_DISABLED, 0, 0, 0)) end(THROUGH, "through: switched the filter off");
    all_stopped();
}
/* A new program file must not shed what the process is held by. */
static void memfd_exec(void) {
    int fd = memfd_create("hotcell", MFD_CLOEXEC);
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || self < 0) {
        attempt(-1, fd < 0 ? "memfd_create" : "/proc/self/exe");
        all_stopped();
    }
    static char block[1 << 16];
    ssize_t n;
    while ((n = read(self, block, sizeof block)) > 0)
        if (write(fd, block, (size_t)n) != n) end(MISSING, "no room for a copy");
    char *argv[] = {"attack", "confined", NULL};
    syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
    attempt(-1, "execveat");
    all_stopped();
}
static int status_number(const char *name, int base, unsigned long long *value) {
    static char text[8192];
    if (slurp("/proc/self/status", text, sizeof text) <= 0) return 0;
    char *line = strstr(text, name);
    if (!line) return 0;
    *value = strtoull(line + strlen(name), NULL, base);
    return 1;
}
static void confined(void) {
    unsigned long long nnp = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), seccomp = 0;
    if (!status_number("Seccomp:", 10, &seccomp)) end(MISSING, "no /proc/self/status");
    if (nnp != 1 || seccomp != 2) end(THROUGH, "through: NoNewPrivs %llu, Seccomp %llu", nnp, seccomp);
    end(STOPPED, "stopped: still confined");
}
static void no_new_privs(void) {
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) end(THROUGH, "through: NoNewPrivs is not set");
    end(STOPPED, "stopped: NoNewPrivs is 1");
}
static void seccomp_mode(void) {
    unsigned long long seccomp = 0;
    if (!status_number("Seccomp:", 10, &seccomp)) end(MISSING, "no /proc/self/status");
    if (seccomp != 2) end(THROUGH, "through: Seccomp is %llu", seccomp);
    end(STOPPED, "stopped: Seccomp is 2");
}
static void capability_sets(void) {
    const char *names[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    for (int i = 0; i < 5; i++) {
        unsigned long long value = 0;
        if (!status_number(names[i], 16, &value)) end(MISSING, "no /proc/self/status");
        if (value) end(THROUGH, "through: %s %llx", names[i], value);
    }
    end(STOPPED, "stopped: all sets are empty");
}
static void speculation(void) {
    int now = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0);
    if (now < 0 || !(now & PR_SPEC_PRCTL)) end(MISSING, "this processor's speculation cannot be set (%d)", now);
    attempt(prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_ENABLE, 0, 0), "PR_SPEC_ENABLE");
    all_stopped();
}
/* A child that no tracer gets, and one that is the child of the caller's parent. */
static void odd_children(void) {
    static const struct {
        unsigned long flag;
        const char *name;
    } kinds[] = {{CLONE_UNTRACED, "CLONE_UNTRACED"}, {CLONE_PTRACE, "CLONE_PTRACE"}};
    for (int i = 0; i < 2; i++) {
        long child = syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
        if (child == 0) _exit(0);
        if (child > 0) waitpid((pid_t)child, NULL, 0);
        attempt(child > 0 ? 0 : -1, kinds[i].name);
    }
    all_stopped();
}
static void setuid_program(void) {
    if (!strcmp(need("suid"), "none")) end(MISSING, "only a harness that is root can make a setuid program");
    if (geteuid() == 0) end(MISSING, "the user is 0 already");
    pid_t child = fork();
    if (child == 0) {
        execl(need("suid"), "attack", "am_i_root", NULL);
        _exit(errno == EPERM || errno == EACCES || errno == ENOENT ? STOPPED : BROKEN);
    }
    int status = 0;
    waitpid(child, &status, 0);
    end(WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN, "the setuid program ended with %x", status);
}
static void am_i_root(void) {
    if (geteuid() == 0) end(THROUGH, "through: the effective user is 0");
    end(STOPPED, "stopped: the effective user is %d", (int)geteuid());
}
static int setgroups_is_possible(void) { return setgroups(0, NULL) == 0; }
static void ids_and_groups(void) {
    gid_t groups[64];
    if (getuid() && !strcmp(need("groups"), "0")) end(MISSING, "the harness's user is in no other group");
    int n = getgroups(64, groups);
    if (getuid() == 0 || geteuid() == 0 || getgid() == 0) end(THROUGH, "through: user %d group %d", (int)getuid(), (int)getgid());
    for (int i = 0; i < n; i++)
        if (groups[i] != getgid() && groups[i] != 65534) end(THROUGH, "through: still in group %d", (int)groups[i]);
    if (setgroups_is_possible()) end(THROUGH, "through: setgroups works");
    end(STOPPED, "stopped: user %d, group %d, %d others", (int)getuid(), (int)getgid(), n);
}

const struct attack syscall_attacks[] = {
    {"ptrace_outside", ptrace_outside},
    {"ptrace_sibling", ptrace_sibling},
    {"vm_read", vm_read},
    {"take_descriptor", take_descriptor},
    {"keyrings", keyrings},
    {"bpf", bpf},
    {"perf", perf},
    {"io_uring", io_uring},
    {"user_fault", user_fault},
    {"modules", modules},
    {"kexec", kexec},
    {"host_switches", host_switches},
    {"quotas", quotas},
    {"io_ports", io_ports},
    {"secure_bits", secure_bits},
    {"old_descriptor_table", old_descriptor_table},
    {"compare_processes", compare_processes},
    {"cookie", cookie},
    {"set_personality", set_personality},
    {"fixed_addresses", fixed_addresses},
    {"kernel_log", kernel_log},
    {"int80_entry", int80_entry},
    {"int80_io_uring", int80_io_uring},
    {"x32_entry", x32_entry},
    {"loosen_filter", loosen_filter},
    {"memfd_exec", memfd_exec},
    {"confined", confined},
    {"no_new_privs", no_new_privs},
    {"seccomp_mode", seccomp_mode},
    {"capability_sets", capability_sets},
    {"speculation", speculation},
    {"odd_children", odd_children},
    {"setuid_program", setuid_program},
    {"am_i_root", am_i_root},
    {"ids_and_groups", ids_and_groups},
    {NULL, NULL},
};
