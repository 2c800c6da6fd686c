//! The address of a client, and the part of a shared table that one address may take.
//!
//! Invariants: a client cannot choose another [`ClientAddress`] by choosing another IPv6 address of
//! its /64 prefix; a share is at least one place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;

/// An IPv4 address or the /64 prefix of an IPv6 address: the smallest unit that one client controls
/// (RFC 6177).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientAddress(NonZeroU64);

impl ClientAddress {
    /// Returns `None` for 127.0.0.1 and `::1`, from which proxies on this machine connect for many
    /// clients. The other loopback addresses count.
    #[inline]
    pub fn new(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Self::of_ipv4(address),
            IpAddr::V6(address) => Self::of_ipv6(address),
        }
    }

    #[inline]
    fn of_ipv4(address: Ipv4Addr) -> Option<Self> {
        if address == Ipv4Addr::LOCALHOST {
            return None;
        }
        // 0:ffff::/32 is not assigned to IPv6 networks.
        NonZeroU64::new(0xffff_0000_0000 | u64::from(address.to_bits())).map(Self)
    }

    fn of_ipv6(address: Ipv6Addr) -> Option<Self> {
        match address.to_ipv4_mapped() {
            Some(mapped) => Self::of_ipv4(mapped),
            None if address == Ipv6Addr::LOCALHOST => None,
            None => NonZeroU64::new((address.to_bits() >> 64) as u64).map(Self),
        }
    }

    /// Returns a number that differs between addresses, and is not zero.
    pub const fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// Returns the IPv4 address, or the first IPv6 address of the prefix.
    pub const fn ip(self) -> IpAddr {
        let bits = self.0.get();
        if bits >> 32 == 0xffff {
            #[expect(clippy::cast_possible_truncation, reason = "the low half is the address")]
            return IpAddr::V4(Ipv4Addr::from_bits(bits as u32));
        }
        IpAddr::V6(Ipv6Addr::from_bits((bits as u128) << 64))
    }
}

/// The part of a shared table that the clients of one [`ClientAddress`] may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressShare {
    percent: u8,
}

impl AddressShare {
    /// A share of `percent`; 100 and more is the whole table.
    pub const fn new(percent: u8) -> Self {
        Self { percent }
    }

    /// Returns how many of `places` one address may take.
    pub const fn of(self, places: usize) -> usize {
        if self.percent >= 100 {
            return places;
        }
        let share = (places as u128 * self.percent as u128 / 100) as usize;
        if share == 0 { 1 } else { share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<ClientAddress> {
        ClientAddress::new(text.parse().unwrap())
    }

    #[test]
    fn ipv6_prefix_of_64_bits_is_one_client() {
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
        assert_ne!(address("192.0.2.1"), address("192.0.2.2"));
        assert_eq!(address("192.0.2.1"), address("::ffff:192.0.2.1"));
        let shown = ["2001:db8:0:1::1", "192.0.2.1"].map(|it| address(it).unwrap().ip());
        assert_eq!(shown.map(|ip| ip.to_string()), ["2001:db8:0:1::", "192.0.2.1"]);
    }

    #[test]
    fn local_proxies_are_exempt() {
        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(address(local), None, "{local}");
        }
        assert!(address("127.0.0.2").is_some());
        assert_eq!(size_of::<Option<ClientAddress>>(), 8);
    }

    #[test]
    fn share_is_at_least_one_place() {
        let share = AddressShare::new(75);
        assert_eq!([share.of(1024), share.of(4), share.of(1), share.of(0)], [768, 3, 1, 1]);
        assert_eq!(AddressShare::new(100).of(10), 10);
        assert_eq!(AddressShare::new(75).of(usize::MAX), usize::MAX / 4 * 3 + 2);
    }
}
