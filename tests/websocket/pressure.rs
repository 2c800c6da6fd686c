//! Peers that do not read: not read in turn, then read on, or closed.

use std::time::Duration;

use serde_json::json;

use crate::messages::{LEGACY, call, echo, text, with_progress};
use crate::peer::{FINAL, Peer, TEXT, frame, text_frame};
use crate::stage::{Stage, over_each_ring};
use corelane::server::Options;

/// Buffers of the system as small as they can be, so that little is read ahead.
const NARROW_BYTES: usize = 4 << 10;

fn narrow(options: &mut Options) {
    options.websocket.frame_buffer_bytes_max = 20_000;
    options.tcp.send_buffer_bytes = 4 << 10;
    options.tcp.receive_buffer_bytes = 4 << 10;
}

#[test]
fn a_peer_that_does_not_read_is_not_read_and_gets_every_answer_when_it_does() {
    over_each_ring(|mut options| {
        narrow(&mut options);
        options.websocket.drain_max = Duration::from_mins(1);
        let stage = Stage::open(options);
        let mut peer = Peer::begin_narrow(stage.address(), NARROW_BYTES);
        let calls = 400;
        let mut frames = Vec::new();
        for id in 0..calls {
            let call = echo(id, &"x".repeat(5_000));
            peer.expect_answer_to(&call);
            frames.extend(text_frame(call));
        }
        // Said by another thread: nobody reads yet.
        let mut writer = peer.writer();
        let saying = std::thread::spawn(move || {
            std::io::Write::write_all(&mut writer, &frames)
                .expect("a server that reads in the end");
        });
        let mut other = Peer::begin(stage.address(), LEGACY);
        for _ in 0..200 {
            assert_eq!(text(&other.ask(&echo(1, "meanwhile"))), "meanwhile");
        }
        for id in 0..calls {
            let answer = peer.heard();
            assert_eq!((answer["id"].as_i64(), text(&answer).len()), (Some(id.into()), 5_000));
        }
        saying.join().expect("a thread that says what it was given");
        peer.close(1000);
        drop(other);
        let counters = stage.close();
        assert!(counters.traffic.pauses > 0, "{counters}");
    });
}

#[test]
fn a_message_of_many_texts_stops_in_its_middle_while_its_answers_are_not_read() {
    over_each_ring(|mut options| {
        narrow(&mut options);
        options.websocket.drain_max = Duration::from_mins(1);
        options.limits.memory_bytes_max = 3 << 20;
        options.limits.message_bytes_max = 1 << 20;
        options.limits.requests_in_flight_max = 10_000;
        let stage = Stage::open(options);
        // Some sixty bytes each, and some thousand for each answer: read at once, the answers would
        // be more than the server may hold.
        let texts: Vec<_> = (0..5_000)
            .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}}))
            .collect();
        let lines: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let message = lines.join("\n");
        let whole = frame(FINAL | TEXT, message.as_bytes());
        let (first, second) = message.as_bytes().split_at(message.len() / 3);
        let parts = [frame(TEXT, first), frame(FINAL, second)].concat();
        for bytes in [whole, parts] {
            let mut peer = Peer::begin_narrow(stage.address(), NARROW_BYTES);
            let next = echo("next", "behind it");
            peer.expect_answers_to(&texts);
            peer.expect_answer_to(&next);
            let mut writer = peer.writer();
            let saying = std::thread::spawn(move || {
                let bytes = [bytes, text_frame(next)].concat();
                std::io::Write::write_all(&mut writer, &bytes).expect("a server that reads");
            });
            for id in 0..texts.len() {
                let answer = peer.heard_text();
                assert!(
                    answer.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")),
                    "{answer}"
                );
            }
            assert_eq!(text(&peer.heard()), "behind it");
            saying.join().expect("a thread that says what it was given");
            peer.close(1000);
        }
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 0, "{counters}");
        assert!(counters.traffic.pauses > 0, "{counters}");
    });
}

#[test]
fn a_peer_that_does_not_read_for_too_long_is_closed() {
    over_each_ring(|mut options| {
        narrow(&mut options);
        options.websocket.drain_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let mut other = Peer::begin(stage.address(), LEGACY);
        let mut peer = Peer::begin_narrow(stage.address(), NARROW_BYTES);
        // Answers until the queue is full; the system takes some of them, but not for ever.
        let call = text_frame(echo(1, &"x".repeat(5_000)));
        while peer.try_send_bytes(&call).is_ok() {}
        // What was taken may be read; whether the close frame could be, nobody can know.
        let rest = peer.rest();
        if let Some(last) = rest.last().filter(|it| crate::peer::is_control(it)) {
            assert_eq!(crate::peer::code(last), Some(1011));
        }
        assert_eq!(text(&other.ask(&echo(2, "unharmed"))), "unharmed");
        drop((peer, other));
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_internal, 1, "{counters}");
    });
}

#[test]
fn advice_is_left_out_for_a_peer_that_does_not_read_it() {
    over_each_ring(|mut options| {
        narrow(&mut options);
        options.websocket.frame_buffer_bytes_max = 2_000;
        options.websocket.drain_max = Duration::from_mins(1);
        let stage = Stage::open(options);
        let mut peer = Peer::begin_narrow(stage.address(), NARROW_BYTES);
        let mut other = Peer::begin(stage.address(), LEGACY);
        let asking = with_progress(call("slow", "slow", json!({"steps": 1_000, "step_ms": 0})));
        peer.say(&asking);
        for _ in 0..200 {
            assert_eq!(text(&other.ask(&echo(1, "meanwhile"))), "meanwhile");
        }
        let said = peer.heard_until(&json!("slow"));
        let (answer, steps) = said.split_last().expect("an answer");
        assert_eq!(text(answer), "took 1000 steps of 0 ms");
        assert!(steps.len() < 1_000, "{}", steps.len());
        peer.close(1000);
        drop(other);
        stage.close();
    });
}
