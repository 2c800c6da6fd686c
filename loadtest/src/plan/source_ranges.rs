//! Local addresses: one, or a range such as `127.0.0.2-127.0.0.5`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Highest accepted number of addresses in a range.
const RANGE_MAX: u128 = 65_536;

/// A range of consecutive IP addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourceRange {
    first: IpAddr,
    /// At least `first`, and of the same address family.
    last: IpAddr,
}

impl SourceRange {
    /// Returns the addresses in ascending order.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        (number(self.first)..=number(self.last)).map(move |number| match self.first {
            // Both ends came from 32 bits.
            IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(number).unwrap_or_default()).into(),
            IpAddr::V6(_) => Ipv6Addr::from(number).into(),
        })
    }

    /// Returns the fewest ranges that contain `addresses` in this order.
    pub fn collapse(addresses: &[IpAddr]) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for &address in addresses {
            match ranges.last_mut() {
                Some(range)
                    if range.last.is_ipv4() == address.is_ipv4()
                        && number(range.last).checked_add(1) == Some(number(address)) =>
                {
                    range.last = address;
                }
                _ => ranges.push(Self { first: address, last: address }),
            }
        }
        ranges
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

impl FromStr for SourceRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let address = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| {
                format!("'{text}' is not an IP address: write 127.0.0.2, or 127.0.0.2-127.0.0.5")
            })
        };
        let (first, last) = (address(first)?, address(last)?);
        let span = number(last).checked_sub(number(first));
        match span {
            Some(span) if first.is_ipv4() == last.is_ipv4() && span < RANGE_MAX => {
                Ok(Self { first, last })
            }
            Some(_) if first.is_ipv4() == last.is_ipv4() => {
                Err(format!("'{text}' has more than {RANGE_MAX} addresses: name fewer"))
            }
            _ => Err(format!("'{text}' is not a range: write the lower address first")),
        }
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(formatter, "{}", self.first)
        } else {
            write!(formatter, "{}-{}", self.first, self.last)
        }
    }
}

impl<'de> Deserialize<'de> for SourceRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for SourceRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Deserializes a list of ranges, or one string as a list of one.
pub(super) fn one_or_many<'de, D>(deserializer: D) -> Result<Vec<SourceRange>, D::Error>
where
    D: Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    let texts = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    };
    let read = |text: &String| text.parse().map_err(serde::de::Error::custom);
    texts.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let sources: SourceRange = text.parse().unwrap();
        sources.addresses().map(|address| address.to_string()).collect()
    }

    #[test]
    fn address_range_includes_both_ends() {
        assert_eq!(all("127.0.0.2"), ["127.0.0.2"]);
        assert_eq!(all("127.0.0.255-127.0.1.1"), ["127.0.0.255", "127.0.1.0", "127.0.1.1"]);
        assert_eq!(all("fd00::f - fd00::10"), ["fd00::f", "fd00::10"]);
    }

    #[test]
    fn invalid_address_range_error_shows_format() {
        let wrong = |text: &str| text.parse::<SourceRange>().unwrap_err();
        assert!(wrong("localhost").contains("127.0.0.2-127.0.0.5"));
        assert!(wrong("127.0.0.2-").contains("is not an IP address"));
        assert!(wrong("127.0.0.5-127.0.0.2").contains("lower address first"));
        assert!(wrong("::1-127.0.0.2").contains("lower address first"));
        assert!(wrong("127.0.0.2-::1").contains("is not a range"));
        assert!(wrong("10.0.0.0-10.1.0.0").contains("65536"));
    }

    #[test]
    fn addresses_collapse_into_fewest_ranges() {
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.4", "::1"].map(str::parse);
        let addresses: Vec<IpAddr> = addresses.into_iter().collect::<Result<_, _>>().unwrap();
        let shown: Vec<String> =
            SourceRange::collapse(&addresses).iter().map(SourceRange::to_string).collect();
        assert_eq!(shown, ["10.0.0.1-10.0.0.2", "10.0.0.4", "::1"]);
    }
}
