//! What a connection over WebSocket has beyond the others.
//!
//! What it keeps true: it is one small box, and holds no buffer between messages.

use crate::base::time::Moment;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::FrameLimits;
use crate::transport::websocket::reader::{FrameReader, Next};

/// What a connection of frames has beyond the others.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) reader: FrameReader,
    /// The last that came of the peer, or the end of a time in which it was not read.
    pub(super) heard: Moment,
    /// The last time that it was asked for a sign of life.
    pub(super) pinged: Moment,
    /// When the message began that is not whole.
    pub(super) began: Option<Moment>,
    /// Since when it has not been read because it did not read, and until when that may last.
    pub(super) strain: Option<Strain>,
    /// The earliest entry of the wheel that counts.
    pub(super) armed: Moment,
    /// When the close frame was queued.
    pub(super) parted: Moment,
    /// The peer has closed as well, after a close frame of ours: nothing of it is waited for.
    pub(super) is_answered: bool,
}

/// The peer has closed, and the code that it said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left(pub(super) Option<CloseCode>);

/// A time in which a peer is not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strain {
    pub(super) since: Moment,
    pub(super) until: Moment,
}

impl Frames {
    /// No entry of the wheel counts.
    pub(super) const NEVER: Moment = Moment::from_nanoseconds(u64::MAX);

    pub(super) const fn new(reader: FrameReader, now: Moment) -> Self {
        Self {
            reader,
            heard: now,
            pinged: now,
            began: None,
            strain: None,
            armed: Self::NEVER,
            parted: now,
            is_answered: false,
        }
    }

    /// The peer is read again. The time in which it was not is nobody's silence, and no message
    /// could become whole in it.
    #[cold]
    pub(super) fn relieve(&mut self, strain: Strain, now: Moment) {
        self.strain = None;
        self.heard = now;
        self.began = self.began.map(|began| began.after(now.since(strain.since)));
    }

    /// Throws away what has waited to be read and will not be; whether the peer closes in it.
    pub(super) fn is_left(&mut self, bytes: &mut [u8]) -> bool {
        self.began = None;
        self.skim(bytes).is_some()
    }

    /// Throws away what has come, unless the peer closes in it. The reader discards already.
    pub(super) fn skim(&mut self, bytes: &mut [u8]) -> Option<Left> {
        // What nobody looks at may be as it likes.
        let limits = FrameLimits { message_bytes_max: usize::MAX, is_binary_allowed: true };
        let mut from = 0;
        loop {
            match self.reader.next(bytes, &mut from, &limits, Vec::new) {
                Next::Close(code) => return Some(Left(code)),
                Next::Broken(_) | Next::NeedMore => return None,
                Next::Assembled { .. } => drop(self.reader.take()),
                Next::Inside { .. } | Next::Ping | Next::Pong => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_of_frames_has_beyond_the_others_is_small() {
        assert!(size_of::<Frames>() <= 192);
    }
}
