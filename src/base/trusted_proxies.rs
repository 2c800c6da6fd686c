//! The proxies whose word about the addresses of their clients is taken.
//!
//! Invariant: an IPv4-mapped IPv6 address is the IPv4 address that it maps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use crate::client_address::ClientAddress;

/// A network: the addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    /// The first address.
    first: IpAddr,
    /// Number of bits that its addresses have in common.
    bits: u8,
}

impl Network {
    /// Returns whether `address`, which is not IPv4-mapped, is one of the network.
    fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                (first.to_bits() ^ address.to_bits()) & mask_of_ipv4(self.bits) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                (first.to_bits() ^ address.to_bits()) & mask_of_ipv6(self.bits) == 0
            }
            _ => false,
        }
    }
}

/// Returns a number whose first `bits` are set.
fn mask_of_ipv4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

/// Returns a number whose first `bits` are set.
fn mask_of_ipv6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = String;

    /// Reads an address, or a prefix such as `10.0.0.0/8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let Ok(first) = address.parse::<IpAddr>() else {
            return Err(format!("{text:?} is neither an address nor a prefix such as 10.0.0.0/8"));
        };
        let bits_max = if first.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => bits_max,
            Some(bits) => match Some(bits).filter(is_number).and_then(|it| it.parse::<u8>().ok()) {
                Some(bits) if bits <= bits_max => bits,
                _ => return Err(format!("{text:?} has no prefix length from 0 to {bits_max}")),
            },
        };
        let start: IpAddr = match first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() & mask_of_ipv4(bits)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() & mask_of_ipv6(bits)).into(),
        };
        if start != first {
            return Err(format!("{text:?} has bits behind its prefix: write {start}/{bits}"));
        }
        Ok(match first.to_canonical() {
            mapped @ IpAddr::V4(_) if first.is_ipv6() && bits >= 96 => {
                Self { first: mapped, bits: bits - 96 }
            }
            _ => Self { first, bits },
        })
    }
}

/// The addresses of trusted proxies; none by default. A clone shares the list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TrustedProxies(Arc<[Network]>);

impl TrustedProxies {
    /// Reads addresses and prefixes.
    ///
    /// # Errors
    ///
    /// Which one is malformed, and how to write it.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, String> {
        texts.iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a proxy at `address` is trusted.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }

    /// Returns whether `peer` is a trusted proxy.
    #[inline]
    pub fn has_peer(&self, peer: Option<SocketAddr>) -> bool {
        !self.is_empty() && peer.is_some_and(|peer| self.contains(peer.ip()))
    }

    /// Returns the address that limits of connections count for `peer`. A trusted proxy is exempt:
    /// it connects for many clients.
    pub fn address_of_connection(&self, peer: Option<SocketAddr>) -> Option<ClientAddress> {
        let peer = peer.filter(|_| !self.has_peer(peer))?;
        self.client_at(peer.ip())
    }

    /// Returns the address that limits count for a client at `address`. Without any trusted proxy
    /// 127.0.0.1 and `::1` are exempt: a proxy there may connect for many clients.
    #[inline]
    pub fn client_at(&self, address: IpAddr) -> Option<ClientAddress> {
        if self.is_empty() { ClientAddress::new(address) } else { Some(ClientAddress::of(address)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(texts: &[&str]) -> TrustedProxies {
        TrustedProxies::parse(texts).unwrap()
    }

    fn contains(proxies: &TrustedProxies, address: &str) -> bool {
        proxies.contains(address.parse().unwrap())
    }

    #[test]
    fn prefix_contains_addresses_with_its_bits() {
        let known = proxies(&["10.0.0.0/8", "127.0.0.1", "fd00::/8", "2001:db8::1/128"]);
        for address in ["10.255.0.1", "127.0.0.1", "fdff::1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(contains(&known, address), "{address}");
        }
        for address in ["11.0.0.1", "127.0.0.2", "fe00::1", "2001:db8::2", "::1", "::ffff:1.2.3.4"]
        {
            assert!(!contains(&known, address), "{address}");
        }
        assert!(contains(&proxies(&["0.0.0.0/0"]), "192.0.2.1"));
        assert!(!contains(&proxies(&["0.0.0.0/0"]), "2001:db8::1"));
        assert!(contains(&proxies(&["::/0"]), "2001:db8::1"));
        assert!(contains(&proxies(&["::ffff:10.0.0.0/104"]), "10.1.2.3"));
    }

    #[test]
    fn malformed_prefix_is_explained() {
        for (text, problem) in [
            ("10.0.0.1/8", "has bits behind its prefix: write 10.0.0.0/8"),
            ("fd00::1/8", "has bits behind its prefix: write fd00::/8"),
            ("10.0.0.0/33", "has no prefix length from 0 to 32"),
            ("10.0.0.0/+8", "has no prefix length from 0 to 32"),
            ("fd00::/", "has no prefix length from 0 to 128"),
            ("proxy.test", "is neither an address nor a prefix such as 10.0.0.0/8"),
            ("10.0.0.1:80", "is neither an address nor a prefix such as 10.0.0.0/8"),
        ] {
            let error = TrustedProxies::parse(&[text]).unwrap_err();
            assert_eq!(error, format!("{text:?} {problem}"));
        }
    }

    #[test]
    fn loopback_counts_once_proxies_are_trusted() {
        let loopback = "127.0.0.1".parse().unwrap();
        assert_eq!(TrustedProxies::default().client_at(loopback), None);
        let counted = proxies(&["10.0.0.1"]).client_at(loopback);
        assert_eq!(counted, Some(ClientAddress::of(loopback)));
    }
}
