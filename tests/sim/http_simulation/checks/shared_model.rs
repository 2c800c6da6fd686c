//! Model of what all clients over HTTP share: tasks and catalog versions.
//!
//! Checks that session ids are unique; that a request sent after an update was answered sees its
//! version or a newer one; that a subscriber receives at most one list change per version, and
//! receives it in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corelane_base::time::Instant;

use crate::feature_simulation::shared_model::SharedModel;

#[derive(Debug)]
pub(crate) struct HttpSharedModel {
    /// Tasks, and the catalog versions that updates returned.
    pub(crate) shared: SharedModel,
    /// By version: when its update was requested, and when it was answered.
    updates: BTreeMap<u64, (Instant, Instant)>,
    /// Number of catalog versions made so far.
    pub(crate) versions_made: u64,
    /// Ids of all sessions.
    sessions: BTreeSet<String>,
}

impl HttpSharedModel {
    pub(crate) fn new(shared: SharedModel) -> Self {
        let (updates, sessions) = (BTreeMap::new(), BTreeSet::new());
        Self { shared, updates, versions_made: 0, sessions }
    }

    /// Records a new session.
    ///
    /// # Errors
    ///
    /// Another session has the same id.
    pub(crate) fn add_session(&mut self, session: &str) -> Result<(), String> {
        if self.sessions.insert(session.to_owned()) {
            return Ok(());
        }
        Err(format!("two sessions have the id {session}"))
    }

    /// Records that an update was answered: every shard offers this version.
    pub(crate) fn add_update(&mut self, number: u64, sent: Instant, answered: Instant) {
        self.updates.insert(number, (sent, answered));
    }

    /// Checks the version in the response to a request sent at `sent`.
    ///
    /// # Errors
    ///
    /// It is older than one that every shard had by then, or does not exist.
    pub(crate) fn check_version(&self, number: u64, sent: Instant) -> Result<(), String> {
        let newest = self.newest_version(|(_, answered)| *answered <= sent);
        if number < newest || number > self.versions_made {
            let made = self.versions_made;
            return Err(format!("catalog version {number} of {made} is seen after {newest}"));
        }
        Ok(())
    }

    /// Checks the `count`-th list change of a subscriber since `sent`.
    ///
    /// # Errors
    ///
    /// There were fewer versions.
    pub(crate) fn check_list_change(&self, count: u64, sent: Instant) -> Result<(), String> {
        let before = self.newest_version(|(_, answered)| answered.after(NOTIFY_MAX) <= sent);
        if count > self.versions_made - before {
            let made = self.versions_made;
            return Err(format!("{count} change notifications for {made} versions since {before}"));
        }
        Ok(())
    }

    /// Checks a subscriber since `since` that received its last list change at `notified`.
    ///
    /// # Errors
    ///
    /// A list change is missing.
    pub(crate) fn check_notified(
        &self,
        since: Instant,
        notified: Option<Instant>,
        now: Instant,
    ) -> Result<(), String> {
        let is_missed = |(number, (sent, answered)): (&u64, &(Instant, Instant))| {
            let is_due = since < *sent && answered.after(NOTIFY_MAX) <= now;
            (is_due && notified.is_none_or(|notified| notified < *sent)).then_some(*number)
        };
        match self.updates.iter().find_map(is_missed) {
            Some(number) => {
                Err(format!("no notification of catalog version {number} since {notified:?}"))
            }
            None => Ok(()),
        }
    }

    fn newest_version(&self, is_known: impl Fn(&(Instant, Instant)) -> bool) -> u64 {
        let known = self.updates.iter().filter(|(_, change)| is_known(change));
        known.map(|(number, _)| *number).max().unwrap_or_default()
    }
}

/// How long it takes at most until every subscriber is notified of a version: stalls, delays, shard
/// messages that wait for room.
const NOTIFY_MAX: Duration = Duration::from_millis(100);
