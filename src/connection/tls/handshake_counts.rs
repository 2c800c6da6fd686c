//! Handshakes in progress: on the shard, and of each client address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use corelane_base::client_address::ClientAddress;

use super::listeners::{HandshakeLimit, TlsLimits};

/// Numbers of handshakes in progress. An address without one takes no memory.
#[derive(Debug, Default)]
pub(super) struct HandshakeCounts {
    total: usize,
    by_address: HashMap<ClientAddress, usize>,
}

impl HandshakeCounts {
    /// Counts a handshake that begins, unless a limit is reached. Without an address only the limit
    /// of the shard counts.
    pub(super) fn begin(
        &mut self,
        address: Option<ClientAddress>,
        limits: &TlsLimits,
    ) -> Result<(), HandshakeLimit> {
        if self.total >= limits.handshakes_max {
            return Err(HandshakeLimit::Shard);
        }
        if let Some(address) = address {
            match self.by_address.entry(address) {
                Entry::Occupied(entry) if *entry.get() >= limits.handshakes_per_address_max => {
                    return Err(HandshakeLimit::Address);
                }
                entry => *entry.or_default() += 1,
            }
        }
        self.total += 1;
        Ok(())
    }

    /// Ends the count of a handshake that has begun.
    pub(super) fn end(&mut self, address: Option<ClientAddress>) {
        self.total -= 1;
        if let Some(Entry::Occupied(mut entry)) = address.map(|it| self.by_address.entry(it)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits() -> TlsLimits {
        TlsLimits {
            handshake_timeout: Duration::from_secs(1),
            handshakes_max: 5,
            handshakes_per_address_max: 2,
        }
    }

    fn address(text: &str) -> Option<ClientAddress> {
        ClientAddress::new(text.parse().unwrap())
    }

    #[test]
    fn handshakes_of_one_prefix_share_limit() {
        let mut counts = HandshakeCounts::default();
        let [one, two] = [address("2001:db8:0:1::1"), address("2001:db8:0:1:2::2")];
        assert_eq!(counts.begin(one, &limits()), Ok(()));
        assert_eq!(counts.begin(two, &limits()), Ok(()));
        assert_eq!(counts.begin(two, &limits()), Err(HandshakeLimit::Address));
        assert_eq!(counts.begin(address("2001:db8:0:2::1"), &limits()), Ok(()));
        counts.end(two);
        assert_eq!(counts.begin(one, &limits()), Ok(()));
    }

    #[test]
    fn loopback_handshakes_have_only_shard_limit() {
        let mut counts = HandshakeCounts::default();
        for _ in 0..5 {
            assert_eq!(counts.begin(address("127.0.0.1"), &limits()), Ok(()));
        }
        assert_eq!(counts.begin(address("192.0.2.1"), &limits()), Err(HandshakeLimit::Shard));
    }

    #[test]
    fn ended_handshakes_take_no_memory() {
        let mut counts = HandshakeCounts::default();
        for host in 0..100 {
            let address = address(&format!("192.0.2.{host}"));
            assert_eq!(counts.begin(address, &limits()), Ok(()));
            counts.end(address);
        }
        assert!(counts.by_address.is_empty() && counts.total == 0);
    }
}
