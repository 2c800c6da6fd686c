//! Machine limits on the number of connections: ephemeral ports and local addresses.
//!
//! The limit of open files is in [`corelane_engine::process`].

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// First and last ephemeral port.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Fallback without `/proc`: the dynamic ports of RFC 6335 section 6.
const DEFAULT_PORTS: usize = 16_384;

/// Returns the number of ephemeral ports: how many connections one local address can have to one
/// destination.
pub fn ephemeral_ports() -> usize {
    let text = std::fs::read_to_string(PORT_RANGE).unwrap_or_default();
    count_ports(&text).unwrap_or(DEFAULT_PORTS)
}

fn count_ports(text: &str) -> Option<usize> {
    let mut bounds = text.split_whitespace().map(str::parse);
    let (first, last): (usize, usize) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    (first <= last).then(|| last - first + 1)
}

/// Checks that the machine has this local address.
///
/// # Errors
///
/// Returns the error of binding to it.
pub fn check_source(source: IpAddr) -> io::Result<()> {
    UdpSocket::bind(SocketAddr::new(source, 0)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ephemeral_port_range_counts_both_ends() {
        assert_eq!(count_ports("32768\t60999\n"), Some(28_232));
        assert_eq!(count_ports("1024 1024"), Some(1));
        assert_eq!(count_ports("2 1"), None);
        assert_eq!(count_ports(""), None);
        assert!(ephemeral_ports() > 0);
    }

    #[test]
    fn foreign_address_is_rejected_as_source() {
        assert!(check_source([127, 0, 0, 1].into()).is_ok());
        // RFC 5737: documentation address.
        assert!(check_source([192, 0, 2, 1].into()).is_err());
    }
}
