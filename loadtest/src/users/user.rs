//! One virtual user.

use std::sync::Arc;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use serde_json::Value;

use super::metrics::UserMetrics;
use super::scenario::{Cancel, Instruction, Pause, Scenario, Step};
use super::think_time::fraction;
use crate::mcp::{CompletedRequest, Secret, UserValues};
use crate::metrics::outcome::Failure;

/// Pause after a failed iteration or before a retry, if the server names none.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How often a request is sent again with input at most.
const ROUNDS_MAX: u32 = 10;

/// What follows in an iteration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reached {
    /// A step.
    Step,
    /// The end.
    End,
    /// A requirement that is not met.
    Failure,
}

/// What a user waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum UserState {
    /// The pause before a step.
    Thinking { until: Instant },
    /// The connection, since the step was due.
    Due { since: Instant },
    /// The answer.
    InFlight { intended: Instant, cancel_at: Option<Instant>, outcome: Option<StepOutcome> },
    /// The end of its connection.
    Leaving,
    /// Its connection, over which it begins.
    Joining,
    /// Nothing: it has not come, or has completed its iterations.
    Away,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepOutcome {
    /// With the expected answer.
    Answered,
    /// With a failure.
    Failed,
    /// The server asked to send the request again; after this time if it said so.
    Retry(Option<Duration>),
    /// The server requires input, with which it is sent again.
    InputRequired,
    /// The user cancelled it.
    Cancelled,
}

/// What a user does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextAction {
    /// It waits until a time.
    Wait(Instant),
    /// Its session ends, and a new user begins.
    Leave,
    /// Nothing.
    Stop,
}

/// State of one user. Its connection has the same index.
#[derive(Clone, Debug)]
pub struct User {
    /// Index of its scenario.
    scenario: u16,
    /// Index of the current instruction.
    position: u16,
    state: UserState,
    values: UserValues,
    random: Random,
    /// How often each loop was executed.
    counters: Box<[u32]>,
    /// How often the current request was sent again.
    attempts: u32,
    /// How often the current request was sent again with input.
    rounds: u32,
    /// When the current request was due at first.
    due_first: Option<Instant>,
    /// When the iteration began.
    began: Instant,
    /// Whether it leaves after its request in flight.
    is_ending: bool,
}

impl User {
    /// Creates a user that has not begun.
    pub fn new(scenario: u16, kind: &Scenario, number: u32, seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ (u64::from(number) << 32));
        let random = Random::seeded(random.next_u64());
        Self {
            scenario,
            position: 0,
            state: UserState::Away,
            values: UserValues::new(number, kind.slots, kind.data.clone()).with_bearer(kind.bearer),
            random,
            counters: vec![0; kind.counters].into(),
            attempts: 0,
            rounds: 0,
            due_first: None,
            began: Instant::ORIGIN,
            is_ending: false,
        }
    }

    /// Comes at `at`, when its first step is due.
    pub fn come(&mut self, at: Instant) {
        self.began = at;
        self.values.begin_step(self.random.next_u64());
        self.state = UserState::Due { since: at };
    }

    /// Sets whether it leaves after its request in flight.
    pub const fn set_ending(&mut self, is_ending: bool) {
        self.is_ending = is_ending;
    }

    /// Returns whether it leaves after its request in flight.
    pub const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Waits until it comes.
    pub fn set_away(&mut self) {
        self.state = UserState::Away;
    }

    /// Returns whether it has come and not left.
    pub const fn is_active(&self) -> bool {
        matches!(
            self.state,
            UserState::Thinking { .. } | UserState::Due { .. } | UserState::InFlight { .. }
        )
    }

    /// Waits for the end of its connection.
    pub const fn leave(&mut self) {
        self.state = UserState::Leaving;
    }

    /// Returns the index of its scenario.
    pub fn scenario(&self) -> usize {
        usize::from(self.scenario)
    }

    /// Sets the value of `Authorization` of its next messages.
    pub fn set_authorization(&mut self, authorization: Arc<Secret>) {
        self.values.set_authorization(authorization);
    }

    /// Returns the values of its placeholders.
    pub const fn values(&self) -> &UserValues {
        &self.values
    }

    /// Returns since when a step waits for the connection.
    pub const fn due_since(&self) -> Option<Instant> {
        match self.state {
            UserState::Due { since } => Some(since),
            _ => None,
        }
    }

    /// Returns whether a request is in flight.
    pub const fn is_in_flight(&self) -> bool {
        matches!(self.state, UserState::InFlight { .. })
    }

    /// Returns whether its connection is being closed.
    pub const fn is_leaving(&self) -> bool {
        matches!(self.state, UserState::Leaving)
    }

    /// Returns whether it waits for its connection to begin.
    pub const fn is_joining(&self) -> bool {
        matches!(self.state, UserState::Joining)
    }

    /// Returns whether it is not there.
    pub const fn is_away(&self) -> bool {
        matches!(self.state, UserState::Away)
    }

    /// Ends the pause that lasts until `until`; returns whether it was that of the user.
    pub fn end_pause(&mut self, until: Instant) -> bool {
        let is_over = self.state == UserState::Thinking { until };
        if is_over {
            self.state = UserState::Due { since: until };
        }
        is_over
    }

    /// Returns whether the request in flight is to be cancelled at `at`, without an outcome so far.
    pub fn is_cancelled_at(&self, at: Instant) -> bool {
        matches!(
            self.state,
            UserState::InFlight { cancel_at: Some(cancel_at), outcome: None, .. } if cancel_at == at
        )
    }

    /// Returns the step that is due, and since when.
    pub fn due_step<'a>(&self, kind: &'a Scenario) -> Option<(&'a Step, Instant)> {
        let UserState::Due { since } = self.state else { return None };
        match kind.instructions.get(usize::from(self.position)) {
            Some(Instruction::Send(step)) => Some((step, self.due_first.unwrap_or(since))),
            _ => None,
        }
    }

    /// Marks the due step as sent at `now`. Returns when the user cancels it, if it does.
    pub fn mark_sent(&mut self, step: &Step, intended: Instant, now: Instant) -> Option<Instant> {
        let is_cancelled = |cancel: &Cancel| fraction(&mut self.random) < cancel.share;
        let cancel_at = step.cancel.filter(is_cancelled).map(|cancel| now.after(cancel.after));
        self.state = UserState::InFlight { intended, cancel_at, outcome: None };
        cancel_at
    }

    /// Returns whether a request with this failure is sent again, which counts as an attempt.
    pub fn takes_retry(&mut self, kind: &Scenario, failure: Failure) -> bool {
        let is_asked = matches!(failure, Failure::Http429 | Failure::RpcRetryAfter);
        let UserState::InFlight { intended, outcome, .. } = &mut self.state else { return false };
        if !is_asked || self.attempts >= kind.retries {
            return false;
        }
        self.attempts += 1;
        self.due_first = Some(*intended);
        *outcome = Some(StepOutcome::Retry(None));
        true
    }

    /// Sets the time after which the request is sent again, if the answer names it.
    pub fn set_retry_after(&mut self, answer: &[u8]) {
        if let UserState::InFlight { outcome: Some(StepOutcome::Retry(wait)), .. } = &mut self.state
        {
            *wait = retry_after(answer);
        }
    }

    /// Sets how the request in flight ended.
    pub fn set_outcome(&mut self, result: StepOutcome) {
        if let UserState::InFlight { outcome, .. } = &mut self.state {
            *outcome = Some(result);
        }
    }

    /// Becomes a new user in place of one that left, which waits for its connection, or is away if
    /// that one was to end.
    pub fn replace(&mut self, kind: &Scenario, number: u32, seed: u64) {
        let is_ending = self.is_ending;
        *self = Self::new(self.scenario, kind, number, seed);
        self.is_ending = is_ending;
        self.state = if is_ending { UserState::Away } else { UserState::Joining };
    }

    /// Begins over its connection at `now`, with the pause before the first step.
    pub fn join(&mut self, kind: &Scenario, now: Instant) -> NextAction {
        self.began = now;
        self.think(kind, now)
    }

    /// Sends the request in flight again, with these members of its params, after it ended; returns
    /// whether it is not too often, which is a failure.
    pub fn require_input(&mut self, members: String) -> bool {
        self.rounds += 1;
        let is_last = self.rounds > ROUNDS_MAX;
        self.values.set_input(members);
        self.set_outcome(if is_last { StepOutcome::Failed } else { StepOutcome::InputRequired });
        !is_last
    }

    /// Returns the request in flight as one that has failed in this way.
    pub fn failed_request(&self, kind: &Scenario, failure: Failure) -> Option<CompletedRequest> {
        let UserState::InFlight { intended, .. } = self.state else { return None };
        let Some(Instruction::Send(step)) = kind.instructions.get(usize::from(self.position))
        else {
            return None;
        };
        let failure = Some(failure);
        Some(CompletedRequest { call: step.call, intended, sent: intended, failure })
    }

    /// Returns whether the due step was sent before.
    pub const fn is_sent_again(&self) -> bool {
        self.due_first.is_some()
    }

    /// Takes values from the result of the request in flight, a JSON text.
    pub fn take_values(&mut self, kind: &Scenario, result: &str, metrics: &mut UserMetrics) {
        let Some(Instruction::Send(step)) = kind.instructions.get(usize::from(self.position))
        else {
            return;
        };
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        for take in &step.takes {
            let value = take.pointer.find(&result, &mut self.random);
            if let Some(number) = take.number {
                metrics.record_take(number, value.is_some());
            }
            self.values.set_taken(take.slot, value);
        }
    }

    /// Goes on after the request in flight ended; without an outcome it failed with its connection.
    pub fn advance(
        &mut self,
        kind: &Scenario,
        now: Instant,
        metrics: &mut UserMetrics,
    ) -> NextAction {
        let UserState::InFlight { intended, outcome, .. } = self.state else {
            return NextAction::Stop;
        };
        match outcome.unwrap_or(StepOutcome::Failed) {
            StepOutcome::Retry(after) => {
                let until = now.after(after.unwrap_or(RETRY_AFTER));
                self.state = UserState::Thinking { until };
                return NextAction::Wait(until);
            }
            StepOutcome::InputRequired => {
                self.due_first = Some(intended);
                self.state = UserState::Thinking { until: now };
                return NextAction::Wait(now);
            }
            StepOutcome::Failed => {
                metrics.failed += 1;
                return self.end_iteration(kind, now, metrics);
            }
            StepOutcome::Answered | StepOutcome::Cancelled => {}
        }
        (self.attempts, self.rounds, self.due_first) = (0, 0, None);
        self.position += 1;
        match self.reach_step(kind) {
            Reached::Step => return self.think(kind, now),
            Reached::Failure => {
                metrics.failed += 1;
                return self.end_iteration(kind, now, metrics);
            }
            Reached::End => {}
        }
        metrics.record_iteration(now.since(self.began));
        self.end_iteration(kind, now, metrics)
    }

    /// Moves on to the next step of this iteration.
    fn reach_step(&mut self, kind: &Scenario) -> Reached {
        loop {
            match kind.instructions.get(usize::from(self.position)) {
                None => return Reached::End,
                Some(Instruction::Send(_)) => return Reached::Step,
                Some(Instruction::SkipUnless { condition, to }) => {
                    let next = usize::from(self.position) + 1;
                    let is_met = condition.is_met(self.values.taken(condition.slot));
                    let to = if is_met { next } else { *to };
                    self.position = u16::try_from(to).unwrap_or(u16::MAX);
                }
                Some(Instruction::Require(condition)) => {
                    if !condition.is_met(self.values.taken(condition.slot)) {
                        return Reached::Failure;
                    }
                    self.position += 1;
                }
                Some(Instruction::Repeat { from, times, condition, counter }) => {
                    let is_met = condition.as_ref().is_none_or(|condition| {
                        condition.is_met(self.values.taken(condition.slot))
                    });
                    let count = &mut self.counters[*counter];
                    *count += 1;
                    if is_met && *count < *times {
                        self.position = u16::try_from(*from).unwrap_or_default();
                    } else {
                        *count = 0;
                        self.position += 1;
                    }
                }
            }
        }
    }

    /// Begins the pause before the current step.
    fn think(&mut self, kind: &Scenario, now: Instant) -> NextAction {
        let pause = match kind.instructions.get(usize::from(self.position)) {
            Some(Instruction::Send(step)) => match step.think {
                Pause::Drawn(think) => think.draw(&mut self.random),
                Pause::Taken { slot } => self.taken_pause(slot),
            },
            _ => Duration::ZERO,
        };
        self.values.begin_step(self.random.next_u64());
        let until = now.after(pause);
        self.state = UserState::Thinking { until };
        NextAction::Wait(until)
    }

    /// Returns a pause that a server has named in milliseconds.
    fn taken_pause(&self, slot: usize) -> Duration {
        let milliseconds = self.values.taken(slot).and_then(|text| text.parse().ok());
        milliseconds.map_or(RETRY_AFTER, Duration::from_millis)
    }

    /// Begins the next iteration, leaves or stops.
    fn end_iteration(
        &mut self,
        kind: &Scenario,
        now: Instant,
        metrics: &mut UserMetrics,
    ) -> NextAction {
        (self.position, self.attempts, self.rounds, self.due_first) = (0, 0, 0, None);
        self.counters.fill(0);
        self.values.next_iteration();
        let is_last = match kind.repeat {
            Some(repeat) => self.values.iteration() >= repeat,
            None => kind.leaves,
        };
        match (is_last, kind.leaves) {
            (true, true) => {
                metrics.left += 1;
                self.leave();
                NextAction::Leave
            }
            (true, false) => {
                self.state = UserState::Away;
                NextAction::Stop
            }
            (false, _) => {
                self.began = now;
                self.think(kind, now)
            }
        }
    }
}

/// Returns the time that an answer names: `Retry-After` of an HTTP head in seconds (RFC 9110,
/// section 10.2.3), or `retryAfterMs` of an error.
fn retry_after(answer: &[u8]) -> Option<Duration> {
    let text = String::from_utf8_lossy(answer);
    let of_error = text.split_once("\"retryAfterMs\":").map(|(_, rest)| (rest, 1));
    let of_head = || {
        let is_field = |line: &&str| {
            line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("retry-after"))
        };
        Some((text.lines().find(is_field)?.split_once(':')?.1, 1_000))
    };
    let (rest, milliseconds) = of_error.or_else(of_head)?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    Some(Duration::from_millis(digits.parse::<u64>().ok()?.saturating_mul(milliseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Condition, ResultPointer, Take, ThinkTime, UserLevels};

    const SECOND: Duration = Duration::from_secs(1);

    fn step(takes: Vec<Take>, cancel: Option<Cancel>) -> Instruction {
        let think = Pause::Drawn(ThinkTime::Fixed(SECOND));
        Instruction::Send(Box::new(Step { call: 0, think, takes, cancel }))
    }

    fn scenario(instructions: Vec<Instruction>) -> Scenario {
        Scenario {
            users: 1,
            levels: UserLevels::new(1.0, Vec::new()),
            arrivals: None,
            instructions,
            counters: 1,
            slots: 1,
            repeat: None,
            leaves: false,
            retries: 1,
            bearer: None,
            sign_in: Vec::new(),
            data: None,
            event_stream: false,
        }
    }

    /// Executes the step that is due at `now` with this result or failure.
    fn execute(
        user: &mut User,
        kind: &Scenario,
        now: Instant,
        result: Result<&str, Failure>,
        metrics: &mut UserMetrics,
    ) -> NextAction {
        user.end_pause(now);
        let (step, since) = user.due_step(kind).unwrap();
        user.mark_sent(step, since, now);
        match result {
            Ok(result) => {
                user.take_values(kind, result, metrics);
                user.set_outcome(StepOutcome::Answered);
            }
            Err(failure) if user.takes_retry(kind, failure) => {
                user.set_retry_after(b"HTTP/1.1 429 No\r\nretry-after: 3\r\n\r\n");
            }
            Err(_) => user.set_outcome(StepOutcome::Failed),
        }
        user.advance(kind, now, metrics)
    }

    #[test]
    fn loop_ends_by_condition_or_bound() {
        let pointer = ResultPointer::parse("/next").unwrap();
        let condition = Some(Condition { slot: 0, equals: None });
        let repeat = Instruction::Repeat { from: 0, times: 4, condition, counter: 0 };
        let kind =
            scenario(vec![step(vec![Take { slot: 0, pointer, number: None }], None), repeat]);
        let mut user = User::new(0, &kind, 0, 1);
        let mut now = Instant::from_milliseconds(1);
        user.come(now);
        let mut metrics = UserMetrics::default();
        let mut iterations = Vec::new();
        // Ends by the condition after three, then by the bound after four.
        for (number, result) in [1, 1, 0, 1, 1, 1, 1].into_iter().enumerate() {
            let result = if result == 1 { r#"{"next":"a"}"# } else { r#"{"next":""}"# };
            let action = execute(&mut user, &kind, now, Ok(result), &mut metrics);
            now = now.after(SECOND);
            assert_eq!(action, NextAction::Wait(now));
            if user.values().iteration() as usize > iterations.len() {
                iterations.push(number);
            }
        }
        assert_eq!(iterations, [2, 6]);
        let recorded = metrics.iterations.unwrap();
        assert_eq!((recorded.len(), recorded.max() / 1_000_000_000), (2, 4));
    }

    #[test]
    fn retry_keeps_the_first_due_time() {
        let kind = scenario(vec![step(Vec::new(), None)]);
        let mut user = User::new(0, &kind, 0, 1);
        let begin = Instant::from_milliseconds(1);
        user.come(begin);
        let mut metrics = UserMetrics::default();
        let limited = Err(Failure::Http429);
        let later = begin.after(3 * SECOND);
        let action = execute(&mut user, &kind, begin, limited, &mut metrics);
        assert_eq!(action, NextAction::Wait(later));
        assert!(user.end_pause(later));
        assert_eq!(user.due_step(&kind).unwrap().1, begin);
        user.state = UserState::Thinking { until: later };
        // The second refusal is a failure.
        let action = execute(&mut user, &kind, later, limited, &mut metrics);
        assert_eq!((action, metrics.failed), (NextAction::Wait(later.after(SECOND)), 1));
    }

    #[test]
    fn share_of_requests_is_cancelled() {
        let cancel = Some(Cancel { share: 0.25, after: SECOND });
        let kind = scenario(vec![step(Vec::new(), cancel)]);
        let mut user = User::new(0, &kind, 0, 1);
        let (Instruction::Send(step), now) = (&kind.instructions[0], Instant::ORIGIN) else {
            unreachable!()
        };
        let cancelled = (0..10_000).filter(|_| user.mark_sent(step, now, now).is_some()).count();
        assert!((2_300..2_700).contains(&cancelled), "{cancelled}");
    }

    #[test]
    fn retry_time_is_read_from_error_or_head() {
        let seconds = |answer: &str| retry_after(answer.as_bytes()).map(|it| it.as_millis());
        assert_eq!(seconds("HTTP/1.1 429 X\r\nRetry-After: 2\r\n\r\n{}"), Some(2_000));
        assert_eq!(seconds(r#"{"error":{"data":{"retryAfterMs": 150}}}"#), Some(150));
        assert_eq!(seconds("HTTP/1.1 429 X\r\nRetry-After: Wed, 21 Oct\r\n\r\n"), None);
    }
}
