//! Each way in which a connection ends has its own counter.

use std::time::Duration;

use corelane::observe::counters::{Connections, Counters};
use corelane::server::options::RingBackend;
use corelane::service::{NoArguments, Tool};

use crate::loopback::options;
use crate::stage::{Client, Stage};

fn echo() -> Tool {
    Tool::new("echo").inline(|_: NoArguments, answer| {
        answer.text("hello");
        Ok(())
    })
}

/// Three connections that say something, are ended by `end` and counted by `counter`.
fn expect(
    stage: Stage,
    end: impl Fn(&Stage, Client),
    counter: impl Fn(&Connections) -> u64,
) -> Counters {
    for _ in 0..3 {
        let mut client = stage.connect();
        client.call("echo");
        end(&stage, client);
    }
    // One more round trip: what was ended before has been heard of by then.
    let mut last = stage.connect();
    last.call("echo");
    let counters = stage.close();
    last.hear_end();
    let connections = &counters.connections;
    assert_eq!((connections.accepted, connections.closed), (4, 4), "{counters}");
    assert!(counter(connections) >= 3, "{counters}");
    let reasons = connections.closed_by_peer
        + connections.closed_by_failure
        + connections.closed_by_fault
        + connections.closed_idle
        + connections.closed_lease
        + connections.closed_draining;
    assert_eq!(reasons, 4, "{counters}");
    counters
}

#[test]
fn peers_that_leave_are_counted() {
    let stage = Stage::open(options(), [echo()]);
    expect(stage, |_, client| drop(client), |connections| connections.closed_by_peer);
}

#[test]
fn connections_that_fail_are_counted() {
    let stage = Stage::open(options(), [echo()]);
    expect(stage, |_, client| client.reset(), |connections| connections.closed_by_failure);
}

#[test]
fn peers_that_fall_silent_are_counted() {
    let mut options = options();
    options.tcp.idle_max = Duration::from_millis(30);
    let stage = Stage::open(options, [echo()]);
    expect(stage, |_, client| client.hear_end(), |connections| connections.closed_idle);
}

#[test]
fn leases_that_are_not_used_are_counted() {
    let mut options = options();
    options.tcp.lease_max = Duration::from_millis(30);
    let stage = Stage::open(options, [echo()]);
    for _ in 0..3 {
        stage.connect().hear_end();
    }
    let counters = stage.close();
    assert_eq!(counters.connections.closed_lease, 3, "{counters}");
}

#[test]
fn peers_that_break_a_limit_are_counted() {
    let mut options = options();
    options.limits.message_bytes_max = 1_000;
    let stage = Stage::open(options, [echo()]);
    let end = |_: &Stage, mut client: Client| {
        client.say(&[b' '; 1_001]);
        assert_eq!(client.hear()["error"]["code"], -32012);
        client.hear_end();
    };
    let counters = expect(stage, end, |connections| connections.closed_by_fault);
    assert_eq!(counters.faults.oversize, 3);
}

#[test]
fn connections_that_a_drain_ends_are_counted() {
    let stage = Stage::open(options(), [echo()]);
    let mut clients: Vec<Client> = (0..3).map(|_| stage.connect()).collect();
    for client in &mut clients {
        client.call("echo");
    }
    let counters = stage.close();
    assert_eq!(counters.connections.closed_draining, 3, "{counters}");
}

#[test]
fn a_connection_that_was_refused_was_never_let_in() {
    let mut options = options();
    options.tcp.connections_max = 1;
    let stage = Stage::open(options, [echo()]);
    let mut served = stage.connect();
    served.call("echo");
    let mut refused = stage.connect();
    assert_eq!(refused.hear()["error"]["code"], 1001);
    refused.hear_end();
    let counters = stage.close();
    let connections = &counters.connections;
    assert_eq!((connections.accepted, connections.closed), (1, 1), "{counters}");
    assert_eq!(connections.refused_full, 1);
}

#[test]
fn a_crowd_beyond_all_slots_is_served_refused_or_dropped_and_leaves_no_trace() {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        let mut options = options();
        options.tcp.connections_max = 4;
        options.engine.ring = ring;
        options.engine.ring_sizes.sockets_max = 8;
        let stage = Stage::open(options, [echo()]);
        for _ in 0..3 {
            let crowd: Vec<Client> = (0..40).map(|_| stage.connect()).collect();
            // Those that are in nobody's way are told or dropped while the others stay.
            let (mut served, mut refused) = (0, 0);
            for mut client in crowd {
                match client.try_call("echo") {
                    Some(answer) if answer["error"]["code"] == 1001 => refused += 1,
                    Some(answer) => served += u64::from(answer["result"].is_object()),
                    None => {}
                }
            }
            assert!(served >= 4 && refused >= 1, "{ring:?}: {served} {refused}");
        }
        // All places are free again: a whole set of connections is served at once.
        let mut clients: Vec<Client> = Vec::new();
        while clients.len() < 4 {
            let mut client = stage.connect();
            if client.try_call("echo").is_some_and(|answer| answer["result"].is_object()) {
                clients.push(client);
            }
        }
        drop(clients);
        let counters = stage.close();
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
    }
}
