//! Network and sockets.

use super::{
    CAPS, FILTER_ONLY, KERNEL, LANDLOCK, LAUNCHER, MOUNT, NET, NOT_ROOT_INSIDE, Probe, Row, SECCOMP, Set,
    USER, Users, a, c,
};

pub(super) const ROWS: &[Row] = &[
    a(81, "tcp4", c("tcp4", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(81, "tcp6", c("tcp6", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(81, "udp", c("udp", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(81, "tcp4_with_network_off", c("tcp4", &["port={port}"]), &[NET, LANDLOCK, SECCOMP, LAUNCHER])
        .set(&[Set::NetworkOff])
        .bare("the launcher's own network is empty too"),
    a(81, "udp_with_network_off", c("udp", &["port={port}"]), &[NET, SECCOMP, LAUNCHER])
        .set(&[Set::NetworkOff])
        .bare("the launcher's own network is empty too"),
    a(81, "raw_sockets", c("raw_socket", &[]), &[SECCOMP, CAPS, USER])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(82, "shell_dev_tcp", Probe::Shell("dev_tcp.sh", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(83, "spellings_of_an_address", Probe::Python("python_connect.py", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(93, "path_socket", c("path_socket", &["socket={socket}"]), &[MOUNT])
        .single("Landlock covers named sockets from ABI 9 only"),
    a(94, "abstract_stream", c("abstract_stream", &["abstract={abstract}"]), &[NET, LANDLOCK, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(94, "abstract_datagram", c("abstract_datagram", &["abstract={abstract}"]), &[NET, LANDLOCK, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(95, "alias_of_daemon_socket", c("path_socket", &["socket={socket}"]), &[MOUNT])
        .set(&[Set::ShowSockets])
        .single("Landlock covers named sockets from ABI 9 only"),
    a(96, "sockets_of_starter", c("sockets_of_starter", &[]), &[SECCOMP, LAUNCHER])
        .bare("process 1 of a sandbox can never be looked into"),
    Row::works(96, "descriptors_over_sockets", c("pass_descriptors", &[])),
    Row::works(96, "malformed_control_messages", c("malformed_control", &[])),
    a(97, "vsock", c("family", &["family=40"]), &[SECCOMP]).single("this kernel's vsock knows no namespace"),
    a(97, "alg", c("family", &["family=38"]), &[SECCOMP]).single(FILTER_ONLY),
    a(97, "packet", c("family", &["family=17"]), &[SECCOMP, CAPS, USER])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(97, "key", c("family", &["family=15"]), &[SECCOMP, CAPS]).for_user(&[KERNEL]).bare(NOT_ROOT_INSIDE),
    a(97, "xdp", c("family", &["family=44"]), &[SECCOMP, CAPS, USER])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(97, "tipc", c("family", &["family=30"]), &[SECCOMP]).single(FILTER_ONLY),
    a(98, "netlink_audit", c("netlink", &["protocol=9"]), &[SECCOMP]).single(FILTER_ONLY),
    a(98, "netlink_netfilter", c("netlink", &["protocol=12"]), &[SECCOMP]).single(FILTER_ONLY),
    a(98, "netlink_uevent", c("netlink", &["protocol=15"]), &[SECCOMP]).single(FILTER_ONLY),
    Row::works(100, "oversized_address", c("long_address", &[]))
        .open(Users::Both, "the filter refuses every socket but pairs, since the network is the host's"),
    Row::works(101, "socket_pair", c("socket_pair", &[])),
    Row::works(101, "asyncio_wakes_itself", Probe::Python("asyncio_wakeup.py", &[])),
];
