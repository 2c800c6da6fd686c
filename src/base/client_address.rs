//! The address of a client, and the part of a shared table that one address may take.
//!
//! Invariants: a client cannot choose another [`ClientAddress`] by choosing another IPv6 address of
//! its /64 prefix; a share is at least one place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;

/// What an IPv4 address has before it: `0:ffff::/32` is not assigned to IPv6 networks.
const IPV4_PREFIX: NonZeroU64 = match NonZeroU64::new(0xffff_0000_0000) {
    Some(prefix) => prefix,
    None => NonZeroU64::MIN,
};

/// What stands for `::/64`, whose addresses are those of this machine: a prefix that is no source
/// of packets.
const LOCAL_PREFIX: NonZeroU64 = NonZeroU64::MAX;

/// An IPv4 address or the /64 prefix of an IPv6 address: the smallest unit that one client controls
/// (RFC 6177).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientAddress(NonZeroU64);

impl ClientAddress {
    /// Returns `None` for 127.0.0.1 and `::1`, from which proxies on this machine connect for many
    /// clients. The other loopback addresses count.
    #[inline]
    pub fn new(address: IpAddr) -> Option<Self> {
        let address = address.to_canonical();
        let is_proxy = address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
        (!is_proxy).then(|| Self::of(address))
    }

    /// Returns the address of any client, also one on this machine.
    #[inline]
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IPV4_PREFIX | u64::from(address.to_bits()),
            IpAddr::V6(address) => {
                NonZeroU64::new((address.to_bits() >> 64) as u64).unwrap_or(LOCAL_PREFIX)
            }
        })
    }

    /// Returns a number that differs between addresses, and is not zero.
    pub const fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// Returns the wider prefixes around it, the widest first, by their length and bits: IPv4 /24,
    /// IPv6 /48 and /56.
    pub(crate) const fn prefixes(self) -> [Option<(u8, u64)>; 2] {
        let bits = self.0.get();
        if bits >> 32 == 0xffff {
            return [Some((24, bits & !0xff)), None];
        }
        [Some((48, bits & !0xffff)), Some((56, bits & !0xff))]
    }

    /// Returns the IPv4 address, or the first IPv6 address of the prefix; `::1` for `::/64`.
    pub const fn ip(self) -> IpAddr {
        let bits = self.0.get();
        if bits == LOCAL_PREFIX.get() {
            return IpAddr::V6(Ipv6Addr::LOCALHOST);
        }
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
    /// Unauthenticated callers leave an eighth to authenticated ones.
    has_reserve: bool,
}

impl AddressShare {
    /// A share of `percent`; 100 and more is the whole table.
    pub const fn new(percent: u8) -> Self {
        Self { percent, has_reserve: false }
    }

    /// Sets whether unauthenticated callers leave an eighth of the table to authenticated ones.
    #[must_use]
    pub const fn with_reserve(self, has_reserve: bool) -> Self {
        Self { has_reserve, ..self }
    }

    /// Returns how many of `places` all prefixes, or all addresses of a prefix, keep for those that
    /// hold little: so few that an address alone in its prefixes has its own share.
    pub(crate) const fn kept_for_light(self, places: usize) -> usize {
        let percent = 100_u8.saturating_sub(self.percent) / 3;
        (places as u128 * percent as u128 / 100) as usize
    }

    /// Returns the share of all unauthenticated callers.
    #[must_use]
    pub const fn of_unauthenticated(self) -> Self {
        if self.has_reserve { Self::new(88) } else { Self::new(100) }
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
        for local in ["127.0.0.1", "::1"] {
            let address = ClientAddress::of(local.parse().unwrap());
            assert_eq!(address.ip().to_string(), local);
        }
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
