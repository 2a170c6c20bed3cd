/* Sockets: reaching services outside, and families that reach around the network namespace. */
#include "attack.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/un.h>

static int quick(int fd) {
    struct timeval t = {2, 0};
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    }
    return fd;
}
static void tcp4(void) {
    const char *addresses[] = {"127.0.0.1", "0.0.0.0", "127.1.2.3"};
    for (int i = 0; i < 3; i++) {
        int fd = quick(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)need_number("port"))};
        inet_pton(AF_INET, addresses[i], &to.sin_addr);
        attempt(fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to), addresses[i]);
    }
    all_stopped();
}
static void tcp6(void) {
    const char *addresses[] = {"::1", "::ffff:127.0.0.1", "::"};
    for (int i = 0; i < 3; i++) {
        int fd = quick(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
        struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)need_number("port"))};
        inet_pton(AF_INET6, addresses[i], &to.sin6_addr);
        attempt(fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to), addresses[i]);
    }
    all_stopped();
}
static void udp(void) {
    int fd = quick(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)need_number("port"))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (fd < 0 || sendto(fd, "?", 1, 0, (struct sockaddr *)&to, sizeof to) < 0) {
        attempt(-1, "sendto");
        all_stopped();
    }
    char answer[32];
    ssize_t n = recv(fd, answer, sizeof answer, 0);
    if (n > 0 && holds_secret(answer, (size_t)n)) end(THROUGH, "through: an answer by UDP");
    end(STOPPED, "stopped: no answer (%s)", strerrorname_np(errno));
}
static void raw_socket(void) {
    attempt(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), "raw IPv4");
    attempt(socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6), "raw IPv6");
    attempt(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW), "raw IP");
    all_stopped();
}
static void ping_socket(void) {
    attempt(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP), "ping socket");
    all_stopped();
}
static void family(void) {
    int number = (int)need_number("family");
    static const int types[] = {SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, SOCK_SEQPACKET};
    int unsupported = 0;
    for (int i = 0; i < 4; i++) {
        int fd = socket(number, types[i] | SOCK_CLOEXEC, number == AF_KEY ? 2 : 0);
        if (fd < 0 && (errno == EAFNOSUPPORT || errno == ESOCKTNOSUPPORT || errno == EPROTONOSUPPORT)) {
            unsupported++;
            continue;
        }
        attempt(fd, "socket");
    }
    if (unsupported == 4) end(ABSENT, "family %d: not known", number);
    all_stopped();
}
static void netlink_family(void) {
    attempt(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, (int)need_number("protocol")), "netlink");
    all_stopped();
}
static int unix_address(struct sockaddr_un *to, const char *name, int abstract) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    strncpy(to->sun_path + abstract, name, sizeof to->sun_path - 2);
    return (int)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + strlen(name) + (abstract ? 0 : 1));
}
static void path_socket(void) {
    struct sockaddr_un to;
    int n = unix_address(&to, need("socket"), 0);
    int fd = quick(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    attempt(fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, (socklen_t)n), "connect to the path");
    char link[PATH_MAX];
    snprintf(link, sizeof link, "%s", home("s"));
    if (!symlink(need("socket"), link)) {
        n = unix_address(&to, link, 0);
        fd = quick(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        attempt(fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, (socklen_t)n), "connect through a symlink");
    }
    all_stopped();
}
static void abstract_stream(void) {
    struct sockaddr_un to;
    int n = unix_address(&to, need("abstract"), 1);
    int fd = quick(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    attempt(fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, (socklen_t)n), "connect");
    all_stopped();
}
static void abstract_datagram(void) {
    char name[100];
    snprintf(name, sizeof name, "%s-d", need("abstract"));
    struct sockaddr_un to;
    int n = unix_address(&to, name, 1);
    struct iovec io = {"x", 1};
    struct msghdr m = {.msg_name = &to, .msg_namelen = (socklen_t)n, .msg_iov = &io, .msg_iovlen = 1};
    struct mmsghdr many = {.msg_hdr = m};
    int fd = quick(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        attempt(-1, "socket");
        all_stopped();
    }
    attempt(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, (socklen_t)n), "sendto");
    attempt(sendmsg(fd, &m, 0), "sendmsg");
    attempt(sendmmsg(fd, &many, 1, 0) == 1 ? 0 : -1, "sendmmsg");
    attempt(connect(fd, (struct sockaddr *)&to, (socklen_t)n), "connect");
    all_stopped();
}

const struct attack network_attacks[] = {
    {"tcp4", tcp4},
    {"tcp6", tcp6},
    {"udp", udp},
    {"raw_socket", raw_socket},
    {"ping_socket", ping_socket},
    {"family", family},
    {"netlink", netlink_family},
    {"path_socket", path_socket},
    {"abstract_stream", abstract_stream},
    {"abstract_datagram", abstract_datagram},
    {NULL, NULL},
};
