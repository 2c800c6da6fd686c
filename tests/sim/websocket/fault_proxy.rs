//! A proxy between server and client that damages the server's frames once.

use corelane_base::random::Random;

use super::bytes::{CLOSE, FINAL, PONG, TEXT, take_frame, unmasked};

/// What it damages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FrameFault {
    /// A message is lost.
    MessageLost,
    /// A message arrives twice.
    MessageDuplicated,
    /// A message is split into two frames.
    MessageSplit,
    /// Two messages are joined in one frame.
    MessagesJoined,
    /// A pong is lost.
    PongLost,
    /// A pong has another payload.
    PongChanged,
    /// A close frame has another code.
    CodeChanged,
    /// A close frame is lost.
    CloseLost,
    /// A pong follows a close frame.
    CloseFollowed,
}

#[derive(Debug)]
pub(crate) struct FrameFaultProxy {
    fault: FrameFault,
    random: Random,
    bytes: Vec<u8>,
    /// The damage has been done.
    is_done: bool,
}

impl FrameFaultProxy {
    pub(crate) const fn new(fault: FrameFault, seed: u64) -> Self {
        Self { fault, random: Random::seeded(seed), bytes: Vec::new(), is_done: false }
    }

    /// Returns what the client receives for bytes of the server.
    pub(crate) fn forward(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.bytes.extend(bytes);
        let mut passed = Vec::new();
        while let Ok(Some((first, payload))) = take_frame(&mut self.bytes) {
            let is_meant = first == FINAL | self.target_opcode() && !self.is_done;
            if is_meant && (first == FINAL | CLOSE || self.random.chance(1, 3)) {
                self.is_done = true;
                self.apply_fault(first, payload, &mut passed);
            } else {
                passed.extend(unmasked(first, &payload));
            }
        }
        passed
    }

    const fn target_opcode(&self) -> u8 {
        match self.fault {
            FrameFault::MessageLost
            | FrameFault::MessageDuplicated
            | FrameFault::MessageSplit
            | FrameFault::MessagesJoined => TEXT,
            FrameFault::PongLost | FrameFault::PongChanged => PONG,
            FrameFault::CodeChanged | FrameFault::CloseLost | FrameFault::CloseFollowed => CLOSE,
        }
    }

    fn apply_fault(&self, first: u8, mut payload: Vec<u8>, passed: &mut Vec<u8>) {
        match self.fault {
            FrameFault::MessageLost | FrameFault::PongLost | FrameFault::CloseLost => {}
            FrameFault::MessageDuplicated => {
                passed.extend(unmasked(first, &payload));
                passed.extend(unmasked(first, &payload));
            }
            FrameFault::MessageSplit => {
                let (head, tail) = payload.split_at(payload.len() / 2);
                passed.extend(unmasked(TEXT, head));
                passed.extend(unmasked(FINAL, tail));
            }
            FrameFault::MessagesJoined => {
                let twice = [&payload[..], b"\n", &payload].concat();
                passed.extend(unmasked(first, &twice));
            }
            FrameFault::PongChanged => {
                // The payload may be empty or of maximum length.
                payload.push(7);
                payload.truncate(125);
                payload[0] ^= 1;
                passed.extend(unmasked(first, &payload));
            }
            FrameFault::CodeChanged => passed.extend(unmasked(first, &1014_u16.to_be_bytes())),
            FrameFault::CloseFollowed => {
                passed.extend(unmasked(first, &payload));
                passed.extend(unmasked(FINAL | PONG, b""));
            }
        }
    }
}
