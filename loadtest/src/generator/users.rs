//! Users of a load thread: who is due when.
//!
//! The user of a connection has its index, which is its place. Users whose steps have pauses cost
//! one entry in a heap each, as do those of a scenario whose number changes; users that wait for an
//! answer cost nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use corelane_base::time::Instant;

use super::period::PeriodRecorder;
use super::run_config::RunConfig;
use super::user_arrivals::{Arrival, ArrivalCounts, ArrivalShare, ArrivalTimes, UserArrivals};
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
    /// When users come and leave because their number changes.
    changes: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Users that arrive at a rate, by scenario.
    arrivals: Vec<Option<UserArrivals>>,
    share: Share,
    /// Begin of the run.
    begin: Instant,
    /// Users that have come and not left.
    active: u64,
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

/// Steps that are due and not sent when no more are sent.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsentSteps {
    /// How many.
    pub(super) count: u64,
    /// Arrivals among them that were due and not processed.
    pub(super) unseen: Vec<Instant>,
}

/// Times of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserTimes {
    pub(super) begin: Instant,
    pub(super) end: Instant,
    /// End of the warm-up.
    pub(super) measured_from: Instant,
}

/// What is due for a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DueUser {
    /// A step, since this time.
    Step { index: usize, since: Instant },
    /// The cancellation of its request.
    Cancellation { index: usize },
    /// A user has arrived at this time; without an index it waits for a place.
    Arrival { index: Option<usize>, since: Instant },
    /// Its end, because the number of users falls.
    End { index: usize },
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
        Some(Self {
            users,
            timers: BinaryHeap::new(),
            changes: BinaryHeap::new(),
            arrivals: config.scenarios.iter().map(|_| None).collect(),
            config,
            share,
            begin: Instant::ORIGIN,
            active: 0,
            tokens,
            seed,
        })
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

    /// Plans when users come.
    pub(super) fn start(&mut self, times: UserTimes) {
        let UserTimes { begin, end, measured_from } = times;
        self.begin = begin;
        let config = Arc::clone(&self.config);
        let mut first = 0;
        for (scenario, kind) in config.scenarios.iter().enumerate() {
            let places = self.users.iter().enumerate();
            let places = places.filter(|(_, user)| user.scenario() == scenario);
            let places: VecDeque<u32> =
                places.map_while(|(index, _)| u32::try_from(index).ok()).collect();
            if let Some(profile) = kind.arrivals.clone() {
                let share = ArrivalShare { first, places: kind.users, share: self.share };
                let (pattern, seed) = (config.pattern, self.seed.wrapping_add(first as u64));
                let times = ArrivalTimes { profile, pattern, seed, begin, end, measured_from };
                self.arrivals[scenario] = Some(UserArrivals::new(times, share, places));
            } else {
                for index in places {
                    self.users[index as usize].set_ending(true);
                    self.plan_change(index as usize, begin);
                }
            }
            first += kind.users;
        }
    }

    /// Plans when a user comes or leaves next, after a change at `now`.
    fn plan_change(&mut self, index: usize, now: Instant) {
        let number = index * self.share.threads.max(1) as usize + self.share.thread as usize;
        let Some((scenario, place)) = self.config.scenario_of(number) else { return };
        let (levels, is_there) =
            (&self.config.scenarios[scenario].levels, !self.users[index].is_ending());
        if let Some(at) = levels.next_change(place, now.since(self.begin), is_there) {
            self.changes.push(timer(self.begin.after(at), index));
        }
    }

    /// Returns when the next user is due.
    #[inline]
    pub(super) fn next_due_at(&mut self) -> Option<Instant> {
        let heaps = [self.timers.peek(), self.changes.peek()].into_iter().flatten();
        let arrivals = self.arrivals.iter_mut().flatten().filter_map(UserArrivals::next_at);
        heaps.map(|Reverse((at, _))| *at).chain(arrivals).min()
    }

    /// Lets the next user come or leave whose time it is, because the number of users changes.
    fn take_change(&mut self, now: Instant) -> Option<DueUser> {
        while let Some(&Reverse((at, index))) = self.changes.peek()
            && at <= now
        {
            self.changes.pop();
            let index = index as usize;
            let user = &mut self.users[index];
            let comes = user.is_ending();
            user.set_ending(!comes);
            self.plan_change(index, at);
            if !comes {
                return Some(DueUser::End { index });
            }
            // One that has not left yet goes on.
            if self.users[index].is_away() {
                self.come(index, at);
                return Some(DueUser::Step { index, since: at });
            }
        }
        None
    }

    /// Lets the next user arrive whose time it is.
    fn take_arrival(&mut self, now: Instant) -> Option<DueUser> {
        let mut arrivals = self.arrivals.iter_mut().flatten();
        let Arrival { at, place } = arrivals.find_map(|arrivals| arrivals.take_due(now))?;
        if let Some(index) = place {
            self.come(index, at);
        }
        Some(DueUser::Arrival { index: place, since: at })
    }

    /// Lets the user of a place come at `at`.
    fn come(&mut self, index: usize, at: Instant) {
        self.users[index].come(at);
        self.active += 1;
    }

    /// Lets a user without a request in flight leave.
    pub(super) fn leave(&mut self, index: usize, metrics: &mut UserMetrics) {
        let Some(user) = self.users.get_mut(index) else { return };
        self.active -= u64::from(user.is_active());
        metrics.left += u64::from(user.is_active());
        user.leave();
    }

    /// Replaces the user of a closed connection that has left. Returns whether its connection stays
    /// closed until the next one comes.
    pub(super) fn replace(&mut self, index: usize) -> bool {
        let (total, seed) = (self.config.total(), self.seed);
        let Some((user, kind)) = self.user_mut(index) else { return false };
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        let number = user.values().number().wrapping_add(total);
        user.replace(kind, number, seed);
        self.authorize(index);
        self.users[index].is_away()
    }

    /// Returns the number of users that have come and not left.
    pub(super) const fn active(&self) -> u64 {
        self.active
    }

    /// Returns the arrivals so far, if users arrive at a rate.
    pub(super) fn arrival_counts(&self) -> Option<ArrivalCounts> {
        let counts = self.arrivals.iter().flatten().map(UserArrivals::counts);
        counts.reduce(|all, some| ArrivalCounts {
            arrived: all.arrived + some.arrived,
            placed: all.placed + some.placed,
        })
    }

    /// Returns the next user that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<DueUser> {
        if let Some(due) = self.take_change(now).or_else(|| self.take_arrival(now)) {
            return Some(due);
        }
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
        let Some(user) = self.users.get_mut(index) else { return false };
        let kind = &self.config.scenarios[user.scenario()];
        let was_active = user.is_active();
        let mut action = NextAction::Stop;
        if !user.is_joining() {
            action = user.advance(kind, now, metrics);
        } else if let Some(arrivals) = &mut self.arrivals[user.scenario()] {
            match arrivals.give_place(index, now) {
                Some(at) => user.come(at),
                None => user.set_away(),
            }
        } else {
            action = user.join(kind, now);
        }
        if user.is_ending() && user.is_active() {
            metrics.left += 1;
            user.leave();
            action = NextAction::Leave;
        }
        self.active = self.active + u64::from(user.is_active()) - u64::from(was_active);
        match action {
            NextAction::Wait(at) => {
                self.timers.push(timer(at, index));
                false
            }
            NextAction::Leave => true,
            NextAction::Stop => false,
        }
    }

    /// Ends the arrivals and changes at `now`; returns the measured steps that are due and not
    /// sent, those of users that arrived and have no place included.
    pub(super) fn stop(&mut self, now: Instant, measured_from: Instant) -> UnsentSteps {
        self.changes.clear();
        let due = self.users.iter().filter_map(User::due_since);
        let count = due.filter(|since| *since >= measured_from).count() as u64;
        let mut unsent = UnsentSteps { count, unseen: Vec::new() };
        for arrivals in self.arrivals.iter_mut().flatten() {
            let (waiting, unseen) = arrivals.stop(now);
            unsent.count += waiting + unseen.len() as u64;
            unsent.unseen.extend(unseen);
        }
        unsent
    }
}

/// Returns an entry of the heap.
fn timer(at: Instant, index: usize) -> Reverse<(Instant, u32)> {
    Reverse((at, u32::try_from(index).unwrap_or(u32::MAX)))
}
