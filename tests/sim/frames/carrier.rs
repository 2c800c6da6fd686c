//! What carries the lines of a client: a stream of lines, or one of frames.

use std::time::Duration;

use corelane::base::time::Moment;

use super::framed::Framed;
use crate::tally::Tally;
use crate::world::wire::Wire;

/// A client's side of a connection.
#[derive(Debug)]
pub(crate) enum Carrier {
    Lines(Wire),
    Frames(Box<Framed>),
}

/// What may happen to connections in this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// They may break by themselves.
    pub(crate) breaks: bool,
    /// The server drains; from then on it may leave something unanswered.
    pub(crate) cut: Option<Moment>,
}

impl Weather {
    /// Whether a connection may end without its client.
    pub(crate) const fn may_cut(self) -> bool {
        self.breaks || self.cut.is_some()
    }
}

impl Carrier {
    /// Says lines, or a part of one.
    pub(crate) fn write(&mut self, lines: &[u8], now: Moment) {
        match self {
            Self::Lines(wire) => wire.write(lines),
            Self::Frames(framed) => framed.write(lines, now),
        }
    }

    /// The lines, or parts of some, that have come.
    ///
    /// # Errors
    ///
    /// What must not have come.
    pub(crate) fn heard(&mut self, now: Moment, weather: Weather) -> Result<Vec<u8>, String> {
        match self {
            Self::Lines(wire) => Ok(wire.heard()),
            Self::Frames(framed) => framed.heard(now, weather),
        }
    }

    /// Does what is due by itself.
    pub(crate) fn turn(&mut self, now: Moment) {
        if let Self::Frames(framed) = self {
            framed.send(now);
        }
    }

    /// When something is due by itself.
    pub(crate) fn next(&self) -> Option<Moment> {
        match self {
            Self::Lines(_) => None,
            Self::Frames(framed) => framed.next(),
        }
    }

    /// Whether the connection has ended.
    ///
    /// # Errors
    ///
    /// It has, or has not, and must not be so.
    pub(crate) fn has_ended(&mut self, now: Moment, weather: Weather) -> Result<bool, String> {
        match self {
            Self::Frames(framed) => framed.has_ended(now, weather),
            Self::Lines(wire) if !wire.is_reset() && !wire.has_ended() => Ok(false),
            Self::Lines(_) if !weather.may_cut() => Err("it was cut".to_owned()),
            Self::Lines(wire) => {
                wire.close();
                Ok(true)
            }
        }
    }

    /// Goes away; `false` where that takes a while.
    pub(crate) fn leave(&mut self, now: Moment) -> bool {
        match self {
            Self::Lines(wire) => {
                wire.close();
                true
            }
            Self::Frames(framed) => framed.leave(now),
        }
    }

    /// Goes away with a reset.
    pub(crate) fn reset(&self) {
        self.wire().reset();
    }

    pub(crate) fn stop_reading(&mut self) {
        self.note_laziness();
        self.wire().stop_reading();
    }

    pub(crate) fn read_eagerly(&self) {
        self.wire().read_eagerly();
    }

    pub(crate) fn read_slowly(&mut self, bytes: usize, every: Duration) {
        self.note_laziness();
        self.wire().read_slowly(bytes, every);
    }

    /// What happened on it beyond its lines.
    pub(crate) fn tally(&self) -> Tally {
        match self {
            Self::Lines(_) => Tally::default(),
            Self::Frames(framed) => framed.tally(),
        }
    }

    /// Itself, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Lines(wire) => wire.address().to_string(),
            Self::Frames(framed) => framed.describe(),
        }
    }

    const fn note_laziness(&mut self) {
        if let Self::Frames(framed) = self {
            framed.is_lazy = true;
        }
    }

    const fn wire(&self) -> &Wire {
        match self {
            Self::Lines(wire) => wire,
            Self::Frames(framed) => &framed.wire,
        }
    }
}
