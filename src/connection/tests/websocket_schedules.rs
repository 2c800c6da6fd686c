//! Random event orders on a WebSocket connection: no message is lost or duplicated, nothing leaks,
//! and a close frame is the last output.

use std::io;
use std::time::Duration;

use crate::connection::CloseReason;
use corelane_base::random::Random;
use corelane_base::slab::Key;
use corelane_engine::ring::Socket;
use corelane_transport::websocket::limits::ProtocolError;

use super::harness::{Harness, Reaction};
use super::websocket_peer::{self, close, first_fragment, last_fragment, ping, pong, text};

const A: Socket = Socket(0);

/// A connection driven by random events until it has ended.
struct Run {
    harness: Harness,
    random: Random,
    key: Key,
    /// The bytes of the peer, and how many of them have arrived.
    stream: Vec<u8>,
    arrived: usize,
    words: Vec<String>,
    /// Number of deferred responses sent.
    responded: usize,
    /// The bytes that the peer has received.
    read: Vec<u8>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let mut harness =
            Harness::new(if random.below(2) == 0 { Reaction::Echo } else { Reaction::Defer });
        let key = harness.open_websocket(A);
        let words: Vec<String> =
            (0..random.below(60)).map(|number| format!("word-{number}")).collect();
        let mut stream = Vec::new();
        for word in &words {
            let (head, tail) = word.split_at(random.below(word.len()));
            match random.below(4) {
                0 => stream.extend([first_fragment(head), ping("p"), last_fragment(tail)].concat()),
                1 => stream.extend([first_fragment(head), pong(), last_fragment(tail)].concat()),
                _ => stream.extend(text(word)),
            }
        }
        let (arrived, responded, read) = (0, 0, Vec::new());
        Self { harness, random, key, stream, arrived, words, responded, read }
    }

    /// Performs one random event.
    fn step(&mut self) {
        match self.random.below(5) {
            0 | 1 => self.arrive_some(),
            2 => self.harness.flush(),
            3 => self.send_some(),
            _ if self.harness.reaction == Reaction::Defer
                && self.responded < self.harness.received.len() =>
            {
                let word = self.harness.received[self.responded].clone();
                self.responded += 1;
                self.harness.send_deferred(self.key, &word);
            }
            _ => {}
        }
    }

    fn arrive_some(&mut self) {
        let length = self.random.below(25);
        let end = self.stream.len().min(self.arrived + length);
        // Sometimes also while receiving is stopped: bytes that were in flight.
        if self.harness.ring.receiving.contains(&A) || self.random.below(8) == 0 {
            let bytes = self.stream[self.arrived..end].to_vec();
            self.arrived = end;
            self.harness.receive(A, &bytes);
        }
    }

    fn send_some(&mut self) {
        let Some((buffer, from)) = self.harness.ring.sends.get(&A) else { return };
        let rest = buffer[*from..].to_vec();
        let bytes = 1 + self.random.below(rest.len());
        self.read.extend(&rest[..bytes]);
        self.harness.complete_send(A, &Ok(bytes));
    }

    /// Completes the close that the connection has submitted.
    fn close(&mut self) {
        if self.harness.ring.closing.contains(&A) {
            if self.harness.ring.sends.contains_key(&A) {
                self.harness.complete_send(A, &Err(io::Error::from_raw_os_error(125)));
            }
            self.harness.complete_close(A);
        }
    }

    fn is_answered(&self) -> bool {
        let is_repaid =
            self.harness.reaction == Reaction::Echo || self.responded == self.words.len();
        self.arrived == self.stream.len()
            && self.harness.received.len() == self.words.len()
            && is_repaid
    }
}

#[test]
fn random_schedule_delivers_messages_before_close_frame() {
    for seed in 0..1_000 {
        let mut run = Run::new(seed);
        let mut steps = 0;
        let mut has_closed = false;
        while run.harness.ring.closing.is_empty() {
            run.step();
            if run.is_answered() && !has_closed {
                has_closed = true;
                run.harness.receive(A, &close(Some(1000)));
            }
            if run.harness.ring.write_shutdowns.contains(&A)
                && run.harness.ring.receiving.contains(&A)
            {
                run.harness.complete_end_of_stream(A, &Ok(()));
            }
            let weight = run.harness.accounted_bytes();
            assert!(weight <= run.stream.len() + 200, "seed {seed}: {weight}");
            steps += 1;
            assert!(
                steps < 200_000,
                "seed {seed} does not end: {:?}",
                websocket_peer::decode_frames(&run.read)
            );
        }
        run.close();
        let mut read = websocket_peer::decode_frames(&run.read);
        assert_eq!(read.pop().as_deref(), Some("close 1000"), "seed {seed}");
        read.retain(|frame| frame != "pong p");
        assert_eq!((&run.harness.received, &read), (&run.words, &run.words), "seed {seed}");
        assert_eq!(run.harness.closed_connections, [("http", CloseReason::PeerClosed)]);
        assert_eq!(run.harness.accounted_bytes(), 0);
    }
}

#[test]
fn random_end_leaks_nothing() {
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        for _ in 0..run.random.below(200) {
            run.step();
        }
        let now = run.harness.now;
        let (connections, ring) = (&mut run.harness.connections, &mut run.harness.ring);
        match run.random.below(6) {
            0 => connections.close_gracefully(ring, run.key, CloseReason::Drain, now),
            1 => connections.fail_websocket(run.key, ProtocolError::MESSAGE_TOO_BIG, now),
            2 => connections.close(ring, run.key, CloseReason::Drain),
            3 => run.harness.complete_end_of_stream(A, &Err(io::ErrorKind::ConnectionReset.into())),
            4 => {
                let rest = run.stream.split_off(run.arrived);
                run.harness.receive(A, &[rest, close(None)].concat());
            }
            // No event: a timeout ends it.
            _ => {}
        }
        // The peer reads for a while, then stops reading and sending.
        for _ in 0..40 {
            match run.random.below(3) {
                0 => run.harness.flush(),
                1 if run.harness.ring.closing.is_empty() => run.send_some(),
                _ => run.arrive_some(),
            }
        }
        for _ in 0..20 {
            run.harness.flush();
            run.close();
            run.harness.advance_time(Duration::from_secs(1));
        }
        assert!(run.harness.connections.table.is_empty(), "seed {seed}");
        assert!(run.harness.ring.sends.is_empty() && run.harness.ring.receiving.is_empty());
        assert!(run.harness.connections.shared.statistics.websocket.closes_out <= 1, "seed {seed}");
        assert_eq!(run.harness.accounted_bytes(), 0, "seed {seed}");
        while let Some(deadline) = run.harness.connections.deadline() {
            run.harness.connections.expire_timers(&mut run.harness.ring, deadline);
        }
    }
}
