//! Classifies addresses as public, private or unreachable. Pure: a table, first match wins.
//!
//! Sources: IANA's special-purpose address registries (RFC 6890 and its additions), and the documentation of
//! cloud providers for the addresses of their metadata services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A public address on the internet.
    Public,
    /// An address in a private network, or in a range that some networks use as one. Reached only when a rule
    /// names the address itself. With a description.
    Private(&'static str),
    /// An address that is never reached. With a description.
    Never(&'static str),
}

use Reach::{Never, Private, Public};

const METADATA: Reach = Never("a cloud's metadata service");

/// Network, prefix length, class.
const V4: &[(Ipv4Addr, u32, Reach)] = &[
    (Ipv4Addr::new(169, 254, 169, 254), 32, METADATA),
    (Ipv4Addr::new(100, 100, 100, 200), 32, METADATA),
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Never("an address of this host")),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Never("a loopback address")),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Never("a link-local address")),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Private("a private address")),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Private("a private address")),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Private("a private address")),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Private("an address of a carrier's network")),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Never("an address of a protocol")),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Private("an address for documentation")),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Private("an address for documentation")),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Private("an address for documentation")),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Never("an address of a 6to4 relay")),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Private("an address for benchmarks")),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Never("a multicast address")),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Never("a reserved or broadcast address")),
];

const fn v6(a: u16, b: u16, c: u16, f: u16, g: u16, h: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, 0, 0, f, g, h)
}

/// Like [`V4`], for IPv6. Addresses outside [`GLOBAL`] are not reached either.
const V6: &[(Ipv6Addr, u32, Reach)] = &[
    (v6(0xfd00, 0xec2, 0, 0, 0, 0x254), 128, METADATA),
    (v6(0xfd20, 0xce, 0, 0, 0, 0x254), 128, METADATA),
    (Ipv6Addr::LOCALHOST, 128, Never("a loopback address")),
    (v6(0, 0, 0, 0xffff, 0, 0), 96, Never("an IPv4 address in the spelling of IPv6")),
    (v6(0, 0, 0, 0, 0, 0), 96, Never("an IPv4 address in the spelling of IPv6")),
    (v6(0x64, 0xff9b, 1, 0, 0, 0), 48, Never("an address of a local translator")),
    (v6(0x2001, 0, 0, 0, 0, 0), 23, Never("an address of a tunnel or protocol")),
    (v6(0x2001, 0xdb8, 0, 0, 0, 0), 32, Private("an address for documentation")),
    (v6(0x2002, 0, 0, 0, 0, 0), 16, Never("an address of a 6to4 tunnel")),
    (v6(0x3fff, 0, 0, 0, 0, 0), 20, Private("an address for documentation")),
    (v6(0xfe80, 0, 0, 0, 0, 0), 10, Never("a link-local address")),
    (v6(0xfec0, 0, 0, 0, 0, 0), 10, Never("a site-local address")),
    (v6(0xff00, 0, 0, 0, 0, 0), 8, Never("a multicast address")),
    (v6(0xfc00, 0, 0, 0, 0, 0), 7, Private("a private address")),
];

/// Currently allocated global unicast addresses.
const GLOBAL: (Ipv6Addr, u32) = (v6(0x2000, 0, 0, 0, 0, 0), 3);
/// Well-known prefix of NAT64 (RFC 6052); the last 32 bits are the IPv4 address.
const NAT64: (Ipv6Addr, u32) = (v6(0x64, 0xff9b, 0, 0, 0, 0), 96);

const fn within6(address: u128, (network, bits): (Ipv6Addr, u32)) -> bool {
    (address ^ network.to_bits()) >> (128 - bits) == 0
}

/// Class of an address.
///
/// ```
/// use hotcell_egress::address::{Reach, reach};
/// assert_eq!(reach("1.1.1.1".parse().unwrap()), Reach::Public);
/// assert!(matches!(reach("::ffff:127.0.0.1".parse().unwrap()), Reach::Never(_)));
/// ```
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => {
            let inside = |(network, bits, _): &&(Ipv4Addr, u32, Reach)| {
                (v4.to_bits() ^ network.to_bits()) >> (32 - bits) == 0
            };
            V4.iter().find(inside).map_or(Public, |(_, _, reach)| *reach)
        }
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            if within6(bits, NAT64) {
                let [.., a, b, c, d] = v6.octets();
                return reach(Ipv4Addr::new(a, b, c, d).into());
            }
            match V6.iter().find(|(network, prefix, _)| within6(bits, (*network, *prefix))) {
                Some((_, _, reach)) => *reach,
                None if within6(bits, GLOBAL) => Public,
                None => Never("not an address of the internet"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_ranges_match_to_their_bounds() {
        for (reach_wanted, addresses) in [
            (
                "public",
                "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
              169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 \
              198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2a00:1450::1 2001:200::1 64:ff9b::101:101",
            ),
            (
                "private",
                "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 100.64.0.0 \
              100.127.255.255 192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.0 198.19.255.255 2001:db8::1 3fff::1 fc00:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 64:ff9b::10.0.0.1",
            ),
            (
                "never",
                "0.0.0.0 0.255.255.255 127.0.0.0 127.255.255.255 169.254.0.0 169.254.255.255 169.254.169.254 \
              100.100.100.200 168.63.129.16 192.0.0.0 192.0.0.192 192.88.99.1 \
              224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.255 \
              :: ::1 ::2 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:1.1.1.1 ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 \
              64:ff9b::169.254.169.254 64:ff9b:1::1.1.1.1 100::1 2001::1 2001:1ff::1 2002:7f00:1::1 \
              4000::1 5f00::1 fe80::1 febf::1 fec0::1 feff::1 ff02::1 fd00:ec2::254 fd20:ce::254",
            ),
        ] {
            for address in addresses.split_whitespace() {
                let got = match reach(address.parse().unwrap()) {
                    Public => "public",
                    Private(_) => "private",
                    Never(_) => "never",
                };
                assert_eq!(got, reach_wanted, "{address}");
            }
        }
    }

    #[test]
    fn ipv4_spellings_gain_no_reach() {
        for v4 in V4.iter().map(|(network, _, _)| *network) {
            for spelling in [v4.to_ipv6_mapped(), v4.to_ipv6_compatible()] {
                assert!(matches!(reach(spelling.into()), Never(_)), "{spelling}");
            }
            let nat64 = Ipv6Addr::from_bits(NAT64.0.to_bits() | u128::from(v4.to_bits()));
            assert_eq!(reach(nat64.into()), reach(v4.into()));
        }
    }
}
