//! Who asks a client, and what it has asked by requests.
//!
//! What it keeps true: as long as one question is open, its asker stands still; how long it stood
//! is known with the end of the last one.

use std::time::Duration;

use crate::base::slab::Key;
use crate::base::time::Moment;

/// A handler that asks, by what it runs as at the time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum Asker {
    /// A call, by its ticket.
    Call(Key),
    /// A task of this shard.
    Task(Key),
}

/// What one handler has asked its client by requests.
#[derive(Debug, Default)]
pub(in crate::server) struct Dialogue {
    /// The questions that are open, by number.
    open: Vec<u64>,
    /// Since when at least one of them has been.
    since: Option<Moment>,
    /// The addresses that the user agreed to open, by their `elicitationId`s (2025-11-25).
    addresses: Vec<Box<str>>,
}

impl Dialogue {
    /// Question `number` is asked; `false` where `open_max` are open already.
    pub(in crate::server) fn ask(&mut self, number: u64, open_max: usize, now: Moment) -> bool {
        if self.open.len() >= open_max {
            return false;
        }
        self.open.push(number);
        self.since.get_or_insert(now);
        true
    }

    /// Question `number` is over; where that was the last one, tells how long any was open.
    pub(in crate::server) fn hear(&mut self, number: u64, now: Moment) -> Option<Duration> {
        self.open.retain(|open| *open != number);
        if !self.open.is_empty() {
            return None;
        }
        self.since.take().map(|since| now.since(since))
    }

    /// Whether the handler stands still.
    pub(in crate::server) const fn is_open(&self) -> bool {
        self.since.is_some()
    }

    /// The questions that are open.
    pub(in crate::server) fn open(&self) -> &[u64] {
        &self.open
    }

    /// Takes the open questions.
    pub(in crate::server) fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.open)
    }

    /// The user has agreed to open an address.
    pub(in crate::server) fn open_address(&mut self, address: Option<Box<str>>) {
        self.addresses.extend(address);
    }

    /// What the user agreed to open.
    pub(in crate::server) fn addresses(&self) -> &[Box<str>] {
        &self.addresses
    }
}
