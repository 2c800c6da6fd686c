//! What of this machine bounds the number of connections: its ports and its addresses.
//!
//! Open files are the other bound: [`corelane::engine::capacity`] tells them.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Where the kernel keeps the first and the last port that it chooses itself.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The ports of a system that does not tell: those that RFC 6335 section 6 leaves to everybody.
const PORTS: usize = 16_384;

/// How many connections one local address has towards one destination: the ports that the kernel
/// chooses from.
pub fn ports() -> usize {
    let text = std::fs::read_to_string(PORT_RANGE).unwrap_or_default();
    count(&text).unwrap_or(PORTS)
}

fn count(text: &str) -> Option<usize> {
    let mut bounds = text.split_whitespace().map(str::parse);
    let (first, last): (usize, usize) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    (first <= last).then(|| last - first + 1)
}

/// Whether connections can be made from this address: whether the machine has it.
///
/// # Errors
///
/// What the system says where they cannot.
pub fn try_source(source: IpAddr) -> io::Result<()> {
    UdpSocket::bind(SocketAddr::new(source, 0)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_a_range_are_counted_with_both_ends() {
        assert_eq!(count("32768\t60999\n"), Some(28_232));
        assert_eq!(count("1024 1024"), Some(1));
        assert_eq!(count("2 1"), None);
        assert_eq!(count(""), None);
        assert!(ports() > 0);
    }

    #[test]
    fn an_address_of_another_machine_is_no_source() {
        assert!(try_source([127, 0, 0, 1].into()).is_ok());
        // RFC 5737: nobody's.
        assert!(try_source([192, 0, 2, 1].into()).is_err());
    }
}
