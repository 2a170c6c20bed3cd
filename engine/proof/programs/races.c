/* Arguments in memory that another thread changes while the kernel, the filter's supervisor or a rule looks at them. */
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ptrace.h>
#include <sys/un.h>

#define TRIES 4000
/* Factor of TRIES up to which tries go on where the other thread has not run: both values must be met. */
#define MAX_FACTOR 50

/* One buffer, filled in turns with what is allowed and with what is not. */
static struct {
    char now[256], allowed[256], denied[256];
    size_t size;
    atomic_int stop;
} flip;

static void *flipper(void *unused) {
    (void)unused;
    while (!flip.stop) {
        memcpy(flip.now, flip.denied, flip.size);
        /* Without it a compiler may leave out the first copy, which the second overwrites. */
        atomic_signal_fence(memory_order_seq_cst);
        memcpy(flip.now, flip.allowed, flip.size);
        atomic_signal_fence(memory_order_seq_cst);
    }
    return NULL;
}
/* Whether try `i` is still to be made. Both values have been met when the own server (or file) answered and another try was refused. On a machine
 * whose processors are busy the flipping thread may not run during thousands of tries: then the race has not been run yet. */
static int another_try(int i, int tries, int own, int refused) {
    if (i < tries) return 1;
    if (own && refused) return 0;
    if (i % 256 == 0) sched_yield();
    return i < MAX_FACTOR * tries;
}
static void start_flipping(void) {
    pthread_t thread;
    memcpy(flip.now, flip.allowed, flip.size);
    if (pthread_create(&thread, NULL, flipper, NULL)) end(MISSING, "no second thread");
}
/* Answers everybody with a word that is no secret. */
static void *serve(void *listener) {
    for (;;) {
        int fd = accept((int)(intptr_t)listener, NULL, NULL);
        if (fd < 0) continue;
        send(fd, "own", 3, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}
static void flip_address(int family, const struct sockaddr *allowed, const void *denied, size_t size) {
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) {
        attempt(-1, "socket");
        all_stopped();
    }
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (bind(listener, allowed, (socklen_t)size) || listen(listener, 64)) end(BROKEN, "own server: %s", strerrorname_np(errno));
    if (getsockname(listener, (struct sockaddr *)&bound, &length)) end(BROKEN, "getsockname");
    flip.size = size;
    memcpy(flip.allowed, family == AF_INET ? (const void *)&bound : (const void *)allowed, size);
    memcpy(flip.denied, denied, size);
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)listener)) end(MISSING, "no server thread");
    start_flipping();
    int own = 0, refused = 0;
    for (int i = 0; another_try(i, TRIES, own, refused); i++) {
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval t = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        char answer[64];
        if (connect(fd, (struct sockaddr *)flip.now, (socklen_t)size)) refused++;
        else {
            ssize_t n = recv(fd, answer, sizeof answer, 0);
            if (n > 0 && holds_secret(answer, (size_t)n)) end(THROUGH, "through at try %d", i);
            own += n == 3;
        }
        close(fd);
    }
    if (!own) end(BROKEN, "never reached the own server");
    if (!refused) end(BROKEN, "never asked for the other server in %d tries", MAX_FACTOR * TRIES);
    end(STOPPED, "stopped: %d times the own server, %d times refused", own, refused);
}
static void address_race(void) {
    struct sockaddr_in own = {.sin_family = AF_INET}, other = {.sin_family = AF_INET};
    own.sin_addr.s_addr = other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    other.sin_port = htons((uint16_t)need_number("port"));
    flip_address(AF_INET, (struct sockaddr *)&own, &other, sizeof own);
}
static void socket_path_race(void) {
    struct sockaddr_un own = {.sun_family = AF_UNIX}, other = {.sun_family = AF_UNIX};
    snprintf(own.sun_path, sizeof own.sun_path, "%s", home("own.sock"));
    snprintf(other.sun_path, sizeof other.sun_path, "%s", need("socket"));
    flip_address(AF_UNIX, (struct sockaddr *)&own, &other, sizeof own);
}
static void open_race(void) {
    snprintf(flip.allowed, sizeof flip.allowed, "%s", home("own"));
    snprintf(flip.denied, sizeof flip.denied, "%s", need("secret"));
    flip.size = sizeof flip.now;
    int fd = open(flip.allowed, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "own", 3) != 3) end(BROKEN, "own file: %s", strerrorname_np(errno));
    close(fd);
    start_flipping();
    int own = 0, refused = 0;
    for (int i = 0; another_try(i, TRIES * 4, own, refused); i++) {
        char text[256];
        ssize_t n = slurp(flip.now, text, sizeof text);
        if (n > 0 && holds_secret(text, (size_t)n)) end(THROUGH, "through at try %d", i);
        if (n == 3) own++;
        else refused++;
    }
    if (!own) end(BROKEN, "never read the own file");
    if (!refused) end(BROKEN, "never asked for the other file in %d tries", MAX_FACTOR * TRIES * 4);
    end(STOPPED, "stopped: %d times the own file, %d times refused", own, refused);
}
/* Calls that the filter refuses or only reports, without end. Whoever gets one through leaves a word in `log`; every
 * refused call is counted there, in eight bytes. */
static void refused_without_end(void) {
    int log = open(need("log"), O_RDWR | O_CLOEXEC);
    if (log < 0) end(BROKEN, "log: %s", strerrorname_np(errno));
    uint64_t *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, log, 0);
    if (count == MAP_FAILED) end(BROKEN, "mmap: %s", strerrorname_np(errno));
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    for (;;) {
        long r = syscall(SYS_unshare, CLONE_NEWUSER);
        count[r == 0 ? 1 : 0]++;
        if (r && errno == ENOSYS) count[2]++;
        r = ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        count[r == 0 ? 1 : 0]++;
        /* Only reported, and allowed while somebody can report it. */
        if (sock >= 0 && sendto(sock, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1) count[3]++;
        usleep(1000);
    }
}

const struct attack race_attacks[] = {
    {"address_race", address_race},
    {"socket_path_race", socket_path_race},
    {"open_race", open_race},
    {"refused_without_end", refused_without_end},
    {NULL, NULL},
};
