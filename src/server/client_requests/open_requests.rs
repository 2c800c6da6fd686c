//! The requester of client requests, and the server requests that it has open.
//!
//! Invariants: the deadline of a requester is suspended while a request is open; the suspended time
//! is known when the last one closes.

use std::time::Duration;

use corelane_base::time::Instant;

/// The open server requests of one handler.
#[derive(Debug, Default)]
pub struct OpenRequests {
    numbers: Vec<u64>,
    /// Since when at least one has been open.
    open_since: Option<Instant>,
    /// Accepted URL elicitations, by `elicitationId` (2025-11-25).
    accepted_elicitations: Vec<Box<str>>,
}

impl OpenRequests {
    /// Adds request `number`. Returns `false` if `open_max` are open.
    pub fn add(&mut self, number: u64, open_max: usize, now: Instant) -> bool {
        if self.numbers.len() >= open_max {
            return false;
        }
        self.numbers.push(number);
        self.open_since.get_or_insert(now);
        true
    }

    /// Removes request `number`. Returns how long any was open, if it was the last.
    pub fn remove(&mut self, number: u64, now: Instant) -> Option<Duration> {
        self.numbers.retain(|open| *open != number);
        if !self.numbers.is_empty() {
            return None;
        }
        self.open_since.take().map(|since| now.since(since))
    }

    /// Returns whether any request is open.
    pub const fn is_open(&self) -> bool {
        self.open_since.is_some()
    }

    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    pub fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.numbers)
    }

    /// Records an accepted URL elicitation.
    pub fn record_accepted_url(&mut self, elicitation_id: Option<Box<str>>) {
        self.accepted_elicitations.extend(elicitation_id);
    }

    pub fn accepted_elicitations(&self) -> &[Box<str>] {
        &self.accepted_elicitations
    }
}
