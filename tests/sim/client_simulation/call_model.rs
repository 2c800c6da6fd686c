//! What must hold of each call: it ends once, in time, with its own answer or with a known error,
//! and it is executed as often as its outcome says.

use std::time::Duration;

use corelane::client::{ClientError, ClientErrorKind};
use corelane_base::time::Instant;

use super::call::{CallKind, PlannedCall};
use super::catalog::{Executions, answer};
use crate::totals::Totals;

/// How late a timeout may be.
const LATE_MAX: Duration = Duration::from_millis(50);
/// JSON-RPC codes of errors by which the server refuses or ends a call.
const RPC_CODES: [i64; 2] = [-32_603, 1_001];
/// The HTTP status of a request whose session is not known.
const SESSION_LOST: u16 = 404;
/// The HTTP status of a connection that is accepted and that a draining server refuses, before it
/// reads a request.
const CONNECTION_REFUSED: u16 = 503;
/// Time from the begin of a drain in which connections that were accepted are refused.
const REFUSAL_MAX: Duration = Duration::from_millis(50);

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
    session_idle_timeout: Duration,
    /// When servers ended, in order.
    server_ends: Vec<Instant>,
    pub(crate) totals: Totals,
}

impl CallModel {
    /// Creates the model of calls that are numbered from zero.
    pub(crate) fn new(calls: &[PlannedCall], session_idle_timeout: Duration) -> Self {
        let calls = calls.iter().map(|call| (*call, CallState::Planned)).collect();
        Self { calls, session_idle_timeout, server_ends: Vec::new(), totals: Totals::default() }
    }

    /// Notes that a server ends, and its sessions with it.
    pub(crate) fn end_server(&mut self, now: Instant) {
        self.server_ends.push(now);
    }

    /// Returns whether the session of a call may have been lost twice since `since`: before it, and
    /// again after a new one had begun. The client makes a new session for a call once.
    fn loses_two_sessions(&self, since: Instant, now: Instant) -> bool {
        let is_idle = now >= since.after(self.session_idle_timeout);
        is_idle || self.server_ends.iter().any(|end| *end >= since)
    }

    /// Returns whether a call since `since` may have met a server that began to drain.
    fn meets_drain(&self, since: Instant, now: Instant) -> bool {
        self.server_ends.iter().any(|end| *end <= now && end.after(REFUSAL_MAX) >= since)
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
        let (call, state) = &self.calls[number];
        let CallState::Pending(since) = *state else {
            return Err(format!("{call:?} ends, but it is {state:?}: {outcome:?}"));
        };
        if call.kind.has_timeout() && now > since.after(call.timeout + LATE_MAX) {
            return Err(format!("{call:?} of {since:?} ends too late, at {now:?}: {outcome:?}"));
        }
        let state = match outcome {
            Ok(text) => {
                let is_expected = match call.kind {
                    CallKind::Ping => text.is_empty(),
                    CallKind::ListTools => text == "run work ",
                    _ => text.contains(&answer(number)),
                };
                if !is_expected {
                    return Err(format!("{call:?} has the answer of another call: {text}"));
                }
                self.totals.client_calls_answered += 1;
                CallState::Answered
            }
            Err(error) => {
                let kind = error.kind();
                let count = match &kind {
                    ClientErrorKind::Http { status: SESSION_LOST } => {
                        self.loses_two_sessions(since, now).then(refused)
                    }
                    ClientErrorKind::Http { status: CONNECTION_REFUSED } => {
                        self.meets_drain(since, now).then(refused)
                    }
                    kind => count_error(kind),
                };
                let count = count.ok_or_else(|| {
                    format!("{call:?} fails with an error that nothing explains: {error:?}")
                })?;
                self.totals = self.totals.plus(count);
                CallState::Failed(kind)
            }
        };
        self.calls[number].1 = state;
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
                CallState::Failed(kind) if was_not_sent(kind) => 0..=0,
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
const fn was_not_sent(kind: &ClientErrorKind) -> bool {
    matches!(
        kind,
        ClientErrorKind::InvalidInput
            | ClientErrorKind::Connect
            | ClientErrorKind::Handshake
            | ClientErrorKind::Unsupported
            | ClientErrorKind::Busy
            | ClientErrorKind::Http { status: CONNECTION_REFUSED }
    )
}

/// Counts a call that was refused.
fn refused() -> Totals {
    Totals { client_calls_refused: 1, ..Totals::default() }
}

/// Counts an error; `None` if no fault of a run explains it.
fn count_error(kind: &ClientErrorKind) -> Option<Totals> {
    let mut totals = Totals::default();
    let count = match kind {
        ClientErrorKind::Closed => &mut totals.client_calls_closed,
        ClientErrorKind::Timeout => &mut totals.client_calls_timed_out,
        ClientErrorKind::Connect | ClientErrorKind::Handshake => {
            &mut totals.client_calls_unconnected
        }
        ClientErrorKind::Rpc { code } if RPC_CODES.contains(code) => {
            &mut totals.client_calls_refused
        }
        _ => return None,
    };
    *count += 1;
    Some(totals)
}
