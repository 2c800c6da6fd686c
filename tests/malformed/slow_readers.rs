//! Peers that ask and do not read.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane::server::Options;
use serde_json::{Value, json};

use crate::client::{
    Client, LEGACY, PATIENCE, call, cancelled, echo, echoed, endless, expect_error, lines,
};
use crate::stage::{Stage, over_each_ring};

/// Answers of a slow reader.
const ANSWERS: usize = 1000;

/// Bytes of each.
const MESSAGE_BYTES: usize = 4096;

/// Bounds that a slow reader meets soon.
fn narrow(mut options: Options) -> Options {
    options.limits.outgoing_bytes_max = 16 << 10;
    options.tcp.send_buffer_bytes = 16 << 10;
    options.tcp.receive_buffer_bytes = 16 << 10;
    options
}

/// Sends as much as anybody takes without reading; returns how much that was. A write that does
/// not go on for a while is how a full queue looks from here.
fn fill(mut stream: &TcpStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("an option of sockets");
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(length) => sent += length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => panic!("the connection broke: {error}"),
        }
    }
    stream.set_write_timeout(Some(PATIENCE)).expect("an option of sockets");
    sent
}

#[test]
fn a_peer_that_never_reads_is_not_read_and_everybody_else_is_served() {
    over_each_ring(|options| {
        let stage = Stage::open(narrow(options));
        let mut other = stage.session(LEGACY);
        let mut client = Client::connect_narrow(stage.address(), 16 << 10);
        client.handshake(LEGACY);
        let message = "x".repeat(MESSAGE_BYTES);
        let requests = lines((0..ANSWERS).map(|id| echo(id, &message)));
        let requests = requests.as_bytes();

        let sent = fill(client.stream(), requests);
        assert!(sent < requests.len() / 4, "{sent} bytes were taken from a peer that never reads");
        for id in 0..100 {
            assert_eq!(echoed(&other.ask(echo(id, "unaffected"))), "unaffected");
        }

        // Once it reads it gets every answer, in order, exactly once.
        let mut writer = client.stream().try_clone().expect("another handle");
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&requests[sent..]).expect("a server that reads"));
            for id in 0..ANSWERS {
                let answer = client.answer();
                assert_eq!(answer["id"], id);
                assert_eq!(echoed(&answer).len(), MESSAGE_BYTES);
            }
        });
        client.finish();
        client.expect_end();
        drop((client, other));
        let counters = stage.close();
        assert!(counters.traffic.pauses > 0, "{counters}");
        assert_eq!(counters.requests.tools_call, ANSWERS as u64 + 100, "{counters}");
    });
}

#[test]
fn a_peer_that_never_reads_and_goes_leaves_its_place() {
    over_each_ring(|options| {
        let mut options = narrow(options);
        options.tcp.connections_max = 1;
        let stage = Stage::open(options);
        let message = "x".repeat(MESSAGE_BYTES);
        let requests = lines((0..ANSWERS).map(|id| echo(id, &message)));
        for resets in [true, false] {
            let mut client = crate::door::let_in(&stage);
            client.handshake(LEGACY);
            fill(client.stream(), requests.as_bytes());
            if resets {
                client.reset();
            } else {
                drop(client);
            }
        }
        drop(crate::door::let_in(&stage));
        let counters = stage.close();
        assert!(counters.traffic.pauses > 0, "{counters}");
    });
}

#[test]
fn one_call_more_than_may_be_in_flight_is_refused_and_everything_else_is_read_on() {
    over_each_ring(|mut options| {
        options.limits.requests_in_flight_max = 4;
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.send_bytes(lines((0..4).map(endless)).as_bytes());
        for id in 4..10 {
            let answer = client.ask(endless(id));
            expect_error(&answer, -32603, Some(json!(id)));
        }
        // What is answered at once needs no place, and a cancellation makes one.
        assert_eq!(echoed(&client.ask(echo(10, "at once"))), "at once");
        client.send(cancelled(2));
        let answer = client.ask(call(11, "slow", json!({"steps": 1, "step_ms": 1})));
        assert!(answer.get("result").is_some(), "{answer}");
        client.send_bytes(lines([0, 1, 3].map(cancelled)).as_bytes());
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.refused_in_flight, 6, "{counters}");
        assert_eq!((counters.requests.cancelled, counters.traffic.pauses), (4, 0), "{counters}");
    });
}

#[test]
fn progress_that_nobody_reads_is_left_out_and_the_answer_is_not() {
    over_each_ring(|options| {
        let stage = Stage::open(narrow(options));
        let mut client = Client::connect_narrow(stage.address(), 16 << 10);
        client.handshake(LEGACY);
        let requests = lines((0..200).map(|id| {
            let mut text = call(id, "slow", json!({"steps": 1000, "step_ms": 0}));
            text["params"]["_meta"] = json!({"progressToken": id});
            text
        }));
        fill(client.stream(), requests.as_bytes());
        client.finish();
        let told = client.rest();
        let mut answers = vec![0; 200];
        let mut last = vec![0.0; 200];
        for message in &told {
            let count = |value: &Value| usize::try_from(value.as_u64().expect("a number")).unwrap();
            if message["method"] == "notifications/progress" {
                let token = count(&message["params"]["progressToken"]);
                let progress = message["params"]["progress"].as_f64().expect("a number");
                assert!(progress > last[token] && answers[token] == 0, "{message}");
                last[token] = progress;
            } else {
                answers[count(&message["id"])] += 1;
            }
        }
        assert_eq!(answers, vec![1; 200]);
        drop(client);
        let counters = stage.close();
        assert!(counters.requests.progress < 100_000, "{counters}");
    });
}
