//! What stands between a server and one client and breaks what the server says, once.

use corelane::base::random::Random;

use super::bytes::{CLOSE, FINAL, PONG, TEXT, take_frame, unmasked};

/// What goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Break {
    /// A message does not come.
    MessageLost,
    /// A message comes twice.
    MessageDoubled,
    /// A message comes in two frames.
    MessageCut,
    /// Two messages come in one frame.
    MessagesJoined,
    /// A pong does not come.
    PongLost,
    /// A pong has another payload.
    PongChanged,
    /// A close frame says another code.
    CodeChanged,
    /// A close frame does not come.
    CloseLost,
    /// Something comes behind a close frame.
    CloseFollowed,
}

/// One relay.
#[derive(Debug)]
pub(crate) struct Relay {
    breaks: Break,
    random: Random,
    bytes: Vec<u8>,
    /// It has gone wrong already.
    is_done: bool,
}

impl Relay {
    pub(crate) const fn new(breaks: Break, seed: u64) -> Self {
        Self { breaks, random: Random::seeded(seed), bytes: Vec::new(), is_done: false }
    }

    /// What becomes of bytes of the server.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.bytes.extend(bytes);
        let mut passed = Vec::new();
        while let Ok(Some((first, payload))) = take_frame(&mut self.bytes) {
            let is_meant = first == FINAL | self.kind() && !self.is_done;
            if is_meant && (first == FINAL | CLOSE || self.random.chance(1, 3)) {
                self.is_done = true;
                self.damage(first, payload, &mut passed);
            } else {
                passed.extend(unmasked(first, &payload));
            }
        }
        passed
    }

    const fn kind(&self) -> u8 {
        match self.breaks {
            Break::MessageLost
            | Break::MessageDoubled
            | Break::MessageCut
            | Break::MessagesJoined => TEXT,
            Break::PongLost | Break::PongChanged => PONG,
            Break::CodeChanged | Break::CloseLost | Break::CloseFollowed => CLOSE,
        }
    }

    fn damage(&self, first: u8, mut payload: Vec<u8>, passed: &mut Vec<u8>) {
        match self.breaks {
            Break::MessageLost | Break::PongLost | Break::CloseLost => {}
            Break::MessageDoubled => {
                passed.extend(unmasked(first, &payload));
                passed.extend(unmasked(first, &payload));
            }
            Break::MessageCut => {
                let (head, tail) = payload.split_at(payload.len() / 2);
                passed.extend(unmasked(TEXT, head));
                passed.extend(unmasked(FINAL, tail));
            }
            Break::MessagesJoined => {
                let twice = [&payload[..], b"\n", &payload].concat();
                passed.extend(unmasked(first, &twice));
            }
            Break::PongChanged => {
                // It may be empty, or as long as may be.
                payload.push(7);
                payload.truncate(125);
                payload[0] ^= 1;
                passed.extend(unmasked(first, &payload));
            }
            Break::CodeChanged => passed.extend(unmasked(first, &1014_u16.to_be_bytes())),
            Break::CloseFollowed => {
                passed.extend(unmasked(first, &payload));
                passed.extend(unmasked(FINAL | PONG, b""));
            }
        }
    }
}
