//! Half-received messages: of one address, each smaller than those of honest clients and all
//! together above `memory_bytes_max`; and of several addresses, all together above
//! `unproven_bytes_max`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use corelane::Options;
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
        options.limits.unproven_bytes_max = memory_bytes_max;
        options.limits.message_bytes_max = 2 << 20;
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

const MESSAGE_BYTES_MAX: usize = 4 << 20;

const POOL_BYTES: usize = 16 << 20;

/// Options with a pool of [`POOL_BYTES`] for incomplete messages of up to [`MESSAGE_BYTES_MAX`].
fn pool_options(options: &mut Options) {
    options.limits.message_bytes_max = MESSAGE_BYTES_MAX;
    options.limits.unproven_bytes_max = POOL_BYTES;
}

/// Connects and sends half of a message of the largest size, as far as the server receives it.
fn send_half(server: &TestServer, from: IpAddr) -> LineClient {
    let attacker = LineClient::connect_from(from, server.tcp());
    let mut socket = attacker.socket().try_clone().expect("the socket is open");
    socket.set_nonblocking(true).expect("nonblocking");
    let half = vec![b' '; MESSAGE_BYTES_MAX - 1];
    let mut sent = 0;
    while sent < half.len() {
        match socket.write(&half[sent..]) {
            Ok(bytes) => sent += bytes,
            Err(_) => break,
        }
    }
    attacker
}

#[test]
fn half_messages_of_addresses_share_one_pool() {
    over_each_ring(all_transports(), |mut options| {
        pool_options(&mut options);
        let server = TestServer::start(options);
        let mut honest = HonestClients::connect(&server);
        let attackers: Vec<IpAddr> =
            [2, 3, 4].map(|host| IpAddr::V4(Ipv4Addr::new(127, 0, 0, host))).into();
        let mut held = Vec::new();
        for _ in 0..6 {
            held.extend(attackers.iter().map(|from| send_half(&server, *from)));
        }
        held.push(send_half(&server, Ipv4Addr::LOCALHOST.into()));
        // Each has its own 64 KiB and what was received before its receive has stopped, which is
        // more on a busy machine; a buffer is a quarter larger than its message.
        let buffered_max = (POOL_BYTES + held.len() * (512 << 10)) / 4 * 5;
        assert!(buffered_max < held.len() * MESSAGE_BYTES_MAX / 2);
        let buffered = || -> usize {
            let connections = server.handle().connections();
            connections.iter().map(|it| it.bytes_buffered).sum()
        };
        assert!(buffered() <= buffered_max, "{}", buffered());
        honest.call_all();
        let text = "x".repeat(MESSAGE_BYTES_MAX - (64 << 10));
        let mut client = server.connect_initialized(LEGACY);
        assert!(result_text(&client.exchange(echo(1, &text))) == text);
        assert!(buffered() <= buffered_max, "{}", buffered());
        drop((honest, client, held));
        let counters = server.close();
        assert_eq!(counters.errors.count_of(-32603), counters.input_errors.memory, "{counters}");
        assert!(counters.traffic.read_pauses > 0, "{counters}");
    });
}

#[test]
fn large_messages_wait_for_each_other() {
    over_each_ring(all_transports(), |mut options| {
        options.limits.unproven_bytes_max = 0;
        options.limits.message_bytes_max = MESSAGE_BYTES_MAX;
        let server = TestServer::start(options);
        let text = "x".repeat(MESSAGE_BYTES_MAX / 4);
        let text = text.as_str();
        thread::scope(|scope| {
            for _ in 0..4 {
                let mut client = server.connect_initialized(LEGACY);
                scope.spawn(move || {
                    for id in 0..4 {
                        assert!(result_text(&client.exchange(echo(id, text))) == text);
                    }
                });
            }
        });
        let counters = server.close();
        assert_eq!((counters.input_errors.memory, counters.errors.total()), (0, 0), "{counters}");
    });
}
