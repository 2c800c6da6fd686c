//! What is recorded of one connection, for the list of open connections.

use std::net::{IpAddr, SocketAddr};

use corelane_base::time::Instant;

use crate::telemetry::open_work::ConnectionTraffic;

/// Where a connection comes from, since when it is open, and what it has carried.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRecord {
    /// Bytes and messages so far.
    pub traffic: ConnectionTraffic,
    peer: Option<PeerAddress>,
    /// Time of opening in seconds after the origin of the clock.
    opened_seconds: u32,
}

/// The address of a peer in 20 bytes, 12 less than [`SocketAddr`]: without the zone of an IPv6
/// address.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress {
    ip: IpAddr,
    port: u16,
}

impl ConnectionRecord {
    pub(super) fn new(peer: Option<SocketAddr>, now: Instant) -> Self {
        Self {
            traffic: ConnectionTraffic::default(),
            peer: peer.map(|peer| PeerAddress { ip: peer.ip(), port: peer.port() }),
            opened_seconds: u32::try_from(now.milliseconds() / 1_000).unwrap_or(u32::MAX),
        }
    }

    /// Returns the address of the peer, if known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.map(SocketAddr::from)
    }

    /// Returns the address of the peer as it is stored.
    pub const fn peer_address(&self) -> Option<&PeerAddress> {
        self.peer.as_ref()
    }

    /// Returns when the connection was opened, to the second.
    pub const fn opened_at(&self) -> Instant {
        Instant::from_nanoseconds(self.opened_seconds as u64 * 1_000_000_000)
    }
}

impl PeerAddress {
    /// Returns the address without the port.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }
}

impl From<PeerAddress> for SocketAddr {
    fn from(PeerAddress { ip, port }: PeerAddress) -> Self {
        Self::new(ip, port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_takes_56_bytes() {
        assert_eq!(size_of::<ConnectionRecord>(), 56);
        for text in ["192.0.2.1:80", "[2001:db8::1]:443"] {
            let address = text.parse().ok();
            let opened = Instant::from_milliseconds(7_900);
            let record = ConnectionRecord::new(address, opened);
            assert_eq!(record.peer(), address);
            assert_eq!(record.opened_at(), Instant::from_milliseconds(7_000));
        }
    }
}
