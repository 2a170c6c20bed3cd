/* What a run takes of what the kernel counts for a user of the host, or for the whole host: what is left for the neighbour. */
#include "attack.h"
#include <netinet/in.h>
#include <sys/inotify.h>
#include <sys/un.h>

/* The usual limit of a program outside, against which the kernel holds the sum of a user's descriptors in flight. */
#define USUAL 1024
/* As many as one message takes. */
#define MESSAGE 253

static void most_descriptors(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
/* Sends `count` copies of a descriptor; -1 with errno. */
static ssize_t send_copies(int from, const struct sockaddr_un *to, socklen_t length, int fd, int count, int flags) {
    static char space[CMSG_SPACE(MESSAGE * sizeof(int))];
    struct iovec io = {"x", 1};
    struct msghdr message = {.msg_name = (void *)to, .msg_namelen = length, .msg_iov = &io, .msg_iovlen = 1};
    memset(space, 0, sizeof space);
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) memcpy(CMSG_DATA(header) + (size_t)i * sizeof(int), &fd, sizeof fd);
    return sendmsg(from, &message, flags | MSG_NOSIGNAL);
}
/* Puts descriptors into queues that nobody reads, at most `most`; how many. */
static long fill(long most) {
    long total = 0;
    most_descriptors();
    while (total < most) {
        int s[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, s)) break;
        long before = total;
        while (total < most && send_copies(s[0], NULL, 0, s[0], MESSAGE, MSG_DONTWAIT) == 1) total += MESSAGE;
        if (errno == ETOOMANYREFS || total == before) break;
    }
    return total;
}
static void descriptors_in_flight(void) {
    long total = fill(USUAL + 2 * MESSAGE);
    if (total > USUAL) end(THROUGH, "through: %ld descriptors in flight", total);
    end(STOPPED, "stopped at %ld descriptors in flight (%s)", total, strerrorname_np(errno));
}
/* Senders that wait for a place in a full queue, with descriptors that are not counted yet. */
static void waiting_senders(void) {
    enum { SENDERS = 12 };
    volatile int *sent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sent == MAP_FAILED) end(BROKEN, "mmap");
    int receiver[SENDERS];
    pid_t child[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int named = snprintf(address.sun_path + 1, 32, "hotcell-queue-%d-%d", getpid(), i);
        socklen_t length = (socklen_t)(sizeof address.sun_family + 1 + (size_t)named);
        receiver[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        int filler = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (receiver[i] < 0 || filler < 0 || bind(receiver[i], (struct sockaddr *)&address, length))
            end(STOPPED, "stopped: no queue (%s)", strerrorname_np(errno));
        while (sendto(filler, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&address, length) == 1) continue;
        close(filler);
        child[i] = fork();
        if (child[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            if (send_copies(s, &address, length, 0, MESSAGE, 0) == 1) __sync_fetch_and_add(sent, 1);
            pause();
        }
    }
    usleep(300000);
    char byte;
    for (int i = 0; i < SENDERS; i++)
        for (int n = 0; n < 2; n++) (void)!recv(receiver[i], &byte, 1, MSG_DONTWAIT);
    usleep(300000);
    long total = (long)*sent * MESSAGE;
    for (int i = 0; i < SENDERS; i++)
        if (child[i] > 0) kill(child[i], SIGKILL);
    if (total > USUAL) end(THROUGH, "through: %ld descriptors in flight", total);
    end(STOPPED, "stopped at %ld descriptors in flight", total);
}
static int take_terminals(int most) {
    int n = 0;
    while (n < most && posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0) n++;
    return n;
}
static void pseudo_terminals(void) {
    int n = take_terminals(200);
    if (n > 64) end(THROUGH, "through: %d terminals", n);
    end(STOPPED, "stopped at %d terminals (%s)", n, strerrorname_np(errno));
}
static int take_watchers(int most) {
    int n = 0;
    while (n < most && inotify_init1(IN_CLOEXEC) >= 0) n++;
    return n;
}
static void inotify_instances(void) {
    /* Several arenas may have the same user of the host, who has 128. */
    int n = take_watchers(41);
    if (n > 40) end(THROUGH, "through: %d instances", n);
    end(STOPPED, "stopped at %d instances (%s)", n, strerrorname_np(errno));
}
/* Memory in the buffers of sockets that nobody reads, which no process has mapped. */
static void socket_buffers(void) {
    const char *kind = need("kind");
    long want = need_number("mib") << 20, total = 0;
    static char block[40000];
    memset(block, 'x', sizeof block);
    most_descriptors();
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int big = 1 << 30;
    while (total < want) {
        long before = total;
        int s = -1, pair[2];
        if (!strcmp(kind, "unix")) {
            /* Where pairs of datagrams are refused, those of streams hold as much. */
            if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
                break;
            setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
            while (send(pair[0], block, sizeof block, 0) > 0) total += (long)sizeof block;
        } else if (!strcmp(kind, "udp")) {
            struct sockaddr_in to = here;
            socklen_t length = sizeof to;
            int t = socket(AF_INET, SOCK_DGRAM, 0);
            if (t < 0 || bind(t, (struct sockaddr *)&to, length) || getsockname(t, (struct sockaddr *)&to, &length)) break;
            setsockopt(t, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
            s = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
            for (int i = 0; s >= 0 && i < 4 && sendto(s, block, sizeof block, 0, (struct sockaddr *)&to, length) > 0; i++)
                total += (long)sizeof block;
            close(s);
        } else {
            struct sockaddr_in to = here;
            socklen_t length = sizeof to;
            int l = socket(AF_INET, SOCK_STREAM, 0);
            if (l < 0 || bind(l, (struct sockaddr *)&to, length) || getsockname(l, (struct sockaddr *)&to, &length) || listen(l, 1)) break;
            s = socket(AF_INET, SOCK_STREAM, 0);
            if (s < 0 || connect(s, (struct sockaddr *)&to, length) || accept(l, NULL, NULL) < 0) break;
            close(l);
            fcntl(s, F_SETFL, O_NONBLOCK);
            while (write(s, block, sizeof block) > 0) total += (long)sizeof block;
        }
        if (total == before) break;
    }
    int error = errno;
    usleep(400000);
    if (total >= want) end(THROUGH, "through: %ld MiB in the buffers of %s", total >> 20, kind);
    end(STOPPED, "stopped at %ld MiB (%s)", total >> 20, strerrorname_np(error));
}
/* Memory in page tables: one page of them for 2 MiB of which one page is read. */
static void page_tables(void) {
    long mib = need_number("mib"), pages = mib << 8;
    char *space = mmap(NULL, (size_t)pages << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) end(STOPPED, "stopped: %s", strerrorname_np(errno));
    madvise(space, (size_t)pages << 21, MADV_NOHUGEPAGE);
    for (long i = 0; i < pages; i++) (void)*(volatile char *)(space + (i << 21));
    usleep(400000);
    end(THROUGH, "through: %ld MiB of page tables", mib);
}
static void first_to_go(void) {
    char text[32] = "";
    if (slurp("/proc/self/oom_score_adj", text, sizeof text) < 1) end(MISSING, "no oom_score_adj");
    if (atoi(text) < 1000) end(THROUGH, "through: %d", atoi(text));
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) == 1) end(THROUGH, "through: lowered");
    end(STOPPED, "stopped: %s", strerrorname_np(errno));
}
/* Takes as much as it gets of everything, says so by a file, and keeps it. */
static void hold_everything(void) {
    long flying = fill(USUAL + 2 * MESSAGE);
    int terminals = take_terminals(100), watchers = take_watchers(41);
    fprintf(stderr, "%ld descriptors in flight, %d terminals, %d inotify instances\n", flying, terminals, watchers);
    if (open(need("ready"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644) < 0) end(BROKEN, "%s: %s", need("ready"), strerrorname_np(errno));
    for (;;) sleep(60);
}
/* A program outside of it that has the same host user, with the usual limit. */
static void neighbour(void) {
    int s[2];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < USUAL ? limit.rlim_max : USUAL;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s)) end(BROKEN, "socketpair: %s", strerrorname_np(errno));
    if (send_copies(s[0], NULL, 0, 0, 1, 0) != 1) end(THROUGH, "through: no descriptor can be sent (%s)", strerrorname_np(errno));
    if (posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) < 0) end(THROUGH, "through: no terminal (%s)", strerrorname_np(errno));
    if (take_watchers(1) != 1) end(THROUGH, "through: no inotify instance (%s)", strerrorname_np(errno));
    end(STOPPED, "a descriptor is sent, a terminal and an inotify instance are there");
}

const struct attack neighbour_attacks[] = {
    {"descriptors_in_flight", descriptors_in_flight},
    {"waiting_senders", waiting_senders},
    {"pseudo_terminals", pseudo_terminals},
    {"inotify_instances", inotify_instances},
    {"socket_buffers", socket_buffers},
    {"page_tables", page_tables},
    {"first_to_go", first_to_go},
    {"hold_everything", hold_everything},
    {"neighbour", neighbour},
    {NULL, NULL},
};
