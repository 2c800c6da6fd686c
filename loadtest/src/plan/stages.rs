//! Stages of a scenario in a plan: how many users there are, or arrive, over the time of a run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::human_duration::HumanDuration;
use super::{PlanError, RATE_MAX};
use crate::schedule::{RateProfile, Segment};
use crate::users::{Stage, UserLevels};

/// Shortest stage.
const STAGE_MIN: Duration = Duration::from_millis(1);

/// A stage: the number of users, or the rate at which they arrive, changes linearly.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StagePlan {
    /// Users at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
    /// Users that arrive a second at its end, in a scenario with `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How long it lasts.
    pub over: HumanDuration,
}

/// The keys of a scenario that say how many users there are.
#[derive(Clone, Copy, Debug)]
pub struct LevelKeys<'a> {
    /// `users`.
    pub users: Option<usize>,
    /// `rate`.
    pub rate: Option<f64>,
    /// `ramp`.
    pub ramp: Option<HumanDuration>,
    /// `stages`.
    pub stages: Option<&'a [StagePlan]>,
}

impl LevelKeys<'_> {
    /// Returns whether its users arrive at a rate.
    pub fn has_arrivals(self) -> bool {
        self.rate.is_some()
    }

    /// Returns the duration of its stages.
    pub fn stages_span(self) -> Duration {
        let stages =
            self.stages.into_iter().flatten().map(|stage| stage.over.get()).sum::<Duration>();
        stages + self.ramp.map(HumanDuration::get).unwrap_or_default()
    }

    /// Returns the most users at a time.
    pub fn users_max(self) -> usize {
        let stages = self.stages.into_iter().flatten().filter_map(|stage| stage.users);
        let default = usize::from(self.stages.is_none() || self.has_arrivals());
        stages.fold(self.users.unwrap_or(default), usize::max)
    }

    /// Returns the number of users over time, of `users` at most.
    pub fn levels(self, users: usize) -> UserLevels {
        #[expect(clippy::cast_precision_loss, reason = "numbers of users")]
        let level = |own: usize| own as f64 * users as f64 / self.users_max().max(1) as f64;
        if let Some(over) = self.ramp.map(HumanDuration::get).filter(|over| *over >= STAGE_MIN) {
            return UserLevels::new(0.0, vec![Stage { to: level(self.users_max()), over }]);
        }
        let Some(stages) = self.stages else {
            return UserLevels::new(level(self.users_max()), Vec::new());
        };
        let stages = stages.iter();
        let stages = stages
            .filter_map(|stage| Some(Stage { to: level(stage.users?), over: stage.over.get() }));
        UserLevels::new(level(self.users.unwrap_or_default()), stages.collect())
    }

    /// Returns the rate at which users arrive in a run of `span`, if they do.
    pub fn arrivals(self, span: Duration) -> Option<RateProfile> {
        let rate = self.rate?;
        let ramp = self.ramp.map(HumanDuration::get).unwrap_or_default();
        let mut last = if ramp.is_zero() { rate } else { 0.0 };
        let segment = |(to_rate, span): (f64, Duration)| {
            let from_rate = std::mem::replace(&mut last, to_rate);
            Segment { span, from_rate, to_rate }
        };
        let stages = self.stages.into_iter().flatten();
        let stages = stages.filter_map(|stage| Some((stage.rate?, stage.over.get())));
        let mut segments: Vec<_> = [(rate, ramp)].into_iter().chain(stages).map(segment).collect();
        segments.push(Segment::constant(last, span));
        Some(RateProfile::new(segments))
    }

    /// Checks the keys that say how many users there are. `has_total`: whether the plan has a
    /// number of users.
    pub fn check(self, has_total: bool) -> Result<(), PlanError> {
        let why = match (self.rate, self.stages) {
            (_, Some(_)) if self.ramp.is_some() => {
                "ramp is the short form of one of the stages: remove one of both".into()
            }
            (_, Some([])) => {
                "stages = []: write one, such as { users = 100, over = \"1m\" }".into()
            }
            (Some(rate), _) if !is_rate(rate) => {
                format!("rate = {rate}: a rate is from 0 to {RATE_MAX} users a second")
            }
            (Some(rate), None) if rate <= 0.0 => "rate = 0: no user would arrive".into(),
            (Some(rate), _) if self.users.is_none() && !has_total => format!(
                "rate = {rate} needs users, the most at a time: the rate times the seconds that \
                 one takes, or more"
            ),
            (_, Some(stages)) => return self.check_stages(stages),
            (_, None) => return Ok(()),
        };
        Err(PlanError(why))
    }

    fn check_stages(self, stages: &[StagePlan]) -> Result<(), PlanError> {
        let (key, example) = if self.has_arrivals() { ("rate", "20") } else { ("users", "100") };
        for StagePlan { users, rate, over } in stages {
            let is_own = if self.has_arrivals() {
                users.is_none() && rate.is_some()
            } else {
                users.is_some() && rate.is_none()
            };
            let why = match rate {
                _ if !is_own && rate.is_some() && users.is_none() => {
                    "a stage with rate is one of users that arrive: write the rate at the \
                     beginning into the scenario, such as rate = 10"
                        .into()
                }
                _ if !is_own => format!(
                    "a stage of this scenario has {key} and over, such as {{ {key} = {example}, \
                     over = \"1m\" }}"
                ),
                Some(rate) if !is_rate(*rate) => {
                    format!("rate = {rate}: a rate is from 0 to {RATE_MAX} users a second")
                }
                _ if over.get() < STAGE_MIN => {
                    format!("over = \"{over}\": a stage lasts 1ms or longer")
                }
                _ => continue,
            };
            return Err(PlanError(format!("stages: {why}")));
        }
        let rates = stages.iter().filter_map(|stage| stage.rate);
        if self.rate.is_some_and(|rate| rates.fold(rate, f64::max) <= 0.0) {
            return Err(PlanError::new("stages: every rate is 0: no user would arrive"));
        }
        Ok(())
    }
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && (0.0..=RATE_MAX).contains(&rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The keys of a scenario.
    #[derive(Deserialize)]
    struct Keys {
        users: Option<usize>,
        rate: Option<f64>,
        ramp: Option<HumanDuration>,
        stages: Option<Vec<StagePlan>>,
    }

    impl Keys {
        fn read(text: &str) -> Self {
            toml::from_str(text).unwrap()
        }

        fn get(&self) -> LevelKeys<'_> {
            let &Self { users, rate, ramp, ref stages } = self;
            LevelKeys { users, rate, ramp, stages: stages.as_deref() }
        }
    }

    #[test]
    fn levels_of_stages_scale_with_users() {
        let keys = "users = 1\nstages = [{ users = 4, over = 2 }, { users = 0, over = \"4s\" }]";
        let keys = Keys::read(keys);
        let plan = keys.get();
        assert_eq!((plan.users_max(), plan.stages_span()), (4, SECOND * 6));
        let at = |users: usize, second: u32| plan.levels(users).at(SECOND * second);
        assert!((at(4, 1) - 2.5).abs() < 1e-9 && (at(8, 4) - 4.0).abs() < 1e-9);
        let ramp = Keys::read("users = 4\nramp = \"2s\"").get().levels(4);
        assert!((ramp.at(SECOND) - 2.0).abs() < 1e-9 && (ramp.at(SECOND * 3) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn arrivals_follow_ramp_or_stages() {
        let count = |keys: &str| Keys::read(keys).get().arrivals(SECOND).unwrap().requests();
        assert!((count("rate = 8") - 8.0).abs() < 1e-9);
        assert!((count("rate = 8\nramp = 2") - 16.0).abs() < 1e-9);
        let stages = "rate = 8\nstages = [{ rate = 0, over = 1 }, { rate = 2, over = 2 }]";
        assert!((count(stages) - 8.0).abs() < 1e-9);
    }
}
