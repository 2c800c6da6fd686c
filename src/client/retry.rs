//! Which requests are sent again after a failure.

use std::time::Duration;

use super::error::{ClientError, ClientErrorKind};

/// Which requests a client sends again by itself after a failure, how often, and when.
///
/// | policy | sends a request again |
/// | --- | --- |
/// | [`RetryPolicy::never`] | not at all |
/// | [`RetryPolicy::safe`], the default | that certainly did not start (HTTP status 429; status 503 whose error has `data.started: false`, or `data.retryable: true` with `retryAfterMs`), or that may run twice without harm and met status 503 or a connection that the server closed while it was idle: every method but `tools/call` and `tasks/update`, and calls of tools that the last list of tools declared with `readOnlyHint` or `idempotentHint` |
/// | [`RetryPolicy::all`] | after every status 429 or 5xx, timeout, lost or refused connection, JSON-RPC error 1001 and error with `data.retryable: true`, whatever it does: a call may run several times |
///
/// A request is sent again three times at most, after 1 s, 2 s and 4 s or after the time that the
/// server names (`Retry-After`, `data.retryAfterMs`).
/// [`ClientBuilder::on_retry`](crate::ClientBuilder::on_retry) reports each time.
///
/// Independent of it are what the protocol itself asks for: the repetition after an authorization,
/// in a new session, to where a redirect leads, and with the input that a call requires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RetryPolicy {
    scope: RetryScope,
    attempts_max: u32,
    delay_min: Duration,
    delay_max: Duration,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RetryScope {
    Never,
    Safe,
    All,
}

impl RetryPolicy {
    const fn of_scope(scope: RetryScope) -> Self {
        Self {
            scope,
            attempts_max: 3,
            delay_min: Duration::from_secs(1),
            delay_max: Duration::from_secs(30),
        }
    }

    /// Sends no request again.
    #[must_use]
    pub const fn never() -> Self {
        Self::of_scope(RetryScope::Never)
    }

    /// Sends a request again that certainly did not start, or that may run twice without harm.
    #[must_use]
    pub const fn safe() -> Self {
        Self::of_scope(RetryScope::Safe)
    }

    /// Sends every request again after a failure that may pass: status 5xx, a timeout, a lost
    /// connection. A call that changes something may do so several times.
    #[must_use]
    pub const fn all() -> Self {
        Self::of_scope(RetryScope::All)
    }

    /// Sets how often one request is sent again. Default 3.
    #[must_use]
    pub const fn attempts_max(self, attempts_max: u32) -> Self {
        Self { attempts_max, ..self }
    }

    /// Sets the time before the first repetition, which doubles with each further one up to
    /// `max`. Default 1 s and 30 s. A time that the server names counts instead.
    #[must_use]
    pub const fn delay(self, min: Duration, max: Duration) -> Self {
        Self { delay_min: min, delay_max: max, ..self }
    }
}

impl RetryPolicy {
    /// Returns the time before repetition number `repeats` + 1; `None` if there have been enough.
    pub(super) fn next_delay(&self, repeats: u32) -> Option<Duration> {
        let delay = self.delay_min.saturating_mul(1 << repeats.min(16)).min(self.delay_max);
        (repeats < self.attempts_max).then_some(delay)
    }

    /// Returns whether a request may be sent again that may run twice without harm.
    pub(super) fn repeats_idempotent(&self) -> bool {
        self.scope != RetryScope::Never
    }

    /// Returns whether a request may be sent again that may have run.
    pub(super) fn repeats_all(&self) -> bool {
        self.scope == RetryScope::All
    }

    /// Returns whether a request may be sent again after this HTTP status. `started` is what the
    /// response says of it, if anything.
    pub(super) fn repeats_after_status(
        &self,
        status: u16,
        started: Option<bool>,
        is_idempotent: bool,
    ) -> bool {
        match self.scope {
            RetryScope::Never => false,
            RetryScope::Safe => match status {
                429 => started != Some(true) || is_idempotent,
                503 => started == Some(false) || is_idempotent,
                _ => false,
            },
            RetryScope::All => matches!(status, 429 | 500..),
        }
    }

    /// Returns whether a call that may have run may be sent again after `error`.
    pub(super) fn repeats_after_error(&self, error: &ClientError) -> bool {
        self.repeats_all()
            && match error.kind() {
                ClientErrorKind::Timeout | ClientErrorKind::Closed | ClientErrorKind::Connect => {
                    true
                }
                ClientErrorKind::Rpc { code } => code == 1001 || error.is_retryable(),
                ClientErrorKind::Http { status } => matches!(status, 408 | 425 | 429 | 500..),
                _ => false,
            }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::safe()
    }
}

/// A request that is about to be sent again
/// ([`ClientBuilder::on_retry`](crate::ClientBuilder::on_retry)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryEvent {
    /// The method of MCP, such as `tools/call`; that of HTTP for another request.
    pub method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource, of the request.
    pub name: Option<Box<str>>,
    /// What the server has answered, or why there is no response.
    pub error: ClientError,
    /// Time until the request is sent again: that of `Retry-After`, if the server has stated it.
    pub delay: Duration,
}

impl RetryEvent {
    #[doc(hidden)]
    pub fn new(
        method: &'static str,
        name: Option<&str>,
        error: ClientError,
        delay: Duration,
    ) -> Self {
        Self { method, name: name.map(Into::into), error, delay }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_its_bound() {
        let seconds = Duration::from_secs;
        let policy = RetryPolicy::safe().attempts_max(5).delay(seconds(1), seconds(5));
        let delays: Vec<_> = (0..6).map(|repeats| policy.next_delay(repeats)).collect();
        let expected = [1, 2, 4, 5, 5].map(|delay| Some(seconds(delay)));
        assert_eq!(delays[..5], expected);
        assert_eq!(delays[5], None);
        assert_eq!(RetryPolicy::default().next_delay(3), None);
    }

    #[test]
    fn status_repeats_what_did_not_start() {
        for (status, started, of_call, of_list) in [
            (429, None, true, true),
            (429, Some(true), false, true),
            (503, None, false, true),
            (503, Some(false), true, true),
            (503, Some(true), false, true),
            (500, None, false, false),
            (502, None, false, false),
            (404, None, false, false),
        ] {
            let repeats = |policy: RetryPolicy, is_list| {
                policy.repeats_after_status(status, started, is_list)
            };
            let safe = [false, true].map(|is_list| repeats(RetryPolicy::safe(), is_list));
            assert_eq!(safe, [of_call, of_list], "{status} {started:?}");
            assert!(!repeats(RetryPolicy::never(), true), "{status} {started:?}");
            assert_eq!(repeats(RetryPolicy::all(), false), status != 404, "{status} {started:?}");
        }
    }
}
