//! What must hold of each call: it ends once, in time, with its own answer or with a known error,
//! and it is executed as often as its outcome says.

use std::time::Duration;

use corelane::base::time::Instant;
use corelane::client::{ClientError, ClientErrorKind};

use super::call::{CallKind, PlannedCall};
use super::catalog::{Executions, answer};
use crate::totals::Totals;

/// How late a timeout may be.
const LATE_MAX: Duration = Duration::from_millis(50);
/// JSON-RPC codes of errors by which the server refuses or ends a call.
const RPC_CODES: [i64; 2] = [-32_603, 1_001];
/// HTTP statuses by which the server refuses a request.
const HTTP_STATUSES: [u16; 0] = [];

/// The state of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
enum CallState {
    /// Not made yet.
    Planned,
    /// Made at this time.
    Pending(Instant),
    Answered,
    Failed(ClientErrorKind),
    Cancelled,
}

/// The calls of a run.
#[derive(Debug)]
pub(crate) struct CallModel {
    calls: Vec<(PlannedCall, CallState)>,
    pub(crate) totals: Totals,
}

impl CallModel {
    /// Creates the model of calls that are numbered from zero.
    pub(crate) fn new(calls: &[PlannedCall]) -> Self {
        let calls = calls.iter().map(|call| (*call, CallState::Planned)).collect();
        Self { calls, totals: Totals::default() }
    }

    /// Notes that a call is made.
    pub(crate) fn begin(&mut self, number: usize, now: Instant) {
        self.calls[number].1 = CallState::Pending(now);
    }

    /// Notes that a call is dropped by its caller.
    pub(crate) fn cancel(&mut self, number: usize) {
        self.calls[number].1 = CallState::Cancelled;
        self.totals.client_calls_cancelled += 1;
    }

    /// Checks the outcome of a call.
    ///
    /// # Errors
    ///
    /// Describes the violated rule.
    pub(crate) fn complete(
        &mut self,
        number: usize,
        outcome: &Result<String, ClientError>,
        now: Instant,
    ) -> Result<(), String> {
        let (call, state) = &mut self.calls[number];
        let CallState::Pending(since) = *state else {
            return Err(format!("{call:?} ends, but it is {state:?}: {outcome:?}"));
        };
        if call.kind.has_timeout() && now > since.after(call.timeout + LATE_MAX) {
            return Err(format!("{call:?} of {since:?} ends too late, at {now:?}: {outcome:?}"));
        }
        match outcome {
            Ok(text) => {
                let is_expected = match call.kind {
                    CallKind::Ping => text.is_empty(),
                    CallKind::ListTools => text == "run work ",
                    _ => text.contains(&answer(number)),
                };
                if !is_expected {
                    return Err(format!("{call:?} has the answer of another call: {text}"));
                }
                *state = CallState::Answered;
                self.totals.client_calls_answered += 1;
            }
            Err(error) => {
                let kind = error.kind();
                self.totals = self.totals.plus(count_error(kind).ok_or_else(|| {
                    format!("{call:?} fails with an error that nothing explains: {error:?}")
                })?);
                *state = CallState::Failed(kind);
            }
        }
        Ok(())
    }

    /// Checks that no call is in progress for longer than its timeout.
    ///
    /// # Errors
    ///
    /// Describes the call.
    pub(crate) fn check_pending(&self, now: Instant) -> Result<(), String> {
        let overdue = self.calls.iter().find(|(call, state)| {
            matches!(state, CallState::Pending(since)
                if call.kind.has_timeout() && now > since.after(call.timeout + LATE_MAX))
        });
        overdue.map_or(Ok(()), |(call, state)| Err(format!("{call:?} does not end: {state:?}")))
    }

    /// Checks at the end of the run that every call has ended and how often it was executed.
    ///
    /// # Errors
    ///
    /// Describes the violated rule.
    pub(crate) fn check_end(&self, executions: &Executions) -> Result<(), String> {
        for (number, (call, state)) in self.calls.iter().enumerate() {
            if matches!(state, CallState::Planned | CallState::Pending(_)) {
                return Err(format!("{call:?} has not ended: {state:?}"));
            }
            if !call.kind.is_tool_call() {
                continue;
            }
            let count = executions.count(number);
            let range = match state {
                CallState::Answered => 1..=1,
                CallState::Failed(kind) if was_not_sent(*kind) => 0..=0,
                _ => 0..=1,
            };
            if !range.contains(&count) {
                return Err(format!("{call:?} was executed {count} times, but it is {state:?}"));
            }
        }
        Ok(())
    }
}

/// Returns whether a call that failed so has not run.
const fn was_not_sent(kind: ClientErrorKind) -> bool {
    matches!(
        kind,
        ClientErrorKind::InvalidInput
            | ClientErrorKind::Connect
            | ClientErrorKind::Handshake
            | ClientErrorKind::Unsupported
            | ClientErrorKind::Busy
    )
}

/// Counts an error; `None` if no fault of a run explains it.
fn count_error(kind: ClientErrorKind) -> Option<Totals> {
    let mut totals = Totals::default();
    let count = match kind {
        ClientErrorKind::Closed => &mut totals.client_calls_closed,
        ClientErrorKind::Timeout => &mut totals.client_calls_timed_out,
        ClientErrorKind::Connect | ClientErrorKind::Handshake => {
            &mut totals.client_calls_unconnected
        }
        ClientErrorKind::Rpc { code } if RPC_CODES.contains(&code) => {
            &mut totals.client_calls_refused
        }
        ClientErrorKind::Http { status } if HTTP_STATUSES.contains(&status) => {
            &mut totals.client_calls_refused
        }
        _ => return None,
    };
    *count += 1;
    Some(totals)
}
