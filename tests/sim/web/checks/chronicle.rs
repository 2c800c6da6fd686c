//! What all clients over HTTP know together: tasks, and which editions of the catalog were made.
//!
//! What it checks: no session has the name of another; whoever asks after a change was answered
//! sees its edition or a newer one; a list is told at most once for each edition; whoever listens
//! is told of an edition before long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corelane::base::time::Moment;

use crate::meeting::commons::Commons;

/// The books of a run.
#[derive(Debug)]
pub(crate) struct Chronicle {
    /// Tasks, and the editions that changes were answered with.
    pub(crate) commons: Commons,
    /// When the change that made an edition was asked for, and when it was answered.
    changes: BTreeMap<u64, (Moment, Moment)>,
    /// Editions that were made so far.
    pub(crate) made: u64,
    /// Names of sessions that began.
    sessions: BTreeSet<String>,
}

impl Chronicle {
    pub(crate) fn new(round_max: Duration) -> Self {
        let (changes, sessions) = (BTreeMap::new(), BTreeSet::new());
        Self { commons: Commons::new(round_max), changes, made: 0, sessions }
    }

    /// A session has begun.
    ///
    /// # Errors
    ///
    /// Where another one has its name.
    pub(crate) fn begin(&mut self, session: &str) -> Result<(), String> {
        if self.sessions.insert(session.to_owned()) {
            return Ok(());
        }
        Err(format!("two sessions are called {session}"))
    }

    /// A change that was asked for has been answered: every shard offers this edition.
    pub(crate) fn change(&mut self, number: u64, said: Moment, heard: Moment) {
        self.changes.insert(number, (said, heard));
    }

    /// An edition was seen by whoever asked at `said`.
    ///
    /// # Errors
    ///
    /// Where it is older than one that every shard had by then, or was not made.
    pub(crate) fn see(&self, number: u64, said: Moment) -> Result<(), String> {
        let newest = self.newest(|(_, heard)| *heard <= said);
        if number < newest || number > self.made {
            return Err(format!("edition {number} of {} is seen after {newest}", self.made));
        }
        Ok(())
    }

    /// A list was told to have changed for the `told`-th time to somebody who listens since `said`.
    ///
    /// # Errors
    ///
    /// Where there were not as many editions to tell of.
    pub(crate) fn tell(&self, told: u64, said: Moment) -> Result<(), String> {
        let before = self.newest(|(_, heard)| heard.after(TOLD_MAX) <= said);
        if told > self.made - before {
            return Err(format!("{told} changes were told of {} since {before}", self.made));
        }
        Ok(())
    }

    /// Somebody listens since `since` and was told last at `told`.
    ///
    /// # Errors
    ///
    /// Where they ought to have been told by now.
    pub(crate) fn must_have_told(
        &self,
        since: Moment,
        told: Option<Moment>,
        now: Moment,
    ) -> Result<(), String> {
        let is_missed = |(number, (said, heard)): (&u64, &(Moment, Moment))| {
            let is_due = since < *said && heard.after(TOLD_MAX) <= now;
            (is_due && told.is_none_or(|told| told < *said)).then_some(*number)
        };
        match self.changes.iter().find_map(is_missed) {
            Some(number) => Err(format!("nobody told of edition {number} since {told:?}")),
            None => Ok(()),
        }
    }

    fn newest(&self, is_known: impl Fn(&(Moment, Moment)) -> bool) -> u64 {
        let known = self.changes.iter().filter(|(_, change)| is_known(change));
        known.map(|(number, _)| *number).max().unwrap_or_default()
    }
}

/// How long it takes at most until everybody has heard of an edition that is offered: naps, delays,
/// letters that wait for room.
const TOLD_MAX: Duration = Duration::from_millis(100);
