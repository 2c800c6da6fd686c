//! Users of a load thread: who is due when.
//!
//! The user of a connection has its index. Users whose steps have pauses cost one entry in a heap
//! each; users that wait for an answer cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use corelane_base::time::Instant;

use super::period::PeriodRecorder;
use super::run_config::RunConfig;
use crate::mcp::{CompletedRequest, Secret, UserValues};
use crate::metrics::outcome::Failure;
use crate::schedule::Share;
use crate::sign_in::NewToken;
use crate::users::{NextAction, Scenario, StepOutcome, User, UserMetrics, UsersConfig};

/// Users of one load thread, by connection.
#[derive(Debug)]
pub(super) struct Users {
    config: Arc<UsersConfig>,
    users: Vec<User>,
    /// Ends of pauses and times of cancellations, with the user.
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Values of `Authorization` by credentials, if users sign in.
    tokens: Vec<Option<Arc<Secret>>>,
    seed: u64,
}

/// A step that is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueStep {
    /// Index of its template.
    pub(super) call: u16,
    /// Since when it is due.
    pub(super) since: Instant,
    /// Whether it was sent before.
    pub(super) is_sent_again: bool,
}

/// What is due for a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DueUser {
    /// A step, since this time.
    Step { index: usize, since: Instant },
    /// The cancellation of its request.
    Cancellation { index: usize },
}

impl Users {
    /// Creates the users of a load thread, none of which has begun. Returns `None` if the run has
    /// no users.
    pub(super) fn new(config: &RunConfig, share: Share) -> Option<Self> {
        let (config, seed) = (Arc::clone(config.users.as_ref()?), config.seed);
        let threads = share.threads.max(1) as usize;
        let user = |index: usize| {
            let number = index * threads + share.thread as usize;
            let (place, _) = config.scenario_of(number)?;
            let scenario = u16::try_from(place).unwrap_or(u16::MAX);
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            Some(User::new(scenario, &config.scenarios[place], number, seed))
        };
        let users = (0..share.part(config.total())).map_while(user).collect();
        let credentials = config.sign_in.as_ref().map_or(0, |it| it.credentials.len());
        let tokens = vec![None; credentials];
        Some(Self { users, config, timers: BinaryHeap::new(), tokens, seed })
    }

    /// Replaces the token of all users with these credentials.
    pub(super) fn set_token(&mut self, token: NewToken) {
        let NewToken { credentials, authorization } = token;
        for user in &mut self.users {
            let kind = self.config.scenarios.get(user.scenario());
            let own = kind.and_then(|kind| kind.credentials_of(user.values().number()));
            if own == Some(credentials) {
                user.set_authorization(Arc::clone(&authorization));
            }
        }
        if let Some(token) = self.tokens.get_mut(credentials) {
            *token = Some(authorization);
        }
    }

    /// Gives a new user the token of its credentials.
    fn authorize(&mut self, index: usize) {
        let Some(user) = self.users.get_mut(index) else { return };
        let kind = self.config.scenarios.get(user.scenario());
        let credentials = kind.and_then(|kind| kind.credentials_of(user.values().number()));
        if let Some(Some(token)) = credentials.and_then(|it| self.tokens.get(it)) {
            user.set_authorization(Arc::clone(token));
        }
    }

    /// Begins the run at `begin`; the users of each scenario begin within its ramp.
    pub(super) fn start(&mut self, begin: Instant) {
        for (index, user) in self.users.iter_mut().enumerate() {
            let number = user.values().number() as usize;
            let Some((place, offset)) = self.config.scenario_of(number) else { continue };
            let kind = &self.config.scenarios[place];
            let at = begin.after(kind.ramp.mul_f64(ratio(offset, kind.users)));
            user.begin(at);
            self.timers.push(timer(at, index));
        }
    }

    /// Returns when the next user is due.
    #[inline]
    pub(super) fn next_due_at(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the next user that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<DueUser> {
        while let Some(&Reverse((at, index))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let index = index as usize;
            let user = &mut self.users[index];
            if user.end_pause(at) {
                return Some(DueUser::Step { index, since: at });
            }
            if user.is_cancelled_at(at) {
                return Some(DueUser::Cancellation { index });
            }
        }
        None
    }

    /// Returns the user of a connection with its scenario, if it has begun.
    #[inline]
    pub(super) fn user_mut(&mut self, index: usize) -> Option<(&mut User, &Scenario)> {
        let user = self.users.get_mut(index)?;
        let kind = self.config.scenarios.get(user.scenario())?;
        Some((user, kind))
    }

    /// Returns the values of a user's placeholders.
    #[inline]
    pub(super) fn values(&self, index: usize) -> Option<&UserValues> {
        self.users.get(index).map(User::values)
    }

    /// Marks the step that is due as sent at `now`; returns it.
    pub(super) fn send_step(&mut self, index: usize, now: Instant) -> Option<DueStep> {
        let (user, kind) = self.user_mut(index)?;
        let (step, since) = user.due_step(kind)?;
        let (call, is_sent_again) = (step.call, user.is_sent_again());
        if let Some(at) = user.mark_sent(step, since, now) {
            self.timers.push(timer(at, index));
        }
        Some(DueStep { call, since, is_sent_again })
    }

    /// Records the end of the request of a user, unless it is sent again.
    pub(super) fn complete(
        &mut self,
        index: usize,
        completed: CompletedRequest,
        now: Instant,
        recorder: &mut PeriodRecorder,
    ) {
        let Some((user, kind)) = self.user_mut(index) else { return };
        if let Some(failure) = completed.failure {
            if user.takes_retry(kind, failure) {
                let is_measured = completed.intended >= recorder.measured_from;
                return recorder.period.users.retried += u64::from(is_measured);
            }
            user.set_outcome(StepOutcome::Failed);
        } else {
            user.set_outcome(StepOutcome::Answered);
        }
        recorder.record_completed(completed, now);
    }

    /// Records that the result of a user's request requires input, with which it is sent again.
    pub(super) fn require_input(
        &mut self,
        index: usize,
        members: String,
        now: Instant,
        recorder: &mut PeriodRecorder,
    ) {
        let Some((user, kind)) = self.user_mut(index) else { return };
        recorder.period.users.inputs += u64::from(now >= recorder.measured_from);
        if !user.require_input(members)
            && let Some(request) = user.failed_request(kind, Failure::InputRequired)
        {
            recorder.record_completed(request, now);
        }
    }

    /// Lets a user go on after its request ended, or after its connection was opened for the next
    /// user. Returns whether it leaves.
    pub(super) fn advance(
        &mut self,
        index: usize,
        now: Instant,
        metrics: &mut UserMetrics,
    ) -> bool {
        let (total, seed) = (self.config.total(), self.seed);
        let Some((user, kind)) = self.user_mut(index) else { return false };
        let action = if user.is_leaving() {
            let total = u32::try_from(total).unwrap_or(u32::MAX);
            let number = user.values().number().wrapping_add(total);
            let action = user.replace(kind, number, seed, now);
            self.authorize(index);
            action
        } else {
            user.advance(kind, now, metrics)
        };
        match action {
            NextAction::Wait(at) => {
                self.timers.push(timer(at, index));
                false
            }
            NextAction::Leave => true,
            NextAction::Stop => false,
        }
    }

    /// Returns how many measured steps are due and not sent.
    pub(super) fn unsent(&self, measured_from: Instant) -> u64 {
        let due = self.users.iter().filter_map(User::due_since);
        due.filter(|since| *since >= measured_from).count() as u64
    }
}

/// Returns an entry of the heap.
fn timer(at: Instant, index: usize) -> Reverse<(Instant, u32)> {
    Reverse((at, u32::try_from(index).unwrap_or(u32::MAX)))
}

/// Returns `part / whole`.
#[expect(clippy::cast_precision_loss, reason = "counts of users")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
