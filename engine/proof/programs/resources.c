/* Memory, processor, output, descriptors. Every bomb is bounded, for the case that nothing stops it. */
#include "attack.h"
#include <pthread.h>

static void memory_touched(void) {
    long mib = need_number("mib");
    for (long i = 0; i < mib; i++) {
        char *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) end(STOPPED, "stopped: no more than %ld MiB (%s)", i, strerrorname_np(errno));
        for (int p = 0; p < 1 << 20; p += 4096) block[p] = (char)(p + i);
    }
    usleep(300000);
    end(THROUGH, "through: touched %ld MiB", mib);
}
static void memory_in_children(void) {
    long mib = need_number("mib");
    int pipes[2];
    if (pipe(pipes)) end(MISSING, "no pipe");
    for (int c = 0; c < 8; c++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            char *block = malloc((size_t)(mib / 8) << 20);
            if (!block) _exit(0);
            memset(block, 'x', (size_t)(mib / 8) << 20);
            if (write(pipes[1], "x", 1) != 1) _exit(1);
            pause();
        }
    close(pipes[1]);
    char c;
    for (int i = 0; i < 8; i++)
        if (read(pipes[0], &c, 1) != 1) end(STOPPED, "stopped: %d of 8 children", i);
    usleep(300000);
    end(THROUGH, "through: eight children hold %ld MiB", mib);
}
/* A child takes too much; the leader outlives it, and ends or stays. */
static void child_out_of_memory(void) {
    long mib = need_number("mib");
    pid_t child = fork();
    if (child == 0) {
        char *block = mmap(NULL, (size_t)mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (block != MAP_FAILED) memset(block, 'x', (size_t)mib << 20);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %s\n", WIFSIGNALED(status) ? "killed" : "ended");
    fflush(stdout);
    while (opt("stays")) sleep(60);
    end(STOPPED, "the leader is there");
}
static void memory_in_memfd(void) {
    long mib = need_number("mib");
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    int fd = memfd_create("hotcell", MFD_CLOEXEC);
    if (fd < 0) {
        attempt(-1, "memfd_create");
        all_stopped();
    }
    for (long i = 0; i < mib; i++)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block) end(STOPPED, "stopped after %ld MiB", i);
    usleep(300000);
    end(THROUGH, "through: %ld MiB in a memfd", mib);
}
static void descriptors(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    long n = 0, bound = need_number("descriptors");
    while (n <= bound && dup(0) >= 0) n++;
    if (n > bound) end(THROUGH, "through: %ld descriptors", n);
    end(STOPPED, "stopped after %ld descriptors (%s)", n, strerrorname_np(errno));
}
static void core_dump(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    if (limit.rlim_max > 1) end(THROUGH, "through: a core of %llu bytes is allowed", (unsigned long long)limit.rlim_max);
    if (limit.rlim_max < 1) end(THROUGH, "through: a handler that core_pattern names would be started");
    char name[PATH_MAX];
    if (chdir(home("."))) end(BROKEN, "%s: %s", home("."), strerrorname_np(errno));
    pid_t child = fork();
    if (child == 0) abort();
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) end(BROKEN, "the child did not crash");
    snprintf(name, sizeof name, "core.%d", child);
    if (WCOREDUMP(status) || !access("core", F_OK) || !access(name, F_OK)) end(THROUGH, "through: a core was written");
    end(STOPPED, "stopped: no core");
}
static void *spin(void *unused) {
    volatile unsigned long n = 0;
    (void)unused;
    for (;;) n++;
    return NULL;
}
static void spin_threads(void) {
    pthread_t t;
    for (int i = 0; i < 3; i++) pthread_create(&t, NULL, spin, NULL);
    spin(NULL);
}
static void sleep_long(void) {
    printf("partial output\n");
    fflush(stdout);
    for (;;) sleep(60);
}
static void output_bomb(void) {
    long mib = need_number("mib");
    const char *kind = need("kind");
    static char block[1 << 16];
    memset(block, 'y', sizeof block);
    if (strcmp(kind, "one_line"))
        for (size_t i = 1; i < sizeof block; i += 2) block[i] = '\n';
    for (long i = 0; i < mib * 16; i++) {
        if (strcmp(kind, "stderr") && write(1, block, sizeof block) < 0) end(STOPPED, "stopped: output closed");
        if ((!strcmp(kind, "stderr") || !strcmp(kind, "both")) && write(2, block, sizeof block) < 0) _exit(STOPPED);
    }
    _exit(THROUGH);
}
static void binary_output(void) {
    static const char bytes[] = "\xff\xfe\x00\x01 not utf-8 \xc3\x28";
    if (write(1, bytes, sizeof bytes - 1) != (ssize_t)sizeof bytes - 1) end(BROKEN, "short write");
    end(STOPPED, "written");
}

const struct attack resource_attacks[] = {
    {"memory_touched", memory_touched},
    {"memory_in_children", memory_in_children},
    {"child_out_of_memory", child_out_of_memory},
    {"memory_in_memfd", memory_in_memfd},
    {"descriptors", descriptors},
    {"core_dump", core_dump},
    {"spin_threads", spin_threads},
    {"sleep_long", sleep_long},
    {"output_bomb", output_bomb},
    {"binary_output", binary_output},
    {NULL, NULL},
};
