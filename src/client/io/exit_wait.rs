//! The lost connection of a program, until it is known how the program has ended.
//!
//! A program that ends closes its pipes before its parent can learn its status.

use std::time::Duration;

use super::loss::Loss;
use super::process::ServerProcess;
use corelane_base::time::Instant;

/// Time for which the end of a program is awaited once it has closed a pipe.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two looks at the program.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The lost connection of a program.
#[derive(Debug)]
pub(super) struct ExitWait {
    loss: Loss,
    /// Its standard output has ended.
    has_ended: bool,
    /// It has not read what was sent.
    is_unread: bool,
    next_check: Instant,
    until: Instant,
    /// Nothing is awaited any more.
    is_over: bool,
}

impl ExitWait {
    pub(super) fn new(loss: Loss, now: Instant) -> Self {
        let (has_ended, is_unread) = (loss.is_end_of_stream(), loss.is_send_failure());
        let until = now.after(EXIT_TIMEOUT);
        Self { loss, has_ended, is_unread, next_check: now, until, is_over: false }
    }

    /// Notes a further loss of the same connection.
    pub(super) fn add(&mut self, loss: Loss) {
        self.is_unread |= loss.is_send_failure();
        if loss.is_end_of_stream() && !self.has_ended {
            (self.loss, self.has_ended) = (loss, true);
        }
    }

    /// Returns whether the standard output has ended.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns when [`ExitWait::check`] must be called next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.is_over).then(|| self.next_check.min(self.until))
    }

    /// Returns whether the wait is over.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Looks at the program, to which a send may be in flight.
    pub(super) fn check(&mut self, process: &ServerProcess, is_sending: bool, now: Instant) {
        let is_complete = self.has_ended && (!is_sending || self.is_unread);
        self.is_over |= now >= self.until || is_complete && process.exit().is_some();
        self.next_check = now.after(CHECK_INTERVAL);
    }

    /// Returns how the connection was lost.
    pub(super) fn into_loss(self, process: &ServerProcess) -> Loss {
        let Self { loss, has_ended, is_unread, .. } = self;
        match process.exit() {
            Some(exit) => {
                let has_read = !is_unread && !process.has_unread_input();
                Loss::Exit { exit, has_read, has_ended }
            }
            None => loss,
        }
    }
}
