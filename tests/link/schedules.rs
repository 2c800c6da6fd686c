//! Any order of arrivals, answers, completions and ends: nothing is lost, doubled or left behind.

use std::io;

use corelane::base::random::Random;
use corelane::base::slab::Key;
use corelane::engine::ring::Socket;
use corelane::link::Ending;

use crate::stage::{Manner, Stage};

const A: Socket = Socket(0);
const B: Socket = Socket(1);

/// One connection, driven at random until it has ended.
struct Run {
    stage: Stage,
    chance: Random,
    key: Key,
    output: Socket,
    /// Lines that the peer has said, and bytes of them that have arrived.
    said: String,
    arrived: usize,
    has_ended: bool,
    /// Answers given out of turn.
    repaid: usize,
    /// What the peer has read.
    read: String,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut chance = Random::seeded(seed);
        let manner = if chance.below(2) == 0 { Manner::Echo } else { Manner::Owe };
        let mut stage = Stage::new(manner);
        let output = if chance.below(2) == 0 { A } else { B };
        let key = stage.open_pipes("any", A, output);
        let count = chance.below(60);
        let said: Vec<String> = (0..count).map(|number| format!("line-{number}\n")).collect();
        let said = said.concat();
        let (arrived, has_ended, repaid, read) = (0, false, 0, String::new());
        Self { stage, chance, key, output, said, arrived, has_ended, repaid, read }
    }

    /// One thing that may happen now.
    fn step(&mut self) {
        match self.chance.below(6) {
            0 | 1 if self.arrived < self.said.len() => {
                // Also while it is paused, as long as it is not much: what was on its way.
                let length = self.chance.below(25);
                let end = self.said.len().min(self.arrived + length);
                if self.stage.ring.receiving.contains(&A) || self.chance.below(8) == 0 {
                    let bytes = self.said[self.arrived..end].to_owned();
                    self.arrived = end;
                    self.stage.arrive(A, bytes.as_bytes());
                }
            }
            2 => self.stage.flush(),
            3 => self.send_some(),
            4 if self.repaid < self.stage.heard.len() && self.stage.manner == Manner::Owe => {
                let line = self.stage.heard[self.repaid].clone();
                self.repaid += 1;
                self.stage.repay(self.key, &line);
            }
            5 if self.arrived == self.said.len() && !self.has_ended => {
                self.has_ended = true;
                self.stage.end_input(A, &Ok(()));
            }
            _ => {}
        }
    }

    fn send_some(&mut self) {
        let Some((buffer, from)) = self.stage.ring.sends.get(&self.output) else { return };
        let rest = buffer[*from..].to_vec();
        let bytes = 1 + self.chance.below(rest.len());
        self.read += std::str::from_utf8(&rest[..bytes]).unwrap();
        self.stage.sent(self.output, &Ok(bytes));
    }

    /// Closes what the link has asked to close.
    fn close(&mut self) {
        while let Some(&socket) = self.stage.ring.closing.iter().next() {
            if self.stage.ring.sends.contains_key(&socket) {
                self.stage.sent(socket, &Err(io::Error::from_raw_os_error(125)));
            }
            self.stage.closed(socket);
        }
    }
}

#[test]
fn every_line_is_heard_once_and_every_answer_read_in_order() {
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        let mut steps = 0;
        while run.stage.ring.closing.is_empty() {
            run.step();
            let weight = run.stage.weight();
            assert!(weight <= run.said.len() + 200, "seed {seed}: {weight}");
            steps += 1;
            assert!(steps < 200_000, "seed {seed} stands still: {}", run.read);
        }
        run.close();
        assert_eq!(run.stage.heard.len(), run.said.lines().count(), "seed {seed}");
        assert_eq!(run.read, run.said, "seed {seed}");
        assert_eq!(run.stage.ended, [("any", Ending::Peer)]);
        assert!(run.stage.abandoned.is_empty());
        assert_eq!(run.stage.weight(), 0);
    }
}

#[test]
fn an_end_in_the_middle_leaves_nothing_behind() {
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        for _ in 0..run.chance.below(200) {
            run.step();
        }
        if run.stage.ring.closing.is_empty() {
            match run.chance.below(3) {
                0 => run.stage.link.close(&mut run.stage.ring, run.key, Ending::Drain),
                1 => {
                    let reset = Err(io::ErrorKind::ConnectionReset.into());
                    run.stage.end_input(A, &reset);
                }
                _ if run.stage.ring.sends.contains_key(&run.output) => {
                    let broken = Err(io::ErrorKind::BrokenPipe.into());
                    run.stage.sent(run.output, &broken);
                }
                _ => run.stage.link.close(&mut run.stage.ring, run.key, Ending::Fault),
            }
        }
        run.stage.flush();
        run.close();
        assert!(run.stage.link.connections.is_empty(), "seed {seed}");
        assert!(run.stage.ring.sends.is_empty() && run.stage.ring.receiving.is_empty());
        assert!(run.said.starts_with(&run.read), "seed {seed}");
        assert_eq!(run.stage.weight(), 0, "seed {seed}");
        run.stage.flush();
    }
}
