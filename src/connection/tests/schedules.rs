//! Random event orders on a line connection: no line is lost or duplicated, and nothing leaks.

use std::io;

use crate::connection::CloseReason;
use corelane_base::random::Random;
use corelane_base::slab::Key;
use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};

const A: Socket = Socket(0);
const B: Socket = Socket(1);

/// A connection driven by random events until it has ended.
struct Run {
    harness: Harness,
    random: Random,
    key: Key,
    output: Socket,
    /// The lines of the peer, and how many bytes of them have arrived.
    input: String,
    arrived: usize,
    has_ended: bool,
    /// Number of deferred responses sent.
    responded: usize,
    /// The text that the peer has received.
    read: String,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let reaction = if random.below(2) == 0 { Reaction::Echo } else { Reaction::Defer };
        let mut harness = Harness::new(reaction);
        let output = if random.below(2) == 0 { A } else { B };
        let key = harness.open_pipes("any", A, output);
        let count = random.below(60);
        let input: Vec<String> = (0..count).map(|number| format!("line-{number}\n")).collect();
        let input = input.concat();
        let (arrived, has_ended, responded, read) = (0, false, 0, String::new());
        Self { harness, random, key, output, input, arrived, has_ended, responded, read }
    }

    /// Performs one random event.
    fn step(&mut self) {
        match self.random.below(6) {
            0 | 1 if self.arrived < self.input.len() => {
                // Sometimes also while receiving is stopped: bytes that were in flight.
                let length = self.random.below(25);
                let end = self.input.len().min(self.arrived + length);
                if self.harness.ring.receiving.contains(&A) || self.random.below(8) == 0 {
                    let bytes = self.input[self.arrived..end].to_owned();
                    self.arrived = end;
                    self.harness.receive(A, bytes.as_bytes());
                }
            }
            2 => self.harness.flush(),
            3 => self.send_some(),
            4 if self.responded < self.harness.received.len()
                && self.harness.reaction == Reaction::Defer =>
            {
                let line = self.harness.received[self.responded].clone();
                self.responded += 1;
                self.harness.send_deferred(self.key, &line);
            }
            5 if self.arrived == self.input.len() && !self.has_ended => {
                self.has_ended = true;
                self.harness.complete_end_of_stream(A, &Ok(()));
            }
            _ => {}
        }
    }

    fn send_some(&mut self) {
        let Some((buffer, from)) = self.harness.ring.sends.get(&self.output) else { return };
        let rest = buffer[*from..].to_vec();
        let bytes = 1 + self.random.below(rest.len());
        self.read += std::str::from_utf8(&rest[..bytes]).unwrap();
        self.harness.complete_send(self.output, &Ok(bytes));
    }

    /// Completes the closes that the connection has submitted.
    fn close(&mut self) {
        while let Some(&socket) = self.harness.ring.closing.iter().next() {
            if self.harness.ring.sends.contains_key(&socket) {
                self.harness.complete_send(socket, &Err(io::Error::from_raw_os_error(125)));
            }
            self.harness.complete_close(socket);
        }
    }
}

#[test]
fn random_schedule_answers_every_line_in_order() {
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        let mut steps = 0;
        while run.harness.ring.closing.is_empty() {
            run.step();
            let weight = run.harness.accounted_bytes();
            assert!(weight <= run.input.len() + 200, "seed {seed}: {weight}");
            steps += 1;
            assert!(steps < 200_000, "seed {seed} does not end: {}", run.read);
        }
        run.close();
        assert_eq!(run.harness.received.len(), run.input.lines().count(), "seed {seed}");
        assert_eq!(run.read, run.input, "seed {seed}");
        assert_eq!(run.harness.closed_connections, [("any", CloseReason::PeerClosed)]);
        assert!(run.harness.abandoned.is_empty());
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
        if run.harness.ring.closing.is_empty() {
            match run.random.below(3) {
                0 => run.harness.connections.close(
                    &mut run.harness.ring,
                    run.key,
                    CloseReason::Drain,
                ),
                1 => {
                    let reset = Err(io::ErrorKind::ConnectionReset.into());
                    run.harness.complete_end_of_stream(A, &reset);
                }
                _ if run.harness.ring.sends.contains_key(&run.output) => {
                    let broken = Err(io::ErrorKind::BrokenPipe.into());
                    run.harness.complete_send(run.output, &broken);
                }
                _ => run.harness.connections.close(
                    &mut run.harness.ring,
                    run.key,
                    CloseReason::ProtocolViolation,
                ),
            }
        }
        run.harness.flush();
        run.close();
        assert!(run.harness.connections.table.is_empty(), "seed {seed}");
        assert!(run.harness.ring.sends.is_empty() && run.harness.ring.receiving.is_empty());
        assert!(run.input.starts_with(&run.read), "seed {seed}");
        assert_eq!(run.harness.accounted_bytes(), 0, "seed {seed}");
        run.harness.flush();
    }
}
