//! Which addresses may be connected to.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::declared::problem::Problem;

/// Networks, addresses and hosts that are listed, beside the public addresses.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct AllowedAddresses {
    networks: Vec<Network>,
    hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl AllowedAddresses {
    /// Parses the entries of `key`: `10.0.0.0/8`, `::1`, `intranet.example.com`.
    ///
    /// # Errors
    ///
    /// An entry is neither a network, nor an address, nor the name of a host.
    pub fn parse(key: &str, entries: &[String]) -> Result<Self, Problem> {
        let mut allowed = Self::default();
        for entry in entries {
            if let Some(network) = Network::parse(entry) {
                allowed.networks.push(network);
            } else if is_host_name(entry) {
                allowed.hosts.push(entry.to_ascii_lowercase());
            } else {
                let message = format!("{entry:?} is not a network, an address or a host name");
                let hint = "write such as \"10.1.0.0/16\", \"127.0.0.1\" or \"api.internal\"";
                return Err(Problem::new(key, message, hint));
            }
        }
        allowed.networks.sort();
        allowed.hosts.sort();
        Ok(allowed)
    }

    /// Adds a host, whose addresses are all allowed.
    pub(super) fn allow_host(&mut self, host: &str) {
        self.hosts.push(host.to_ascii_lowercase());
    }

    /// Checks an address of `host`.
    ///
    /// # Errors
    ///
    /// The address is not public, and not listed.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), AddressRefused> {
        let Some(kind) = private_kind(address) else {
            return Ok(());
        };
        let address = unmapped(address);
        let by_network = self.networks.iter().any(|network| network.contains(address));
        if by_network || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        Err(AddressRefused { host: host.to_owned(), address, kind })
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(bits), |prefix| prefix.parse().ok())?;
        (prefix <= bits).then_some(Self { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

/// An address that is neither public nor listed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddressRefused {
    host: String,
    address: IpAddr,
    kind: &'static str,
}

impl fmt::Display for AddressRefused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address, kind } = self;
        if host.trim_matches(['[', ']']).parse() == Ok(*address) {
            write!(formatter, "{address} is {kind}, which private_addresses does not list")
        } else {
            let list = "which private_addresses does not list";
            write!(formatter, "{host} has the address {address}, {kind}, {list}")
        }
    }
}

impl Error for AddressRefused {}

/// The IPv4 address that an IPv6 address stands for, or the address itself.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => embedded_v4(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The IPv4 address in a mapped, compatible, NAT64 (RFC 6052) or 6to4 (RFC 3056) address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let pair = |index: usize| {
        Ipv4Addr::from((u32::from(segments[index]) << 16) | u32::from(segments[index + 1]))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(pair(6)),
        [0x2002, ..] => Some(pair(1)),
        _ => None,
    }
}

/// What an address is that is not public, with its article.
fn private_kind(address: IpAddr) -> Option<&'static str> {
    match unmapped(address) {
        IpAddr::V4(address) => private_kind_v4(address),
        IpAddr::V6(address) => private_kind_v6(address),
    }
}

fn private_kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [127, ..] => "a loopback address",
        [169, 254, ..] => "a link-local address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "a shared address (RFC 6598)",
        [0, ..] => "an address of this host",
        [224..=239, ..] => "a multicast address",
        [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

fn private_kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xff00..=0xffff, ..] => "a multicast address",
        // 2001::/23 (Teredo, ORCHID, benchmarks), documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "a reserved address",
        // Public addresses are in 2000::/3.
        [0x2000..=0x3fff, ..] => return None,
        _ => "a reserved address",
    })
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_part)
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(entries: &[&str]) -> AllowedAddresses {
        let entries: Vec<String> = entries.iter().map(|&it| it.to_owned()).collect();
        AllowedAddresses::parse("private_addresses", &entries).unwrap()
    }

    fn refused(allowed: &AllowedAddresses, address: &str) -> bool {
        allowed.check("example.com", address.parse().unwrap()).is_err()
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808"]
        {
            assert!(!refused(&allowed(&[]), address), "{address}");
        }
    }

    #[test]
    fn private_addresses_are_refused() {
        let private = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "192.0.2.1",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001:0:1::1",
            "2001:db8::1",
            "100::1",
        ];
        for address in private {
            assert!(refused(&allowed(&[]), address), "{address}");
        }
    }

    #[test]
    fn listed_addresses_are_allowed() {
        let list = allowed(&["10.1.0.0/16", "::1", "Intranet.example.com", "fd00::/8"]);
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "::1", "fd12::1"] {
            assert!(!refused(&list, address), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.1", "fe80::1"] {
            assert!(refused(&list, address), "{address}");
        }
        assert!(list.check("intranet.EXAMPLE.com", "127.0.0.1".parse().unwrap()).is_ok());
        assert!(!refused(&allowed(&["0.0.0.0/0"]), "127.0.0.1"));
    }

    #[test]
    fn wrong_entries_are_refused() {
        for wrong in ["10.0.0.0/33", "10.0.0", "::1/129", "a b", "", "*", "http://x", "1.2.3.4.5"] {
            let entries = [wrong.to_owned()];
            assert!(AllowedAddresses::parse("private_addresses", &entries).is_err(), "{wrong}");
        }
    }
}
