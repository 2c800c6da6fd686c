//! One connection of a client: what was asked on it, in its order, and how far its answers came.

use std::collections::VecDeque;
use std::fmt;

use corelane::base::time::Moment;

use crate::web::checks::book::Carried;
use crate::web::checks::reading::{Head, Reader};
use crate::web::hostile::relay::Frames;
use crate::world::wire::Wire;

/// What a request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// `initialize`.
    Begin,
    /// A request of a session.
    Request,
    /// The second half of the handshake: from here on the session is used.
    Confirm,
    /// A message of a session that wants no answer.
    Notice,
    /// The general stream of a session.
    Listen,
    /// The rest of a stream.
    Resume(u32),
    /// The end of a session.
    Delete,
    /// A modern request.
    Modern,
    /// The stream of a client of 2024-11-05.
    Pair,
    /// A modern stream of notifications.
    Subscribe,
    /// What is answered with this status, whoever asks.
    Plain(u16),
    /// The same, and the answer has no body whatever its head says.
    Bare(u16),
}

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    pub(crate) id: Option<u64>,
    /// Which of its client's sessions it is of.
    pub(crate) session: Option<usize>,
    pub(crate) said: Moment,
    /// The connection ends with the answer.
    pub(crate) is_last: bool,
    /// What was read of the answer.
    pub(crate) head: Option<Head>,
    pub(crate) carried: Carried,
    pub(crate) is_answered: bool,
    /// The server said when to come back.
    pub(crate) is_put_off: bool,
    pub(crate) progress: u64,
    /// A task that its stream is to tell of.
    pub(crate) task: Option<String>,
    /// Since when it is heard by the server, where it is a stream.
    pub(crate) opened: Option<Moment>,
    /// How often it was told that a list has changed, and when last.
    pub(crate) lists_told: u64,
    pub(crate) told: Option<Moment>,
}

impl Asked {
    pub(crate) fn new(kind: Kind, id: Option<u64>, session: Option<usize>, now: Moment) -> Self {
        Self {
            kind,
            id,
            session,
            said: now,
            is_last: false,
            head: None,
            carried: Carried::default(),
            is_answered: false,
            is_put_off: false,
            progress: 0,
            task: None,
            opened: None,
            lists_told: 0,
            told: None,
        }
    }

    /// Whether its answer has no end of its own.
    pub(crate) const fn is_endless(&self) -> bool {
        matches!(self.kind, Kind::Listen | Kind::Pair | Kind::Subscribe)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) wire: Wire,
    /// Where it goes through whatever breaks answers.
    pub(crate) frames: Frames,
    pub(crate) reader: Reader,
    pub(crate) asked: VecDeque<Asked>,
    /// Since when the first of those is waited for, with nothing in the way.
    pub(crate) since: Moment,
    /// Its client reads nothing.
    pub(crate) is_deaf: bool,
    /// Its client has said its end.
    pub(crate) is_finished: bool,
    /// The server will end it, or may.
    pub(crate) is_ending: bool,
    /// The newest edition of the catalog that was seen on it.
    newest: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wire, reader, asked, since, is_deaf, is_finished, is_ending, .. } = self;
        let address = wire.address();
        write!(formatter, "{address} since {since:?} (deaf {is_deaf}, finished {is_finished}, ")?;
        write!(formatter, "ending {is_ending}) {}", reader.describe())?;
        asked.iter().try_for_each(|asked| write!(formatter, "\n    {asked:?}"))
    }
}

impl Line {
    pub(crate) fn new(wire: Wire, now: Moment) -> Self {
        Self {
            wire,
            frames: Frames::default(),
            reader: Reader::default(),
            asked: VecDeque::new(),
            since: now,
            is_deaf: false,
            is_finished: false,
            is_ending: false,
            newest: 0,
        }
    }

    /// An edition of the catalog was seen on it.
    ///
    /// # Errors
    ///
    /// Where a newer one was seen before.
    pub(crate) fn see(&mut self, edition: u64) -> Result<(), String> {
        if edition < self.newest {
            return Err(format!("edition {edition} is seen after edition {}", self.newest));
        }
        self.newest = edition;
        Ok(())
    }

    /// Whether something more can be asked on it and will be answered.
    pub(crate) fn is_open(&self) -> bool {
        let is_endless = self.asked.iter().any(Asked::is_endless);
        !(is_endless || self.is_finished || self.is_ending || self.is_deaf)
    }

    /// Whether an answer is waited for that must come.
    pub(crate) fn waits(&self) -> bool {
        self.asked.front().is_some_and(|asked| !asked.is_endless())
    }

    /// Asks.
    pub(crate) fn ask(&mut self, asked: Asked, text: &[u8], now: Moment) {
        if self.asked.is_empty() {
            self.since = now;
        }
        self.is_ending |= asked.is_last;
        self.asked.push_back(asked);
        self.wire.write(text);
    }
}
