//! Any order of arrivals, answers, completions and ends of a connection of frames: nothing is lost,
//! doubled or left behind, and a close frame is the last that is said.

use std::io;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::slab::Key;
use corelane::engine::ring::Socket;
use corelane::link::Ending;
use corelane::transport::websocket::limits::Fault;

use crate::peer::{self, beginning, close, ending, ping, pong, text};
use crate::stage::{Manner, Stage};

const A: Socket = Socket(0);

/// One connection, driven at random until it has ended.
struct Run {
    stage: Stage,
    chance: Random,
    key: Key,
    /// What the peer says, and how much of it has arrived.
    stream: Vec<u8>,
    arrived: usize,
    words: Vec<String>,
    /// Answers given out of turn.
    repaid: usize,
    /// What the peer has read.
    read: Vec<u8>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut chance = Random::seeded(seed);
        let mut stage = Stage::new(if chance.below(2) == 0 { Manner::Echo } else { Manner::Owe });
        let key = stage.open_frames(A);
        let words: Vec<String> =
            (0..chance.below(60)).map(|number| format!("word-{number}")).collect();
        let mut stream = Vec::new();
        for word in &words {
            let (head, tail) = word.split_at(chance.below(word.len()));
            match chance.below(4) {
                0 => stream.extend([beginning(head), ping("p"), ending(tail)].concat()),
                1 => stream.extend([beginning(head), pong(), ending(tail)].concat()),
                _ => stream.extend(text(word)),
            }
        }
        let (arrived, repaid, read) = (0, 0, Vec::new());
        Self { stage, chance, key, stream, arrived, words, repaid, read }
    }

    /// One thing that may happen at this moment.
    fn step(&mut self) {
        match self.chance.below(5) {
            0 | 1 => self.arrive_some(),
            2 => self.stage.flush(),
            3 => self.send_some(),
            _ if self.stage.manner == Manner::Owe && self.repaid < self.stage.heard.len() => {
                let word = self.stage.heard[self.repaid].clone();
                self.repaid += 1;
                self.stage.repay(self.key, &word);
            }
            _ => {}
        }
    }

    fn arrive_some(&mut self) {
        let length = self.chance.below(25);
        let end = self.stream.len().min(self.arrived + length);
        // Also while it is paused, as long as it is not much: what was on its way.
        if self.stage.ring.receiving.contains(&A) || self.chance.below(8) == 0 {
            let bytes = self.stream[self.arrived..end].to_vec();
            self.arrived = end;
            self.stage.arrive(A, &bytes);
        }
    }

    fn send_some(&mut self) {
        let Some((buffer, from)) = self.stage.ring.sends.get(&A) else { return };
        let rest = buffer[*from..].to_vec();
        let bytes = 1 + self.chance.below(rest.len());
        self.read.extend(&rest[..bytes]);
        self.stage.sent(A, &Ok(bytes));
    }

    /// Closes what the link has asked to close.
    fn close(&mut self) {
        if self.stage.ring.closing.contains(&A) {
            if self.stage.ring.sends.contains_key(&A) {
                self.stage.sent(A, &Err(io::Error::from_raw_os_error(125)));
            }
            self.stage.closed(A);
        }
    }

    fn is_answered(&self) -> bool {
        let is_repaid = self.stage.manner == Manner::Echo || self.repaid == self.words.len();
        self.arrived == self.stream.len() && self.stage.heard.len() == self.words.len() && is_repaid
    }
}

#[test]
fn every_message_is_heard_once_and_every_answer_read_in_order_before_the_close() {
    for seed in 0..1_000 {
        let mut run = Run::new(seed);
        let mut steps = 0;
        let mut has_closed = false;
        while run.stage.ring.closing.is_empty() {
            run.step();
            if run.is_answered() && !has_closed {
                has_closed = true;
                run.stage.arrive(A, &close(Some(1000)));
            }
            if run.stage.ring.finished.contains(&A) && run.stage.ring.receiving.contains(&A) {
                run.stage.end_input(A, &Ok(()));
            }
            let weight = run.stage.weight();
            assert!(weight <= run.stream.len() + 200, "seed {seed}: {weight}");
            steps += 1;
            assert!(steps < 200_000, "seed {seed} stands still: {:?}", peer::frames(&run.read));
        }
        run.close();
        let mut read = peer::frames(&run.read);
        assert_eq!(read.pop().as_deref(), Some("close 1000"), "seed {seed}");
        read.retain(|frame| frame != "pong p");
        assert_eq!((&run.stage.heard, &read), (&run.words, &run.words), "seed {seed}");
        assert_eq!(run.stage.ended, [("http", Ending::Peer)]);
        assert_eq!(run.stage.weight(), 0);
    }
}

#[test]
fn an_end_in_the_middle_leaves_nothing_behind_and_one_close_frame_at_most() {
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        for _ in 0..run.chance.below(200) {
            run.step();
        }
        let now = run.stage.now;
        let (link, ring) = (&mut run.stage.link, &mut run.stage.ring);
        match run.chance.below(6) {
            0 => link.finish(ring, run.key, Ending::Drain, now),
            1 => link.break_off(run.key, Fault::TOO_BIG, now),
            2 => link.close(ring, run.key, Ending::Drain),
            3 => run.stage.end_input(A, &Err(io::ErrorKind::ConnectionReset.into())),
            4 => {
                let rest = run.stream.split_off(run.arrived);
                run.stage.arrive(A, &[rest, close(None)].concat());
            }
            // Nothing at all: time ends it.
            _ => {}
        }
        // The peer reads for a while, then it does not say or read anything.
        for _ in 0..40 {
            match run.chance.below(3) {
                0 => run.stage.flush(),
                1 if run.stage.ring.closing.is_empty() => run.send_some(),
                _ => run.arrive_some(),
            }
        }
        for _ in 0..20 {
            run.stage.flush();
            run.close();
            run.stage.wait(Duration::from_secs(1));
        }
        assert!(run.stage.link.connections.is_empty(), "seed {seed}");
        assert!(run.stage.ring.sends.is_empty() && run.stage.ring.receiving.is_empty());
        assert!(run.stage.link.statistics.frames.closes_out <= 1, "seed {seed}");
        assert_eq!(run.stage.weight(), 0, "seed {seed}");
        while let Some(deadline) = run.stage.link.deadline() {
            run.stage.link.expire(&mut run.stage.ring, deadline);
        }
    }
}
