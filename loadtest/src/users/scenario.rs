//! What users do: the compiled form of a scenario.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::levels::UserLevels;
use super::pointer::ResultPointer;
use super::think_time::ThinkTime;
use crate::mcp::{Secret, UserData, UserValues};
use crate::schedule::{ArrivalPattern, RateProfile};
use crate::sign_in::SignInConfig;

/// A value that is taken from a result.
#[derive(Clone, Debug)]
pub struct Take {
    /// Slot of the value.
    pub slot: usize,
    /// Where it is in the result.
    pub pointer: ResultPointer,
    /// Its place among the values that the steps of the plan take; `None` for a condition.
    pub number: Option<usize>,
}

/// A request with the pause before it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index of the request template.
    pub call: u16,
    /// Pause before the request, from the answer to the one before it.
    pub think: Pause,
    /// Values taken from its result.
    pub takes: Vec<Take>,
    /// Share of the requests that the user cancels, from 0 to 1, and after which time.
    pub cancel: Option<Cancel>,
}

/// Pause before a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pause {
    /// Drawn from a distribution.
    Drawn(ThinkTime),
    /// A taken value in milliseconds, or one second.
    Taken {
        /// Slot of the value.
        slot: usize,
    },
}

/// Cancellation of a share of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cancel {
    /// Share of the requests, from 0 to 1.
    pub share: f64,
    /// Time from the send to the cancellation.
    pub after: Duration,
}

/// Condition under which a loop goes on.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Slot of the value.
    pub slot: usize,
    /// What it has to be; without it anything but `false` and an empty text.
    pub equals: Option<Value>,
}

impl Condition {
    /// Returns whether a value, as JSON text, meets the condition.
    pub(super) fn is_met(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return false };
        match &self.equals {
            Some(expected) => serde_json::from_str::<Value>(value).is_ok_and(|it| it == *expected),
            None => !matches!(value, "false" | "\"\"" | "null"),
        }
    }
}

/// An instruction of a scenario.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// Sends a request.
    Send(Box<Step>),
    /// Goes on with a later instruction unless a value is as required.
    SkipUnless {
        /// The value.
        condition: Condition,
        /// Index of that instruction.
        to: usize,
    },
    /// Fails the iteration unless a value is as required.
    Require(Condition),
    /// Goes back to an earlier instruction.
    Repeat {
        /// Index of that instruction.
        from: usize,
        /// How many times the instructions are executed at most.
        times: u32,
        /// Under which condition; `None`: always.
        condition: Option<Condition>,
        /// Index of the counter of the loop.
        counter: usize,
    },
}

/// What the users of one kind do.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Most users at a time, over all load threads.
    pub users: usize,
    /// Number of users over time; ignored if they arrive at a rate.
    pub levels: UserLevels,
    /// Rate of users that arrive, if they do; each leaves after its iterations.
    pub arrivals: Option<RateProfile>,
    /// The instructions of one iteration.
    pub instructions: Vec<Instruction>,
    /// Number of counters of loops.
    pub counters: usize,
    /// Number of values taken from results.
    pub slots: usize,
    /// Iterations after which a user ends or leaves; `None` for no limit, or 1 if it leaves.
    pub repeat: Option<u32>,
    /// Whether a user leaves then: its session ends and a new user begins.
    pub leaves: bool,
    /// How often a request is sent again if the server asks for it.
    pub retries: u32,
    /// Column of the data with the bearer token of each user.
    pub bearer: Option<usize>,
    /// Indices of the credentials that users sign in with: one for each row of the data in turn, or
    /// one for all. Empty if users do not sign in.
    pub sign_in: Vec<usize>,
    /// Data of the users.
    pub data: Option<Arc<UserData>>,
    /// Whether each session has an event stream.
    pub event_stream: bool,
}

/// Users of a run.
#[derive(Clone, Debug, Default)]
pub struct UsersConfig {
    /// The scenarios; their users follow each other.
    pub scenarios: Vec<Scenario>,
    /// How users sign in, if some do.
    pub sign_in: Option<SignInConfig>,
    /// Distribution of arrivals around their rate.
    pub pattern: ArrivalPattern,
}

impl Scenario {
    /// Returns the index of the credentials of a user, if it signs in.
    pub fn credentials_of(&self, user: u32) -> Option<usize> {
        self.sign_in.get(user as usize % self.sign_in.len().max(1)).copied()
    }
}

impl UsersConfig {
    /// Returns the number of users at a time.
    pub fn total(&self) -> usize {
        self.scenarios.iter().map(|scenario| scenario.users).sum()
    }

    /// Returns whether sessions of users have event streams.
    pub fn has_event_streams(&self) -> bool {
        self.scenarios.iter().any(|scenario| scenario.event_stream)
    }

    /// Returns the number of event streams.
    pub fn event_streams(&self) -> usize {
        let all = self.scenarios.iter().filter(|scenario| scenario.event_stream);
        all.map(|scenario| scenario.users).sum()
    }

    /// Returns the value of `Authorization` of the first user, if it has one of its own.
    pub fn first_authorization(&self) -> Option<Arc<Secret>> {
        let scenario = self.scenarios.first()?;
        let values = UserValues::new(0, 0, scenario.data.clone()).with_bearer(scenario.bearer);
        values.shared_authorization().cloned()
    }

    /// Returns how the first user signs in, with the index of its credentials, if it does.
    pub fn first_sign_in(&self) -> Option<(&SignInConfig, usize)> {
        Some((self.sign_in.as_ref()?, self.scenarios.first()?.credentials_of(0)?))
    }

    /// Returns the indices of the credentials that users have, those of later users included.
    pub fn used_credentials(&self) -> BTreeSet<usize> {
        let (mut used, mut first) = (BTreeSet::new(), 0);
        for scenario in &self.scenarios {
            let next = first + scenario.users;
            if scenario.leaves || scenario.levels.falls() {
                used.extend(&scenario.sign_in);
            } else {
                let users = (first..next).map_while(|user| u32::try_from(user).ok());
                used.extend(users.filter_map(|user| scenario.credentials_of(user)));
            }
            first = next;
        }
        used
    }

    /// Returns the scenario of a user, from 0, with its index and the place of the user in it.
    pub fn scenario_of(&self, user: usize) -> Option<(usize, usize)> {
        let mut place = user;
        for (index, scenario) in self.scenarios.iter().enumerate() {
            if place < scenario.users {
                return Some((index, place));
            }
            place -= scenario.users;
        }
        None
    }
}
