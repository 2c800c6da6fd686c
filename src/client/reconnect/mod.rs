//! How a client connects again after the loss of its connection: options, delays, events.
//!
//! Pure: the time and the seed of the delays are arguments.

mod options;

use std::sync::Arc;
use std::time::Duration;

pub(super) use self::options::Backoff;
pub use self::options::{ReconnectMode, ReconnectOptions};
use super::error::{ClientError, ClientErrorKind};
use corelane_base::time::Instant;
use corelane_parity::error::ErrorCode;

/// JSON-RPC code of an internal error, also of a server that is shutting down.
const INTERNAL_ERROR: i64 = -32603;
/// Code of a message that is too large; the connection ends after it.
const MESSAGE_TOO_LARGE: i64 = -32012;

/// Whether and when a client connects again.
#[derive(Debug)]
pub struct Reconnection {
    backoff: Backoff,
    is_eager: bool,
    options: Arc<ReconnectOptions>,
    /// Since when nothing is in flight on the open connection.
    idle_since: Option<Instant>,
    /// A handshake was complete, and requests wait for the next one.
    is_established: bool,
    /// When the handshake was complete on the open connection.
    ready_at: Option<Instant>,
    /// No attempt is made before this.
    not_before: Instant,
}

/// What follows the loss of a connection, or an attempt that has failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextAttempt {
    /// Calls fail. The next call begins anew.
    None,
    /// Calls wait for an attempt, not before this.
    At(Instant),
}

impl Reconnection {
    /// Creates the state of a client that has not been connected. `is_program`: its server is a
    /// program that the client starts. `seed` determines the delays.
    pub fn new(options: Arc<ReconnectOptions>, is_program: bool, seed: u64) -> Self {
        Self {
            backoff: Backoff::new(seed),
            is_eager: match options.mode {
                ReconnectMode::Auto => !is_program,
                ReconnectMode::Always => true,
                ReconnectMode::OnDemand => false,
            },
            options,
            idle_since: None,
            is_established: false,
            ready_at: None,
            not_before: Instant::ORIGIN,
        }
    }

    /// Returns a seed for other delays of the client.
    pub fn draw_seed(&mut self) -> u64 {
        self.backoff.draw_seed()
    }

    /// Returns whether a handshake was complete, so that requests wait for the next one.
    pub const fn is_established(&self) -> bool {
        self.is_established
    }

    /// Takes those that wait for the first handshake, if they wait for further attempts.
    pub fn keep_waiters<T>(&self, waiters: &mut Vec<T>) -> Vec<T> {
        if self.options.retry_first { std::mem::take(waiters) } else { Vec::new() }
    }

    /// Returns whether idempotent requests are sent again.
    pub fn resends(&self) -> bool {
        self.options.resend_idempotent
    }

    /// Returns whether an attempt is made although no call waits.
    pub const fn is_eager(&self) -> bool {
        self.is_eager
    }

    /// Notes a complete handshake.
    pub const fn handle_ready(&mut self, now: Instant) {
        self.is_established = true;
        self.ready_at = Some(now);
    }

    /// Handles the end of a connection or of an attempt. Returns what follows and what to report.
    pub fn handle_end(
        &mut self,
        reason: &ClientError,
        now: Instant,
    ) -> (NextAttempt, ConnectionEvent) {
        let ready_at = self.ready_at.take();
        if ready_at.is_some_and(|ready_at| now.since(ready_at) >= self.options.delay_max) {
            self.backoff.reset();
        }
        let may_follow = self.repeats() && (ready_at.is_some() || !is_permanent(reason));
        let delay = if may_follow { self.backoff.next_delay(&self.options) } else { None };
        let next = match delay {
            Some(delay) => NextAttempt::At(now.after(delay)),
            None => NextAttempt::None,
        };
        match next {
            NextAttempt::At(at) => self.not_before = at,
            NextAttempt::None => {
                self.backoff.reset();
                self.is_established = false;
            }
        }
        let (reason, retry_in) = (reason.clone(), delay.filter(|_| self.is_eager));
        let event = match ready_at {
            Some(_) => ConnectionEvent::Disconnected { reason, retry_in },
            None => ConnectionEvent::ConnectFailed { reason, retry_in },
        };
        (next, event)
    }

    /// Returns the event of a client that is closed, if it is connected.
    pub fn handle_close(&mut self, reason: &ClientError) -> Option<ConnectionEvent> {
        self.ready_at.take()?;
        Some(ConnectionEvent::Disconnected { reason: reason.clone(), retry_in: None })
    }

    /// Returns when the next attempt may be made, if not now.
    pub fn delayed_until(&self, now: Instant) -> Option<Instant> {
        (self.repeats() && self.not_before > now).then_some(self.not_before)
    }

    fn repeats(&self) -> bool {
        self.is_established || self.options.retry_first
    }

    /// Notes whether anything is in flight; returns when the connection has been idle for too long.
    pub fn idle_deadline(
        &mut self,
        is_idle: impl FnOnce() -> bool,
        now: Instant,
    ) -> Option<Instant> {
        let timeout = self.options.idle_timeout?;
        if self.ready_at.is_none() || !is_idle() {
            self.idle_since = None;
            return None;
        }
        Some(self.idle_since.get_or_insert(now).after(timeout))
    }

    /// Returns whether the connection has been idle for too long.
    pub fn is_idle_over(&self, now: Instant) -> bool {
        let due = self.options.idle_timeout.zip(self.idle_since);
        due.is_some_and(|(timeout, since)| since.after(timeout) <= now)
    }

    /// Notes that an idle connection is closed. Returns the event.
    pub fn handle_idle_close(&mut self) -> Option<ConnectionEvent> {
        self.idle_since = None;
        let text = "the connection was idle";
        self.handle_close(&ClientError::new(ClientErrorKind::Closed, text))
    }
}

/// Returns whether an attempt that failed so will fail again: the server refuses this client, or
/// does not speak the protocol.
fn is_permanent(reason: &ClientError) -> bool {
    let kind = match (reason.kind(), reason.cause()) {
        (ClientErrorKind::Handshake, Some(cause)) => cause.kind(),
        (kind, _) => kind,
    };
    match kind {
        ClientErrorKind::Connect | ClientErrorKind::Closed | ClientErrorKind::Timeout => false,
        ClientErrorKind::Rpc { code } => !matches!(code, INTERNAL_ERROR | MESSAGE_TOO_LARGE | 1001),
        // Another token is needed first.
        ClientErrorKind::Parity { code: ErrorCode::Unauthorized } => true,
        ClientErrorKind::Parity { .. } => !reason.is_retryable(),
        ClientErrorKind::Http { status } => !matches!(status, 408 | 425 | 429 | 500..),
        _ => true,
    }
}

/// A change of the connection of a client over TCP, Unix sockets, WebSocket or the standard
/// streams of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The handshake is complete.
    Connected,
    /// The connection was lost, or closed by the client.
    Disconnected {
        /// Why.
        reason: ClientError,
        /// Time to the next attempt to connect; `None` if none follows by itself.
        retry_in: Option<Duration>,
    },
    /// An attempt to connect has failed.
    ConnectFailed {
        /// Why.
        reason: ClientError,
        /// Time to the next attempt to connect; `None` if none follows by itself.
        retry_in: Option<Duration>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    fn error(kind: ClientErrorKind) -> ClientError {
        ClientError::new(kind, "a test")
    }

    fn handshake_error(kind: ClientErrorKind) -> ClientError {
        ClientError::with_source(ClientErrorKind::Handshake, "a test", error(kind))
    }

    fn state(options: &ReconnectOptions) -> Reconnection {
        Reconnection::new(Arc::new(options.clone()), false, 7)
    }

    fn is_retried(state: &mut Reconnection, kind: ClientErrorKind, now: Instant) -> bool {
        matches!(state.handle_end(&error(kind), now).0, NextAttempt::At(_))
    }

    #[test]
    fn first_attempt_is_not_repeated() {
        let mut state = state(&ReconnectOptions::default());
        assert!(!is_retried(&mut state, ClientErrorKind::Connect, at(0)));
        assert_eq!(state.delayed_until(at(0)), None);
    }

    #[test]
    fn lost_connection_is_followed_by_attempts() {
        let mut state = state(&ReconnectOptions::default());
        state.handle_ready(at(1));
        let (next, event) = state.handle_end(&error(ClientErrorKind::Closed), at(2));
        let NextAttempt::At(first) = next else { panic!("{next:?}") };
        assert!(first <= at(2).after(Duration::from_millis(100)));
        assert_eq!(state.delayed_until(at(2)), Some(first));
        assert_eq!(state.delayed_until(at(3)), None);
        let ConnectionEvent::Disconnected { retry_in: Some(delay), .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(at(2).after(delay), first);
        for _ in 0..100 {
            let (_, event) = state.handle_end(&error(ClientErrorKind::Connect), at(3));
            assert!(matches!(event, ConnectionEvent::ConnectFailed { retry_in: Some(_), .. }));
        }
    }

    #[test]
    fn delays_begin_again_after_a_stable_connection() {
        let options = ReconnectOptions { attempts_max: Some(1), ..Default::default() };
        for (lasted, is_repeated) in [(29, false), (30, true)] {
            let mut state = state(&options);
            state.handle_ready(at(0));
            assert!(is_retried(&mut state, ClientErrorKind::Closed, at(1)));
            state.handle_ready(at(1));
            let is_retried = is_retried(&mut state, ClientErrorKind::Closed, at(1 + lasted));
            assert_eq!(is_retried, is_repeated, "{lasted} s");
        }
    }

    #[test]
    fn first_attempt_is_repeated_on_request() {
        let options =
            ReconnectOptions { retry_first: true, attempts_max: Some(2), ..Default::default() };
        let mut state = state(&options);
        assert!(is_retried(&mut state, ClientErrorKind::Connect, at(0)));
        assert!(state.delayed_until(at(0)).is_some());
        assert!(is_retried(&mut state, ClientErrorKind::Connect, at(1)));
        assert!(!is_retried(&mut state, ClientErrorKind::Connect, at(2)));
        assert!(!is_retried(&mut state, ClientErrorKind::Protocol, at(3)));
    }

    #[test]
    fn connection_without_calls_becomes_idle() {
        let idle_timeout = Some(Duration::from_secs(10));
        let mut state = state(&ReconnectOptions { idle_timeout, ..Default::default() });
        assert_eq!(state.idle_deadline(|| true, at(0)), None, "it is not connected");
        state.handle_ready(at(1));
        assert_eq!(state.idle_deadline(|| true, at(2)), Some(at(12)));
        assert_eq!(state.idle_deadline(|| false, at(3)), None);
        assert!(!state.is_idle_over(at(20)));
        assert_eq!(state.idle_deadline(|| true, at(4)), Some(at(14)));
        assert_eq!(state.idle_deadline(|| true, at(5)), Some(at(14)));
        assert!(!state.is_idle_over(at(13)) && state.is_idle_over(at(14)));
        assert!(state.handle_idle_close().is_some());
        assert!(!state.is_idle_over(at(20)));
        let mut state = self::state(&ReconnectOptions::default());
        state.handle_ready(at(1));
        assert_eq!(state.idle_deadline(|| true, at(2)), None);
    }

    #[test]
    fn permanent_failure_ends_the_attempts() {
        use ClientErrorKind::{Closed, Connect, Http, Protocol, Rpc, Timeout, Unsupported};
        for (kind, is_repeated) in [
            (Closed, true),
            (Connect, true),
            (Timeout, true),
            (Rpc { code: -32603 }, true),
            (Rpc { code: -32012 }, true),
            (Rpc { code: 1001 }, true),
            (Rpc { code: -32602 }, false),
            (Http { status: 401 }, false),
            (Http { status: 429 }, true),
            (Http { status: 503 }, true),
            (Protocol, false),
            (Unsupported, false),
        ] {
            for reason in [error(kind.clone()), handshake_error(kind.clone())] {
                let mut state = state(&ReconnectOptions::default());
                state.handle_ready(at(0));
                state.handle_end(&error(Closed), at(1));
                let (next, _) = state.handle_end(&reason, at(2));
                assert_eq!(next != NextAttempt::None, is_repeated, "{reason:?}");
                assert_eq!(state.delayed_until(at(2)).is_some(), is_repeated);
            }
        }
    }

    #[test]
    fn mode_decides_whether_events_promise_an_attempt() {
        for (mode, is_program, expected) in [
            (ReconnectMode::Auto, false, true),
            (ReconnectMode::Auto, true, false),
            (ReconnectMode::Always, true, true),
            (ReconnectMode::OnDemand, false, false),
        ] {
            let options = ReconnectOptions { mode, ..Default::default() };
            let mut state = Reconnection::new(Arc::new(options), is_program, 7);
            state.handle_ready(at(0));
            let (next, event) = state.handle_end(&error(ClientErrorKind::Closed), at(1));
            assert_ne!(next, NextAttempt::None);
            let ConnectionEvent::Disconnected { retry_in, .. } = event else { panic!("{event:?}") };
            assert_eq!(retry_in.is_some(), expected);
        }
    }

    #[test]
    fn closed_client_reports_its_end_once() {
        let mut state = state(&ReconnectOptions::default());
        let reason = error(ClientErrorKind::Closed);
        assert!(state.handle_close(&reason).is_none());
        state.handle_ready(at(0));
        assert!(state.handle_close(&reason).is_some());
        assert!(state.handle_close(&reason).is_none());
    }
}
