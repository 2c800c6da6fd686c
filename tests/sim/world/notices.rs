//! What the server is told from outside, one notice after the other, without ever waiting.
//!
//! What it checks: each shard has read every notice that was taken before its drain, and none
//! twice.

use std::collections::VecDeque;
use std::sync::Arc;

use corelane::server::{Busy, Handle, Options};
use corelane::service::Catalog;

/// One thing that every shard is told.
#[derive(Debug)]
pub(crate) enum Notice {
    Drain,
    KeepTo(Box<Options>),
    Offer(Arc<Catalog>),
}

/// Notices on their way.
#[derive(Debug)]
pub(crate) struct Notices {
    handle: Handle,
    waiting: VecDeque<Notice>,
    /// How many the server has taken.
    taken: u64,
    /// How many of those were editions: the last shard to offer one has the others tell of it.
    editions: u64,
    /// How many it had taken with the first drain.
    taken_with_drain: Option<u64>,
}

impl Notices {
    pub(crate) const fn new(handle: Handle) -> Self {
        Self { handle, waiting: VecDeque::new(), taken: 0, editions: 0, taken_with_drain: None }
    }

    /// Says this after what waits.
    pub(crate) fn say(&mut self, notice: Notice) {
        self.waiting.push_back(notice);
    }

    /// Says it before what waits, as a signal would.
    pub(crate) fn say_at_once(&mut self, notice: Notice) {
        self.waiting.push_front(notice);
    }

    /// Has the server take what it can at this moment; `true` where the first drain was taken.
    pub(crate) fn pass_on(&mut self) -> bool {
        let had_drained = self.taken_with_drain.is_some();
        while let Some(notice) = self.waiting.front() {
            let taken = match notice {
                Notice::Drain => self.handle.try_drain(),
                Notice::KeepTo(options) => self.handle.try_keep_to(options),
                Notice::Offer(catalog) => self.handle.try_offer(catalog),
            };
            if taken == Err(Busy) {
                break;
            }
            self.taken += 1;
            match self.waiting.pop_front() {
                Some(Notice::Drain) => {
                    self.taken_with_drain.get_or_insert(self.taken);
                }
                Some(Notice::Offer(_)) => self.editions += 1,
                _ => {}
            }
        }
        // Busy or not: what had no room is tried again with every round.
        self.handle.try_deliver().unwrap_or(());
        !had_drained && self.taken_with_drain.is_some()
    }

    /// Checks how many a shard has read by its end.
    ///
    /// # Errors
    ///
    /// Too many, or fewer than it needed to end by a drain; `ends_with_input` where it needs none.
    pub(crate) fn check(&self, read: u64, ends_with_input: bool) -> Result<(), String> {
        let least = if ends_with_input { 0 } else { self.taken_with_drain.unwrap_or(u64::MAX) };
        let most = self.taken + self.editions;
        if read < least || read > most {
            return Err(format!("{read} notices were read of {least} to {most}"));
        }
        Ok(())
    }
}
