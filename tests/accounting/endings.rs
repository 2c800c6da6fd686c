//! Each way in which a connection ends has its own counter.

use std::time::Duration;

use corelane::observe::counters::{Connections, Counters};
use corelane::service::{NoArguments, Tool};

use crate::stage::{Client, Stage, options};

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
fn by_the_peer() {
    let stage = Stage::open(options(), [echo()]);
    expect(stage, |_, client| drop(client), |connections| connections.closed_by_peer);
}

#[test]
fn by_a_failure() {
    let stage = Stage::open(options(), [echo()]);
    expect(stage, |_, client| client.reset(), |connections| connections.closed_by_failure);
}

#[test]
fn by_silence() {
    let mut options = options();
    options.tcp.idle_max = Duration::from_millis(30);
    let stage = Stage::open(options, [echo()]);
    expect(stage, |_, client| client.hear_end(), |connections| connections.closed_idle);
}

#[test]
fn by_a_lease_that_was_not_used() {
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
fn by_a_fault() {
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
fn by_a_drain() {
    let stage = Stage::open(options(), [echo()]);
    let mut clients: Vec<Client> = (0..3).map(|_| stage.connect()).collect();
    for client in &mut clients {
        client.call("echo");
    }
    let counters = stage.close();
    assert_eq!(counters.connections.closed_draining, 3, "{counters}");
}

#[test]
fn one_that_was_refused_was_never_let_in() {
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
