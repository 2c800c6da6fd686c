//! What became of requests: answered well, or not, and how not.
//!
//! What it keeps true: every request that was due is counted exactly once; nothing that went wrong
//! is counted as an answer, however well it looks (an error inside a 200 is an error).

use std::fmt;

/// How a request can fail.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Failure {
    /// No connection came about, or none was left to send on.
    Connect,
    /// The connection ended before the answer.
    Closed,
    /// No answer came in time.
    Timeout,
    /// What came is no message of the protocol.
    Garbage,
    /// The answer is well formed and not the one to this request.
    Wrong,
    /// A status of HTTP that refuses the request for its client's sake (4xx), or an unexpected one.
    HttpRefused,
    /// A status of HTTP that tells of a failure of the server (5xx).
    HttpFailed,
    /// An error of JSON-RPC.
    Rpc,
    /// The tool says that it failed (`isError`).
    Tool,
    /// The generator itself could not send it: the connections were all busy beyond their bound.
    Unsent,
}

impl Failure {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 10] = [
        Self::Connect,
        Self::Closed,
        Self::Timeout,
        Self::Garbage,
        Self::Wrong,
        Self::HttpRefused,
        Self::HttpFailed,
        Self::Rpc,
        Self::Tool,
        Self::Unsent,
    ];

    /// The word for it in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Garbage => "garbage",
            Self::Wrong => "wrong",
            Self::HttpRefused => "http_4xx",
            Self::HttpFailed => "http_5xx",
            Self::Rpc => "rpc_error",
            Self::Tool => "tool_error",
            Self::Unsent => "unsent",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Counts of what became of requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outcomes {
    /// Answered well.
    pub answered: u64,
    /// Answers that nobody had asked for, or that came a second time. No request failed by them, so
    /// they are counted apart; a run that has any is not clean.
    pub unasked: u64,
    /// What the server told without being asked: progress, messages, changes. The warm-up counts.
    pub notices: u64,
    /// Answers that came as streams of events. The warm-up counts.
    pub streamed: u64,
    failures: [u64; Failure::ALL.len()],
}

impl Outcomes {
    /// Counts a failure.
    pub const fn fail(&mut self, failure: Failure) {
        self.failures[failure as usize] += 1;
    }

    /// How often this went wrong.
    pub const fn failed(&self, failure: Failure) -> u64 {
        self.failures[failure as usize]
    }

    /// How often anything went wrong.
    pub fn failures(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Requests of which the end is known.
    pub fn requests(&self) -> u64 {
        self.answered + self.failures()
    }

    /// The part of all requests that failed, from zero to one; one where none was answered and
    /// nothing else is known either.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn failure_ratio(&self) -> f64 {
        match self.requests() {
            0 => 1.0,
            requests => self.failures() as f64 / requests as f64,
        }
    }

    /// Takes in what another worker, or another second, has counted.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.unasked += other.unasked;
        self.notices += other.notices;
        self.streamed += other.streamed;
        for (all, some) in self.failures.iter_mut().zip(other.failures) {
            *all += some;
        }
    }
}

/// What became of the connections that read slowly.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SlowOutcomes {
    /// Requests that they sent.
    pub asked: u64,
    /// Answers that they have read, good ones.
    pub answered: u64,
    /// Answers that they have read, others.
    pub failed: u64,
    /// How often the server closed one of them.
    pub closed: u64,
}

impl SlowOutcomes {
    /// Takes in what another worker, or another second, has counted.
    pub const fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.failed += other.failed;
        self.closed += other.closed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_place_and_a_name_of_its_own() {
        let mut outcomes = Outcomes::default();
        for (count, failure) in (1..).zip(Failure::ALL) {
            for _ in 0..count {
                outcomes.fail(failure);
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
    fn a_run_without_a_single_answer_does_not_look_good() {
        assert!((Outcomes::default().failure_ratio() - 1.0).abs() < f64::EPSILON);
        let mut outcomes = Outcomes { answered: 3, ..Outcomes::default() };
        outcomes.fail(Failure::Rpc);
        assert!((outcomes.failure_ratio() - 0.25).abs() < f64::EPSILON);
    }

    #[test]
    fn what_workers_have_counted_adds_up() {
        let mut one = Outcomes { answered: 1, unasked: 2, ..Outcomes::default() };
        let mut other = Outcomes { answered: 10, ..Outcomes::default() };
        other.fail(Failure::Timeout);
        one.fail(Failure::Timeout);
        one.add(&other);
        assert_eq!((one.answered, one.unasked, one.failed(Failure::Timeout)), (11, 2, 2));
        assert_eq!(one.requests(), 13);
    }
}
