//! The end of a running statement: by its time limit, or because the call is cancelled.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;

use rusqlite::hooks::{AuthContext, Authorization};

use crate::declared::sql::sqlite::authorizer::{Access, Refused, With};

#[expect(clippy::disallowed_types, reason = "locked for a few steps; one thread uses it at a time")]
type Mutex<T> = std::sync::Mutex<T>;

/// Returns whether a call is cancelled.
pub(crate) type IsCancelled = Box<dyn Fn() -> bool + Send>;

/// Why a statement was interrupted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Interruption {
    /// Its time is over.
    TimedOut,
    /// The call is cancelled.
    Cancelled,
}

/// What a connection asks while a statement runs.
pub(crate) struct CallWatch {
    clock: Clock,
    running: Mutex<Running>,
}

/// The call that uses the connection.
#[derive(Default)]
struct Running {
    deadline: Option<Instant>,
    is_cancelled: Option<IsCancelled>,
    interruption: Option<Interruption>,
    refused: Option<Refused>,
    with: Option<With>,
}

impl fmt::Debug for CallWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallWatch").finish_non_exhaustive()
    }
}

impl CallWatch {
    /// A watch without a call.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, running: Mutex::default() }
    }

    /// Begins a call that may take `timeout`. `with` is there for statements with WITH that read
    /// listed tables only.
    pub(crate) fn begin(
        &self,
        timeout: Duration,
        is_cancelled: Option<IsCancelled>,
        with: Option<With>,
    ) {
        let deadline = Some(self.clock.now().after(timeout));
        *self.running() = Running { deadline, is_cancelled, with, ..Running::default() };
    }

    /// Ends the call. Returns what was refused to it, and why it was interrupted.
    pub(crate) fn end(&self) -> Ending {
        let Running { interruption, refused, .. } = std::mem::take(&mut *self.running());
        Ending { interruption, refused }
    }

    /// Returns whether the statement must end now.
    pub(crate) fn must_end(&self) -> bool {
        let mut running = self.running();
        if running.is_cancelled.as_ref().is_some_and(|is_cancelled| is_cancelled()) {
            running.interruption = Some(Interruption::Cancelled);
        } else if running.deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
            running.interruption = Some(Interruption::TimedOut);
        }
        running.interruption.is_some()
    }

    /// Decides an action of a statement, and notes the first that is refused.
    pub(crate) fn authorize(&self, access: &Access, context: &AuthContext<'_>) -> Authorization {
        let mut running = self.running();
        match access.decide(context, running.with.as_ref()) {
            Ok(()) => Authorization::Allow,
            Err(refused) => {
                running.refused.get_or_insert(refused);
                Authorization::Deny
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a call ended early.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Why its statement was interrupted.
    pub(crate) interruption: Option<Interruption>,
    /// What it was not allowed to do.
    pub(crate) refused: Option<Refused>,
}
