/* Dispatcher: `attack NAME key=value…`. */
#include "attack.h"
#include <stdarg.h>

static char **arguments;
const char decoy_secret[32] = "HOTCELL-SECRET in memory";
char decoy_zeros[16];

void end(int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    _exit(code);
}

const char *opt(const char *key) {
    size_t n = strlen(key);
    for (char **a = arguments; *a; a++)
        if (!strncmp(*a, key, n) && (*a)[n] == '=') return *a + n + 1;
    return NULL;
}
const char *need(const char *key) {
    const char *value = opt(key);
    if (!value) end(BROKEN, "argument %s= is missing", key);
    return value;
}
long need_number(const char *key) { return strtol(need(key), NULL, 10); }

char **rest(void) {
    for (char **a = arguments; *a; a++)
        if (!strcmp(*a, "--") && a[1]) return a + 1;
    end(BROKEN, "no command after --");
}

const char *home(const char *name) {
    static char paths[8][PATH_MAX];
    static int turn;
    char *path = paths[turn++ % 8];
    const char *base = getenv("HOME");
    /* Without its own mounts a sandbox has no home folder; then the scratch of the arena serves. */
    if (!base || !*base || access(base, W_OK)) base = "/tmp";
    snprintf(path, PATH_MAX, "%s/%s", base, name);
    return path;
}

int holds_secret(const char *text, size_t length) { return memmem(text, length, "HOTCELL-SECRET", 14) != NULL; }

ssize_t slurp_fd(int fd, char *buffer, size_t size) {
    size_t have = 0;
    while (have < size - 1) {
        ssize_t n = read(fd, buffer + have, size - 1 - have);
        if (n < 0) return -1;
        if (n == 0) break;
        have += (size_t)n;
    }
    buffer[have] = 0;
    return (ssize_t)have;
}
ssize_t slurp(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -1;
    ssize_t n = slurp_fd(fd, buffer, size);
    int e = errno;
    close(fd);
    errno = e;
    return n;
}

static int refusals, absences, oddities;

static int is_refusal(int e) {
    static const int list[] = {EPERM,  EACCES, ENOENT, EROFS, ESRCH,        ENXIO,        EXDEV,  ENOTDIR,    ENODEV,
                               ENOSPC, EAGAIN, EBUSY,  ELOOP, ECONNREFUSED, EAFNOSUPPORT, ENOTTY, ENETUNREACH, EPROTONOSUPPORT,
                               EADDRNOTAVAIL, EHOSTUNREACH, ETIMEDOUT, EUSERS};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == e) return 1;
    return 0;
}
void attempt_or(long result, const char *what, const int *passed) {
    int e = errno;
    if (result >= 0) end(THROUGH, "through: %s", what);
    for (; passed && *passed; passed++)
        if (*passed == e) end(THROUGH, "through: %s was permitted (%s)", what, strerrorname_np(e));
    fprintf(stderr, "%s: %s; ", what, strerrorname_np(e));
    if (e == ENOSYS || e == ENOPROTOOPT || e == EOPNOTSUPP) absences++;
    else if (is_refusal(e)) refusals++;
    else oddities++;
}
void attempt(long result, const char *what) { attempt_or(result, what, NULL); }
void all_stopped(void) {
    if (oddities) end(BROKEN, "an answer that is no refusal");
    if (absences && !refusals) end(ABSENT, "no such call");
    end(STOPPED, "stopped");
}

int in_child(int (*f)(void)) {
    pid_t child = fork();
    if (child < 0) return 128;
    if (child == 0) _exit(f());
    int status;
    if (waitpid(child, &status, 0) < 0) return 127;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    static const struct attack *const tables[] = {files_attacks,   proc_attacks,     syscall_attacks,
                                                  namespace_attacks, network_attacks, process_attacks,
                                                  resource_attacks, cgroup_attacks,  works_attacks,
                                                  race_attacks,    sharing_attacks,  host_attacks,
                                                  spelling_attacks, neighbour_attacks};
    if (argc < 2) end(BROKEN, "usage: attack NAME key=value…");
    arguments = argv + 2;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct attack *a = tables[t]; a->name; a++)
            if (!strcmp(a->name, argv[1])) {
                a->run();
                end(BROKEN, "%s came to no end", a->name);
            }
    end(BROKEN, "there is no attack %s", argv[1]);
}
