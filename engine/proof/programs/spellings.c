/* Other spellings of what the filter denies. Where something is set, it is set to what it is. */
#include "attack.h"
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/un.h>

#ifndef MADV_MERGEABLE
#define MADV_MERGEABLE 12
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif
#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#define UDP_ENCAP_OPTION 100
#define SO_ZEROCOPY_OPTION 60
#define NS_GET_OWNER_UID_REQUEST 0xb704
#define NS_GET_USERNS_REQUEST 0xb701

static int pair(int kind, int *ends) {
    return socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends);
}
/* A program in the kernel without bpf(2). */
static void socket_filters(void) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, 0xffff)};
    struct sock_fprog program = {1, all};
    int ends[2], udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, espinudp = 2;
    if (pair(SOCK_STREAM, ends)) end(BROKEN, "socketpair: %s", strerrorname_np(errno));
    attempt(setsockopt(ends[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), "SO_ATTACH_FILTER");
    if (udp >= 0) {
        setsockopt(udp, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
        attempt(setsockopt(udp, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program), "SO_ATTACH_REUSEPORT_CBPF");
        attempt(setsockopt(udp, IPPROTO_UDP, UDP_ENCAP_OPTION, &espinudp, sizeof espinudp), "UDP_ENCAP");
        attempt(setsockopt(udp, SOL_SOCKET, SO_ZEROCOPY_OPTION, &one, sizeof one), "SO_ZEROCOPY");
    }
    all_stopped();
}
static void urgent_data(void) {
    int ends[2];
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    struct mmsghdr several = {.msg_hdr = message};
    if (pair(SOCK_STREAM, ends)) end(BROKEN, "socketpair: %s", strerrorname_np(errno));
    attempt(send(ends[0], "x", 1, MSG_OOB), "send of urgent data");
    attempt(sendmsg(ends[0], &message, MSG_OOB | MSG_NOSIGNAL), "sendmsg of urgent data");
    attempt(sendmmsg(ends[0], &several, 1, MSG_OOB), "sendmmsg of urgent data");
    all_stopped();
}
static void merged_memory(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int result = madvise(page, 4096, MADV_MERGEABLE);
    if (result && errno == EINVAL) end(ABSENT, "this kernel merges no memory");
    attempt(result, "MADV_MERGEABLE");
    all_stopped();
}
/* EAGAIN says that it is not in the cache. */
static void page_cache(void) {
    static const int told[] = {EAGAIN, 0};
    char byte;
    struct iovec piece = {&byte, 1};
    int file = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    if (file < 0) end(MISSING, "/bin/sh: %s", strerrorname_np(errno));
    attempt_or(preadv2(file, &piece, 1, 0, RWF_NOWAIT), "preadv2 of what is in memory", told);
    all_stopped();
}
static void leases(void) {
    int file = open(home("leased"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int again = open(home("leased"), O_RDONLY | O_CLOEXEC);
    if (file < 0 || again < 0) end(MISSING, "no file: %s", strerrorname_np(errno));
    close(file);
    attempt(fcntl(again, F_SETLEASE, F_RDLCK), "F_SETLEASE");
    all_stopped();
}
/* Whoever started this program: process 1 of a sandbox. Everything is set to what it is already. */
static void priority_of_starter(void) {
    pid_t starter = getppid();
    cpu_set_t processors;
    struct sched_param nothing = {0};
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, (id_t)starter);
    if (nice == -1 && errno) end(MISSING, "no priority: %s", strerrorname_np(errno));
    /* Process 1 takes the ids of the program some moments after it has started it; until then the kernel alone refuses. */
    for (int i = 0; i < 40 && setpriority(PRIO_PROCESS, (id_t)starter, nice); i++) usleep(25000);
    attempt(setpriority(PRIO_PROCESS, (id_t)starter, nice), "setpriority");
    if (!sched_getaffinity(starter, sizeof processors, &processors))
        attempt(sched_setaffinity(starter, sizeof processors, &processors), "sched_setaffinity");
    if (sched_getscheduler(starter) == SCHED_OTHER)
        attempt(sched_setscheduler(starter, SCHED_OTHER, &nothing), "sched_setscheduler");
    long io = syscall(SYS_ioprio_get, 1, starter);
    if (io >= 0) attempt(syscall(SYS_ioprio_set, 1, starter, io), "ioprio_set");
    all_stopped();
}
static void namespaces_by_ioctl(void) {
    int user = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC), net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    uid_t owner;
    if (user < 0 || net < 0) {
        attempt(-1, "/proc/self/ns");
        all_stopped();
    }
    attempt(ioctl(user, NS_GET_OWNER_UID_REQUEST, &owner), "NS_GET_OWNER_UID");
    attempt(ioctl(net, NS_GET_USERNS_REQUEST), "NS_GET_USERNS");
    all_stopped();
}
/* A pair of datagram sockets, also by its other name, can be connected anew. EPROTOTYPE: found, and of another kind. */
static void socket_by_a_pair(void) {
    static const int found[] = {EPROTOTYPE, 0};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &piece, .msg_iovlen = 1};
    int ends[2];
    strncpy(to.sun_path, need("socket"), sizeof to.sun_path - 1);
    static const int kinds[] = {SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM};
    for (int i = 0; i < 4; i++) {
        /* Ends that stay connected send to each other whatever the address is. */
        int stays = kinds[i] == SOCK_SEQPACKET || kinds[i] == SOCK_STREAM;
        if (pair(kinds[i], ends)) {
            attempt(-1, "a pair of datagram sockets");
            continue;
        }
        if (!stays) {
            attempt_or(sendto(ends[0], "x", 1, 0, (struct sockaddr *)&to, sizeof to), "sendto", found);
            attempt_or(sendmsg(ends[0], &message, 0), "sendmsg", found);
        }
        int connected = connect(ends[1], (struct sockaddr *)&to, sizeof to);
        if (!stays || !connected) attempt_or(connected, "connect", found);
    }
    all_stopped();
}
/* What servers and clients set. */
static void usual_options(void) {
    const struct {
        int family, kind, level, option, value;
    } usual[] = {
        {AF_INET, SOCK_STREAM, SOL_SOCKET, SO_REUSEADDR, 1},
        {AF_INET, SOCK_STREAM, SOL_SOCKET, SO_REUSEPORT, 1},
        {AF_INET, SOCK_STREAM, SOL_SOCKET, SO_KEEPALIVE, 1},
        {AF_INET, SOCK_STREAM, SOL_SOCKET, SO_SNDBUF, 8192},
        {AF_INET, SOCK_STREAM, SOL_SOCKET, SO_RCVBUF, 8192},
        {AF_INET, SOCK_STREAM, SOL_SOCKET, SO_INCOMING_CPU, 0},
        {AF_INET, SOCK_STREAM, IPPROTO_TCP, 1 /* TCP_NODELAY */, 1},
        {AF_INET, SOCK_STREAM, IPPROTO_TCP, 4 /* TCP_KEEPIDLE */, 60},
        {AF_INET, SOCK_STREAM, IPPROTO_TCP, 9 /* TCP_DEFER_ACCEPT */, 1},
        {AF_INET, SOCK_STREAM, IPPROTO_TCP, 18 /* TCP_USER_TIMEOUT */, 1000},
        {AF_INET, SOCK_STREAM, IPPROTO_TCP, 23 /* TCP_FASTOPEN */, 5},
        {AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_BROADCAST, 1},
        {AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_TTL, 5},
        {AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_TOS, 16},
        {AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_PKTINFO, 1},
        {AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_RECVERR, 1},
        {AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_TTL, 2},
        {AF_INET, SOCK_DGRAM, IPPROTO_UDP, 103 /* UDP_SEGMENT */, 1200},
        {AF_UNIX, SOCK_STREAM, SOL_SOCKET, SO_PASSCRED, 1},
        {AF_UNIX, SOCK_STREAM, SOL_SOCKET, SO_PEEK_OFF, 0},
        {AF_UNIX, SOCK_DGRAM, SOL_SOCKET, SO_TIMESTAMP, 1},
    };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        int fd = socket(usual[i].family, usual[i].kind | SOCK_CLOEXEC, 0);
        if (fd < 0) end(BROKEN, "socket %zu: %s", i, strerrorname_np(errno));
        if (setsockopt(fd, usual[i].level, usual[i].option, &usual[i].value, sizeof usual[i].value))
            end(BROKEN, "option %d of level %d: %s", usual[i].option, usual[i].level, strerrorname_np(errno));
        close(fd);
    }
    end(STOPPED, "%zu options were set", sizeof usual / sizeof *usual);
}

const struct attack spelling_attacks[] = {
    {"socket_filters", socket_filters},
    {"urgent_data", urgent_data},
    {"merged_memory", merged_memory},
    {"page_cache", page_cache},
    {"leases", leases},
    {"priority_of_starter", priority_of_starter},
    {"namespaces_by_ioctl", namespaces_by_ioctl},
    {"socket_by_a_pair", socket_by_a_pair},
    {"usual_options", usual_options},
    {NULL, NULL},
};
