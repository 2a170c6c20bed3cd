/* /proc, /sys and /dev. Nothing here is written where that would change the machine: opening for writing is proof enough. */
#include "attack.h"
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/timex.h>

static void overwrite_exe(void) {
    char path[64];
    static const int passed[] = {ETXTBSY, 0};
    long pids[] = {1, getppid(), need_number("pid")};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/%ld/exe", pids[i]);
        attempt_or(open(path, O_WRONLY | O_CLOEXEC), path, passed);
        /* The way of CVE-2019-5736: keep a descriptor, then open it again for writing. */
        int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0) continue;
        char again[64];
        snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
        attempt_or(open(again, O_WRONLY | O_CLOEXEC), "exe opened again", passed);
        close(fd);
    }
    /* One's own program. While it runs the answer is ETXTBSY to everybody, so it is held until its process is gone. */
    int hold[2];
    if (pipe(hold)) end(MISSING, "no pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(hold[1], 1);
        execl(need("victim"), "attack", "say_and_wait", NULL);
        _exit(127);
    }
    close(hold[1]);
    char byte;
    if (read(hold[0], &byte, 1) != 1) end(MISSING, "the victim did not start");
    snprintf(path, sizeof path, "/proc/%d/exe", (int)child);
    int fd = open(path, O_PATH | O_CLOEXEC);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    attempt(open(path, O_WRONLY | O_CLOEXEC), "the file of a program that ended");
    all_stopped();
}
static void say_and_wait(void) {
    if (write(1, "x", 1) == 1) pause();
    _exit(1);
}
/* A mask is a device or an empty file in the place of the real one: opening it is no success. */
static int is_mask(int fd) {
    struct stat s;
    return !fstat(fd, &s) && (S_ISCHR(s.st_mode) || S_ISDIR(s.st_mode));
}
static void open_for_writing(void) {
    const char *path = need("file");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) end(ABSENT, "%s does not exist", path);
    if (fd >= 0 && is_mask(fd)) end(STOPPED, "stopped: %s is masked", path);
    attempt(fd, path);
    all_stopped();
}
/* Writes a sysctl's present value back: a change of nothing that still needs the permission. */
static void write_back(void) {
    const char *path = need("file");
    char text[128];
    ssize_t n = slurp(path, text, sizeof text);
    if (n < 0 && errno == ENOENT) end(ABSENT, "%s does not exist", path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) attempt(-1, path);
    else attempt(write(fd, text, (size_t)(n > 0 ? n : 0)), path);
    all_stopped();
}
static void read_kernel_file(void) {
    const char *path = need("file");
    static char text[1 << 16];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) end(ABSENT, "%s does not exist", path);
    if (fd < 0) {
        attempt(-1, path);
        all_stopped();
    }
    if (is_mask(fd) && strncmp(path, "/dev/", 5)) end(STOPPED, "stopped: %s is masked", path);
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0) {
        attempt(-1, path);
        all_stopped();
    }
    text[n > 0 ? n : 0] = 0;
    if (strstr(path, "kallsyms")) {
        /* With addresses hidden the file is a list of zeros. */
        if (n > 16 && strncmp(text, "0000000000000000", 16)) end(THROUGH, "through: kernel addresses");
        end(STOPPED, "stopped: no address in it");
    }
    if (n > 0) end(THROUGH, "through: read %zd bytes of %s", n, path);
    end(STOPPED, "stopped: %s is empty", path);
}
static void supervisor_environment(void) {
    static char text[1 << 16];
    DIR *proc = opendir("/proc");
    if (!proc) {
        attempt(-1, "/proc");
        all_stopped();
    }
    struct dirent *entry;
    int seen = 0;
    /* The number by which this /proc knows the program itself, whatever getpid() says. */
    char own[32] = "";
    if (readlink("/proc/self", own, sizeof own - 1) < 0) own[0] = 0;
    while ((entry = readdir(proc))) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || !strcmp(entry->d_name, own)) continue;
        char path[300];
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        ssize_t n = slurp(path, text, sizeof text);
        if (n > 0 && holds_secret(text, (size_t)n)) end(THROUGH, "through: %s", path);
        seen++;
        snprintf(path, sizeof path, "/proc/%s/mem", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        char memory[32];
        if (pread(fd, memory, sizeof memory, (off_t)(uintptr_t)decoy_secret) > 0 && holds_secret(memory, sizeof memory))
            end(THROUGH, "through: %s", path);
        close(fd);
    }
    end(STOPPED, "stopped: %d other processes, none readable", seen);
}
static void sys_visible(void) {
    const char *folders[] = {"/sys/firmware", "/sys/class/net", "/sys/kernel", "/sys/devices"};
    for (int i = 0; i < 4; i++) {
        DIR *d = opendir(folders[i]);
        if (!d) {
            attempt(-1, folders[i]);
            continue;
        }
        int n = 0;
        while (readdir(d)) n++;
        closedir(d);
        if (n > 2) end(THROUGH, "through: %s has %d entries", folders[i], n - 2);
    }
    end(STOPPED, "stopped: nothing of /sys");
}
static void dev_listing(void) {
    static const char *const known[] = {".",   "..", "null", "zero", "full", "random", "urandom", "tty",
                                        "pts", "ptmx", "shm", "fd",   "stdin", "stdout", "stderr", "console", "mqueue",
                                        ".masked" /* the empty file that covers others */,
                                        ".primer.js" /* what a Node that waits loads first */};
    const char *devices[] = {"/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/kmsg", "/dev/loop-control", "/dev/net/tun", "/dev/vda"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        int fd = open(devices[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) end(THROUGH, "through: opened %s", devices[i]);
    }
    DIR *d = opendir("/dev");
    if (!d) {
        attempt(-1, "/dev");
        all_stopped();
    }
    struct dirent *entry;
    while ((entry = readdir(d))) {
        size_t k = 0, count = sizeof known / sizeof *known;
        while (k < count && strcmp(known[k], entry->d_name)) k++;
        if (k == count) end(THROUGH, "through: /dev/%s is there", entry->d_name);
    }
    end(STOPPED, "stopped: a minimal /dev");
}
static void shm_read(void) {
    char text[64];
    ssize_t n = slurp("/dev/shm/hotcell-decoy", text, sizeof text);
    if (n > 0 && holds_secret(text, (size_t)n)) end(THROUGH, "through: another's /dev/shm");
    if (n >= 0) end(BROKEN, "read something else");
    attempt(-1, "/dev/shm/hotcell-decoy");
    all_stopped();
}
/* Pushes a character into a terminal: the one of the session, or a new one made for the purpose. */
static void push_character(int tty, int new_one) {
    char c = 'x';
    attempt(ioctl(tty, TIOCSTI, &c), new_one ? "TIOCSTI on an own terminal" : "TIOCSTI");
    /* The kernel takes 32 bits of the request; a filter that compares 64 lets this one pass. */
    attempt(syscall(SYS_ioctl, tty, (1UL << 32) | TIOCSTI, &c), "TIOCSTI with a high bit");
    static const int passed[] = {EINVAL, 0};
    char wrong[2] = {127, 0}; /* no such TIOCLINUX function */
    (void)passed;
    long r = ioctl(tty, TIOCLINUX, wrong);
    if (r >= 0) end(THROUGH, "through: TIOCLINUX");
}
static void controlling_terminal(void) {
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (tty < 0) attempt(-1, "/dev/tty");
    else push_character(tty, 0);
    for (int fd = 0; fd < 3; fd++)
        if (isatty(fd)) push_character(fd, 0);
    all_stopped();
}
static void own_terminal(void) {
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0) {
        attempt(-1, "/dev/ptmx");
        all_stopped();
    }
    int unlock = 0;
    if (ioctl(master, TIOCSPTLCK, &unlock)) attempt(-1, "unlocking the terminal");
    pid_t child = fork();
    if (child == 0) {
        setsid();
        int tty = ioctl(master, TIOCGPTPEER, O_RDWR);
        if (tty < 0) attempt(-1, "opening the other side");
        else {
            if (ioctl(tty, TIOCSCTTY, 0)) attempt(-1, "TIOCSCTTY");
            push_character(tty, 1);
        }
        all_stopped();
    }
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN);
}
static void write_map(void) {
    const char *files[] = {"/proc/self/uid_map", "/proc/self/gid_map", "/proc/1/uid_map"};
    static const char map[] = "0 0 1\n";
    for (int i = 0; i < 3; i++) {
        int fd = open(files[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0) attempt(-1, files[i]);
        else attempt(write(fd, map, sizeof map - 1), files[i]);
    }
    all_stopped();
}
static void leaked_descriptors(void) {
    char text[256];
    for (int fd = 3; fd < 4096; fd++) {
        struct stat s;
        if (fstat(fd, &s)) continue;
        int in = openat(fd, "readable", O_RDONLY | O_CLOEXEC);
        if (in >= 0 && slurp_fd(in, text, sizeof text) > 0 && holds_secret(text, strlen(text)))
            end(THROUGH, "through: descriptor %d leads out", fd);
        end(THROUGH, "through: descriptor %d was left open", fd);
    }
    end(STOPPED, "stopped: only 0 to 2 are open");
}
static void cwd_outside(void) {
    char path[PATH_MAX];
    if (syscall(SYS_getcwd, path, sizeof path) < 0) end(STOPPED, "stopped: no working folder");
    if (path[0] != '/') end(THROUGH, "through: the working folder is outside the root: %s", path);
    if (opt("outside") && !strncmp(path, opt("outside"), strlen(opt("outside")))) end(THROUGH, "through: working folder %s", path);
    end(STOPPED, "stopped: %s", path);
}
static void set_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    attempt(clock_settime(CLOCK_REALTIME, &now), "clock_settime");
    struct timex t = {.modes = ADJ_TICK};
    struct timex present = {0};
    adjtimex(&present);
    t.tick = present.tick;
    attempt(adjtimex(&t), "adjtimex");
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (fd < 0) attempt(-1, "timens_offsets");
    else {
        static const char line[] = "monotonic 0 0\n";
        attempt(write(fd, line, sizeof line - 1), "timens_offsets");
    }
    all_stopped();
}
static void set_names(void) {
    char name[256];
    gethostname(name, sizeof name);
    attempt(sethostname(name, strlen(name)), "sethostname");
    if (getdomainname(name, sizeof name)) name[0] = 0;
    attempt(setdomainname(name, strlen(name)), "setdomainname");
    all_stopped();
}
static void host_name(void) {
    char name[256] = "";
    gethostname(name, sizeof name);
    if (!strcmp(name, need("host_name"))) end(THROUGH, "through: the host is called %s", name);
    end(STOPPED, "stopped: called %s", name);
}

/* Whether anything that tells a process about itself holds a word, given in hexadecimal so that it does not stand in its own
 * arguments. */
static void word_in_sight(void) {
    static const char *places[] = {"mountinfo", "mounts", "mountstats", "maps", "smaps", "cmdline", "environ", "auxv", "cgroup", "status", "stat", "comm"};
    static const char *links[] = {"cwd", "exe", "root", "fd/0", "fd/1", "fd/2"};
    static char text[1 << 20];
    char word[128] = {0};
    const char *hex = need("word");
    for (size_t i = 0; i < sizeof word - 1 && hex[2 * i]; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        word[i] = (char)strtol(pair, NULL, 16);
    }
    int found = 0;
    for (int self = 0; self < 2; self++) {
        const char *who = self ? "self" : "1";
        char path[64];
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", who, places[i]);
            ssize_t n = slurp(path, text, sizeof text);
            char *at = n > 0 ? memmem(text, (size_t)n, word, strlen(word)) : NULL;
            if (!at) continue;
            char *line = at;
            while (line > text && line[-1] != '\n') line--;
            fprintf(stderr, "%s: %.*s; ", path, (int)strcspn(line, "\n"), line);
            found++;
        }
        for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", who, links[i]);
            ssize_t n = readlink(path, text, sizeof text);
            if (n > 0 && memmem(text, (size_t)n, word, strlen(word))) found++, fprintf(stderr, "%s: %.*s; ", path, (int)n, text);
        }
    }
    const char *executed = (const char *)getauxval(AT_EXECFN);
    if (executed && strstr(executed, word)) found++, fprintf(stderr, "AT_EXECFN: %s; ", executed);
    if (getcwd(text, sizeof text) && strstr(text, word)) found++, fprintf(stderr, "getcwd: %s; ", text);
    end(found ? THROUGH : STOPPED, "%d places hold the word", found);
}

const struct attack proc_attacks[] = {
    {"word_in_sight", word_in_sight},
    {"overwrite_exe", overwrite_exe},
    {"say_and_wait", say_and_wait},
    {"open_for_writing", open_for_writing},
    {"write_back", write_back},
    {"read_kernel_file", read_kernel_file},
    {"supervisor_environment", supervisor_environment},
    {"sys_visible", sys_visible},
    {"dev_listing", dev_listing},
    {"shm_read", shm_read},
    {"controlling_terminal", controlling_terminal},
    {"own_terminal", own_terminal},
    {"write_map", write_map},
    {"leaked_descriptors", leaked_descriptors},
    {"cwd_outside", cwd_outside},
    {"set_clock", set_clock},
    {"set_names", set_names},
    {"host_name", host_name},
    {NULL, NULL},
};
