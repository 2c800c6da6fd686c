//! Results of requests: success, or kind of failure.
//!
//! Invariants: every due request counts exactly once. An error response is never counted as
//! success, whatever its HTTP status.

use std::fmt;

use corelane_parity::error::ErrorCode;

/// Kind of failure of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Failure {
    /// No connection could be opened, or none was left to send on.
    Connect,
    /// The connection ended before the response.
    Closed,
    /// No response in time.
    Timeout,
    /// The received data is not a valid message.
    Garbage,
    /// The response is valid but not the expected one.
    Wrong,
    /// HTTP status 429.
    Http429,
    /// Another HTTP status 4xx, or another unexpected one.
    Http4xx,
    /// HTTP status 5xx.
    Http5xx,
    /// JSON-RPC error.
    Rpc,
    /// JSON-RPC error with `data.retryAfterMs`.
    RpcRetryAfter,
    /// Result that requires input, which the plan does not answer.
    InputRequired,
    /// Tool result with `isError`.
    Tool,
    /// Not sent by the generator: all connections were busy.
    Unsent,
    /// Parity dialect: the chunks of a stream are not in order, or end without `eos`.
    Stream,
    /// Parity dialect: error with this code.
    Parity(ErrorCode),
}

impl Failure {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 22] = [
        Self::Connect,
        Self::Closed,
        Self::Timeout,
        Self::Garbage,
        Self::Wrong,
        Self::Http429,
        Self::Http4xx,
        Self::Http5xx,
        Self::Rpc,
        Self::RpcRetryAfter,
        Self::InputRequired,
        Self::Tool,
        Self::Unsent,
        Self::Stream,
        Self::Parity(ErrorCode::VersionUnsupported),
        Self::Parity(ErrorCode::FeatureNotAvailable),
        Self::Parity(ErrorCode::Unauthorized),
        Self::Parity(ErrorCode::Forbidden),
        Self::Parity(ErrorCode::RateLimited),
        Self::Parity(ErrorCode::PayloadTooLarge),
        Self::Parity(ErrorCode::AlreadyProcessed),
        Self::Parity(ErrorCode::Internal),
    ];

    /// Returns the kinds that requests of the parity dialect, or of MCP, can have, in the order of
    /// reports.
    pub fn of_dialect(is_parity: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |kind| is_parity || !kind.is_parity())
    }

    /// Returns whether only requests of the parity dialect fail in this way.
    const fn is_parity(self) -> bool {
        matches!(self, Self::Stream | Self::Parity(_))
    }

    /// Returns the position in [`Failure::ALL`].
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Connect => 0,
            Self::Closed => 1,
            Self::Timeout => 2,
            Self::Garbage => 3,
            Self::Wrong => 4,
            Self::Http429 => 5,
            Self::Http4xx => 6,
            Self::Http5xx => 7,
            Self::Rpc => 8,
            Self::RpcRetryAfter => 9,
            Self::InputRequired => 10,
            Self::Tool => 11,
            Self::Unsent => 12,
            Self::Stream => 13,
            Self::Parity(code) => 14 + code as usize,
        }
    }

    /// Returns the name used in reports and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Garbage => "garbage",
            Self::Wrong => "wrong",
            Self::Http429 => "http_429",
            Self::Http4xx => "http_4xx",
            Self::Http5xx => "http_5xx",
            Self::Rpc => "rpc_error",
            Self::RpcRetryAfter => "rpc_retry_after",
            Self::InputRequired => "input_required",
            Self::Tool => "tool_error",
            Self::Unsent => "unsent",
            Self::Stream => "stream",
            Self::Parity(code) => code.as_str(),
        }
    }
}

impl Failure {
    /// Name and description of responses that no request waits for. They are no failure of a
    /// request.
    pub const UNSOLICITED: (&str, &str) =
        ("unsolicited", "response without a request, or a second response to one");

    /// Name and description of responses to requests that had timed out, which have failed before.
    pub const LATE: (&str, &str) =
        ("late", "response to a request that had timed out; not a failure of its own");

    /// Returns what it means, in a sentence without its end.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Connect => "no connection to the server could be opened",
            Self::Closed => "the server closed the connection before it answered",
            Self::Timeout => "no answer within the response timeout or before the end of the run",
            Self::Garbage => "the answer is not a valid message of HTTP, WebSocket or the protocol",
            Self::Wrong => "the answer is valid, but another one than expected",
            Self::Http429 => {
                "HTTP status 429: too many requests; Retry-After has the seconds to wait"
            }
            Self::Http4xx => "HTTP status 4xx, or another unexpected one: the request was rejected",
            Self::Http5xx => "HTTP status 5xx: the server failed",
            Self::Rpc => "error response without a kind of its own",
            Self::RpcRetryAfter => {
                "JSON-RPC error with data.retryAfterMs: too many requests, or an overloaded server"
            }
            Self::InputRequired => "the result requires input: add [answers] to a plan with users",
            Self::Tool => "tool result with isError",
            Self::Unsent => "not sent, because every connection was busy or lost",
            Self::Stream => "a chunk is missing, doubled or behind the end, or eos is missing",
            Self::Parity(code) => parity_description(code),
        }
    }
}

const fn parity_description(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::VersionUnsupported => "the version of the dialect is unsupported",
        ErrorCode::FeatureNotAvailable => "the method or capability is not negotiated",
        ErrorCode::Unauthorized => "no valid token",
        ErrorCode::Forbidden => "the token does not allow the request",
        ErrorCode::RateLimited => {
            "too many requests, in flight or in a time; retryAfter has the seconds"
        }
        ErrorCode::PayloadTooLarge => "the request is longer than maxPayloadBytes",
        ErrorCode::AlreadyProcessed => "the idempotency key was used",
        ErrorCode::Internal => "the server failed, or the request is invalid",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Counts of results of requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outcomes {
    /// Successful requests.
    pub answered: u64,
    /// Responses without a request, or second responses. No request failed by them, so
    /// they count separately; a run with any is not clean.
    pub unsolicited: u64,
    /// Responses to requests that had timed out, in the measured time.
    pub late: u64,
    /// Notifications of the server after the warm-up.
    pub notifications: u64,
    /// Responses that arrived as SSE streams after the warm-up.
    pub streamed: u64,
    /// Chunks of streams that arrived in the measured time.
    pub chunks: u64,
    /// Requests that waited for a connection when the last one became due.
    pub waiting: u64,
    /// Requests of a run that was stopped whose responses were not waited for.
    pub abandoned: u64,
    /// Successful requests of the warm-up whose responses arrived after it.
    pub earlier_answered: u64,
    failures: [u64; Failure::ALL.len()],
}

impl Outcomes {
    /// Counts a failed request.
    pub const fn record_failure(&mut self, failure: Failure) {
        self.record_failures(failure, 1);
    }

    /// Counts failed requests.
    pub const fn record_failures(&mut self, failure: Failure, count: u64) {
        self.failures[failure.index()] += count;
    }

    /// Returns the number of failures of this kind.
    pub const fn failed(&self, failure: Failure) -> u64 {
        self.failures[failure.index()]
    }

    /// Returns the number of all failures.
    pub fn failures(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Returns the number of completed requests.
    pub fn requests(&self) -> u64 {
        self.answered + self.failures()
    }

    /// Returns the fraction of completed requests that failed, from 0 to 1; `None` if there were
    /// none.
    #[expect(clippy::cast_precision_loss, reason = "displayed ratio")]
    pub fn failure_ratio(&self) -> Option<f64> {
        let requests = self.requests();
        (requests > 0).then(|| self.failures() as f64 / requests as f64)
    }

    /// Adds the counts of another load thread or second.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.unsolicited += other.unsolicited;
        self.late += other.late;
        self.notifications += other.notifications;
        self.streamed += other.streamed;
        self.chunks += other.chunks;
        self.waiting += other.waiting;
        self.abandoned += other.abandoned;
        self.earlier_answered += other.earlier_answered;
        for (all, some) in self.failures.iter_mut().zip(other.failures) {
            *all += some;
        }
    }
}

/// Results of the slow readers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SlowReaderOutcomes {
    /// Requests sent.
    pub sent: u64,
    /// Successful responses read.
    pub answered: u64,
    /// Failed responses read.
    pub failed: u64,
    /// Slow readers closed by the server.
    pub closed: u64,
}

impl SlowReaderOutcomes {
    /// Adds the counts of another load thread or second.
    pub const fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.failed += other.failed;
        self.closed += other.closed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_distinct_counts_and_names() {
        let mut outcomes = Outcomes::default();
        for (count, failure) in (1..).zip(Failure::ALL) {
            for _ in 0..count {
                outcomes.record_failure(failure);
            }
        }
        for (count, failure) in (1..).zip(Failure::ALL) {
            assert_eq!(outcomes.failed(failure), count);
        }
        let mut names: Vec<&str> = Failure::ALL.iter().map(|failure| failure.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Failure::ALL.len());
    }

    #[test]
    fn failure_ratio_needs_a_request() {
        assert_eq!(Outcomes::default().failure_ratio(), None);
        let mut outcomes = Outcomes { answered: 3, ..Outcomes::default() };
        outcomes.record_failure(Failure::Rpc);
        assert_eq!(outcomes.failure_ratio(), Some(0.25));
    }

    #[test]
    fn outcomes_of_threads_add_up() {
        let mut one = Outcomes { answered: 1, unsolicited: 2, ..Outcomes::default() };
        let mut other = Outcomes { answered: 10, ..Outcomes::default() };
        other.record_failure(Failure::Timeout);
        one.record_failure(Failure::Timeout);
        one.add(&other);
        assert_eq!((one.answered, one.unsolicited, one.failed(Failure::Timeout)), (11, 2, 2));
        assert_eq!(one.requests(), 13);
    }
}
