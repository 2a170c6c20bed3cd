//! Whether an address may be connected to.

use std::net::{IpAddr, UdpSocket};

use crate::address::{Reach, reach};

/// Checks whether an address may be connected to. `named`: a rule names the address itself. `own`: the
/// address belongs to this host.
pub fn check(address: IpAddr, named: bool, own: bool) -> Result<(), &'static str> {
    match reach(address) {
        Reach::Never(what) => Err(what),
        Reach::Private(what) if !named => Err(what),
        Reach::Public if own && !named => Err("an address of this host"),
        _ => Ok(()),
    }
}

/// Whether an address belongs to this host. Connecting to it would reach services that listen on all of the
/// host's addresses.
pub fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_connectable_by_rule_and_kind() {
        for (address, named, own, good) in [
            ("1.1.1.1", false, false, true),
            ("1.1.1.1", false, true, false),
            ("1.1.1.1", true, true, true),
            ("10.0.0.1", false, false, false),
            ("10.0.0.1", true, false, true),
            ("10.0.0.1", true, true, true),
            ("127.0.0.1", true, true, false),
            ("169.254.169.254", true, false, false),
            ("fd00:ec2::254", true, false, false),
            ("fd00::1", true, false, true),
            ("::ffff:10.0.0.1", true, false, false),
        ] {
            let got = check(address.parse().unwrap(), named, own);
            assert_eq!(got.is_ok(), good, "{address} {named} {own}: {got:?}");
        }
        assert!(is_own("127.0.0.1".parse().unwrap()) && !is_own("1.1.1.1".parse().unwrap()));
    }
}
