//! Peers that take their time: slowloris, silence.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use serde_json::json;

use crate::client::{Client, LEGACY, call, echo};
use crate::stage::{Stage, over_each_ring};

/// How long a trickling peer waits between two bytes.
const TRICKLE: Duration = Duration::from_millis(5);

/// Sends one byte at a time, none of which ends a line, until the server has had enough.
fn trickle(client: &Client) {
    let mut stream = client.stream();
    stream.set_read_timeout(Some(TRICKLE)).expect("an option of sockets");
    for _ in 0..4000 {
        if stream.write_all(b"x").is_err() {
            return;
        }
        match stream.read(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return,
            Ok(_) => panic!("there is nothing to say to half a line"),
        }
    }
    panic!("it could go on forever");
}

#[test]
fn a_peer_that_never_completes_its_first_message_loses_its_lease() {
    over_each_ring(|mut options| {
        options.tcp.lease_max = Duration::from_millis(100);
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        trickle(&stage.connect());
        // Who has spoken may be silent for longer than that.
        other.expect_alive();
        drop(other);
        let counters = stage.close();
        assert_eq!(counters.connections.closed_lease, 1, "{counters}");
        assert_eq!(counters.connections.closed_idle, 0, "{counters}");
    });
}

#[test]
fn a_peer_that_says_nothing_at_all_loses_its_lease() {
    over_each_ring(|mut options| {
        options.tcp.lease_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let mut clients: Vec<Client> = (0..20).map(|_| stage.connect()).collect();
        clients.iter_mut().for_each(Client::expect_end);
        drop(clients);
        let counters = stage.close();
        assert_eq!(counters.connections.closed_lease, 20, "{counters}");
    });
}

#[test]
fn bytes_that_complete_no_message_do_not_break_the_silence() {
    over_each_ring(|mut options| {
        options.tcp.idle_max = Duration::from_millis(100);
        let stage = Stage::open(options);
        trickle(&stage.session(LEGACY));
        let counters = stage.close();
        assert_eq!(counters.connections.closed_idle, 1, "{counters}");
    });
}

#[test]
fn a_connection_that_falls_silent_is_ended() {
    over_each_ring(|mut options| {
        options.tcp.idle_max = Duration::from_millis(100);
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.expect_end();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.connections.closed_idle, 1, "{counters}");
    });
}

#[test]
fn a_peer_that_waits_for_an_answer_is_not_silent() {
    over_each_ring(|mut options| {
        options.tcp.idle_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let answer = client.ask(call(1, "slow", json!({"steps": 1, "step_ms": 250})));
        assert_eq!(answer["id"], 1, "{answer}");
        // Its silence begins now.
        client.expect_end();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.connections.closed_idle, 1, "{counters}");
    });
}

#[test]
fn a_peer_that_does_not_read_its_answers_is_silent() {
    over_each_ring(|mut options| {
        options.tcp.idle_max = Duration::from_millis(200);
        options.tcp.connections_max = 1;
        options.tcp.send_buffer_bytes = 4 << 10;
        let stage = Stage::open(options);
        let mut client = Client::connect_narrow(stage.address(), 4 << 10);
        client.handshake(LEGACY);
        client.send(echo(1, &"x".repeat(64 << 10)));
        // Its place becomes free although it neither reads nor ends.
        drop(crate::door::let_in(&stage));
        drop(client);
        let counters = stage.close();
        assert!(counters.connections.closed_idle >= 1, "{counters}");
    });
}
