/* The opposite of an attack: things that sandboxes often break and that must work. 0 = works. */
#include "attack.h"
#include <pthread.h>
#include <sys/un.h>

static void *add(void *n) {
    __atomic_add_fetch((int *)n, 1, __ATOMIC_SEQ_CST);
    return NULL;
}
static void threads(void) {
    pthread_t t[8];
    int n = 0;
    for (int i = 0; i < 8; i++)
        if (pthread_create(&t[i], NULL, add, &n)) end(BROKEN, "pthread_create failed: %s", strerrorname_np(errno));
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    end(n == 8 ? STOPPED : BROKEN, "%d of 8 threads ran", n);
}
static void reserve_memory(void) {
    void *at = mmap(NULL, 64UL << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) end(BROKEN, "64 GiB could not be reserved: %s", strerrorname_np(errno));
    if (mprotect(at, 1 << 20, PROT_READ | PROT_WRITE)) end(BROKEN, "mprotect: %s", strerrorname_np(errno));
    memset(at, 1, 1 << 20);
    end(STOPPED, "64 GiB reserved, 1 MiB used");
}
static void orphans_are_reaped(void) {
    for (int i = 0; i < 10; i++)
        if (fork() == 0) {
            if (fork() == 0) {
                usleep(50000);
                _exit(0);
            }
            _exit(0);
        }
    while (waitpid(-1, NULL, 0) > 0) {}
    int zombies = 0;
    for (int turn = 0; turn < 40; turn++) {
        usleep(50000);
        zombies = 0;
        DIR *proc = opendir("/proc");
        if (!proc) end(MISSING, "no /proc");
        struct dirent *entry;
        while ((entry = readdir(proc))) {
            char path[300], text[512];
            snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || slurp(path, text, sizeof text) <= 0) continue;
            char *after = strrchr(text, ')');
            if (after && after[2] == 'Z') zombies++;
        }
        closedir(proc);
        if (!zombies) end(STOPPED, "no zombie is left");
    }
    end(BROKEN, "%d zombies are left", zombies);
}
static void future_call(void) {
    errno = 0;
    long r = syscall(1999);
    end(r == -1 && errno == ENOSYS ? STOPPED : BROKEN, "an unknown number answered %ld %s", r, strerrorname_np(errno));
}
static void clone3_absent_or_works(void) {
    uint64_t a[11] = {0};
    a[4] = SIGCHLD;
    long child = syscall(SYS_clone3, a, sizeof a);
    if (child == 0) _exit(0);
    if (child > 0) waitpid((pid_t)child, NULL, 0);
    end(child > 0 || errno == ENOSYS ? STOPPED : BROKEN, "clone3 answered %ld %s", child, strerrorname_np(errno));
}
static int ticks;
static void tick(union sigval v) { __atomic_add_fetch((int *)v.sival_ptr, 1, __ATOMIC_SEQ_CST); }
static void thread_timers(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD};
    event.sigev_notify_function = tick;
    event.sigev_value.sival_ptr = &ticks;
    struct itimerspec soon = {{0, 10000000}, {0, 10000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL))
        end(BROKEN, "timer: %s", strerrorname_np(errno));
    for (int i = 0; i < 100 && ticks < 3; i++) usleep(20000);
    end(ticks >= 3 ? STOPPED : BROKEN, "%d ticks", ticks);
}
static void odd_names(void) {
    const char *names[] = {"\xff\xfe-not-utf8", "new\nline", "tab\tquote\"'", " ", "-rf"};
    for (int i = 0; i < 5; i++) {
        int fd = open(home(names[i]), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) end(BROKEN, "name %d: %s", i, strerrorname_np(errno));
        close(fd);
    }
    end(STOPPED, "five odd names");
}
static void deep_nesting(void) {
    if (chdir(home("."))) end(MISSING, "no home");
    long n = 0, folders = need_number("folders");
    for (; n < folders; n++)
        if (mkdir("d", 0700) || chdir("d")) break;
    end(n > 100 ? STOPPED : BROKEN, "%ld folders deep (%s)", n, strerrorname_np(errno));
}
static void sparse_file(void) {
    int fd = open(home("sparse"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int r = ftruncate(fd, 1L << 40);
    end(fd >= 0 ? STOPPED : BROKEN, "a file of 1 TiB without content: %s", r ? strerrorname_np(errno) : "made");
}
static void long_address(void) {
    struct {
        struct sockaddr_un a;
        char more[200];
    } to;
    memset(&to, 'x', sizeof to);
    to.a.sun_family = AF_UNIX;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) end(BROKEN, "socket: %s", strerrorname_np(errno));
    int r = connect(fd, (struct sockaddr *)&to, sizeof to);
    end(r < 0 ? STOPPED : BROKEN, "an oversized address answered %s", strerrorname_np(errno));
}
static void socket_pair(void) {
    int s[2];
    char c = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s)) end(BROKEN, "socketpair: %s", strerrorname_np(errno));
    if (send(s[0], "x", 1, 0) != 1 || recv(s[1], &c, 1, 0) != 1) end(BROKEN, "send: %s", strerrorname_np(errno));
    if (sendto(s[0], "y", 1, 0, NULL, 0) != 1) end(BROKEN, "sendto: %s", strerrorname_np(errno));
    end(STOPPED, "a socket pair works");
}

const struct attack works_attacks[] = {
    {"threads", threads},
    {"reserve_memory", reserve_memory},
    {"orphans_are_reaped", orphans_are_reaped},
    {"future_call", future_call},
    {"clone3_absent_or_works", clone3_absent_or_works},
    {"thread_timers", thread_timers},
    {"odd_names", odd_names},
    {"deep_nesting", deep_nesting},
    {"sparse_file", sparse_file},
    {"long_address", long_address},
    {"socket_pair", socket_pair},
    {NULL, NULL},
};
