//! Half-received messages of one address: each is smaller than those of honest clients, and all
//! together exceed `memory_bytes_max`.

use std::net::{IpAddr, Ipv4Addr};

use corelane_test_support::messages::{LEGACY, echo, result_text};
use corelane_test_support::{LineClient, TestServer, over_each_ring};

use crate::abuse::honest_clients::{HonestClients, all_transports};

const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Opens `count` connections that each send `bytes` bytes of a message and no more, and calls with
/// longer messages on others meanwhile.
fn attack(count: usize, bytes: usize, memory_bytes_max: usize) {
    assert!(count * bytes > memory_bytes_max, "the limit is exceeded");
    let half = vec![b' '; bytes];
    over_each_ring(all_transports(), |mut options| {
        options.limits.memory_bytes_max = memory_bytes_max;
        let server = TestServer::start(options);
        let mut honest = HonestClients::connect(&server);
        let mut slow = server.connect_initialized(LEGACY);
        let text = "x".repeat(1 << 20);
        let call = format!("{}\n", echo(1, &text));
        let (first, rest) = call.as_bytes().split_at(call.len() - 100);
        slow.send_bytes(first);
        let mut attackers = Vec::new();
        for _ in 0..count {
            let mut attacker = LineClient::connect_from(ATTACKER, server.tcp());
            // Fails once it is closed.
            attacker.try_send_bytes(&half).ok();
            attackers.push(attacker);
        }
        honest.echo_all(&text[..512 << 10]);
        slow.send_bytes(rest);
        assert!(result_text(&slow.receive()) == text);
        drop((honest, slow, attackers));
        let counters = server.close();
        assert!(counters.input_errors.memory >= 1, "{counters}");
        // Honest clients got no error.
        assert_eq!(counters.errors.count_of(-32603), counters.input_errors.memory, "{counters}");
    });
}

#[test]
fn half_messages_of_one_address_harm_no_others() {
    attack(80, 255 << 10, 16 << 20);
}

#[test]
fn half_messages_below_share_harm_no_others() {
    attack(160, 60 << 10, 8 << 20);
}
