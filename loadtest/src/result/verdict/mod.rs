//! Verdict on a run: whether it failed, can be judged, and kept its thresholds.
//!
//! A run fails, with or without thresholds, if nothing was answered, if too many due requests got
//! no good answer, if connections did not open or were lost for good, or if a program ended. The
//! server is saturated if the backlog grew over the measured window, by the rule of
//! [`crate::metrics::backlog`], or if requests could not be sent.
//!
//! Lateness of the load generator only lengthens response times, so that a limit that is kept is
//! kept. A late or CPU-bound generator, or other programs, invalidate a run only where they may
//! have caused a miss, or if the rate was not held.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::disturbance::Disturbance;
use super::run_status::RunStatus;
use super::threshold_checks::{latency_text, threshold_checks};
use super::{
    CallResult, ConnectionsResult, ListenResult, MemoryGrowth, Percentiles, ProcessCost, Totals,
    UsersResult,
};
use crate::figure::{self, duration, round_duration};
use crate::metrics::backlog::BacklogGrowth;
use crate::metrics::outcome::Failure;
use crate::plan::{Plan, Thresholds};

/// Share of the due requests that has to be sent in time, or the server is saturated.
const SENT_MIN: f64 = 0.99;
/// CPU usage of the load threads from which the generator counts as CPU-bound.
const CORES_MAX: f64 = 0.95;
/// CPU usage of the load threads from which more of them may help.
const CORES_BUSY: f64 = 0.5;
/// What a late generator means for a run that passes.
const KEPT: &str = ", which only lengthened response times";
/// Lag that never invalidates a run by default, in microseconds.
const LAG_US_MIN: f64 = 1_000.0;
/// Share of the response time that the lag may be by default.
const LAG_RATIO_MAX: f64 = 0.1;
/// Part of the measured time that the lag may be, or the rate was not held.
const LAG_PART_MAX: f64 = 0.1;

/// The verdict on a run.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Verdict {
    /// Reasons why the run cannot be judged; empty if it can.
    pub invalid: Vec<String>,
    /// Reasons why the run failed independent of thresholds.
    #[serde(default)]
    pub failed: Vec<String>,
    /// Reasons why the server is saturated: requests became due faster than they completed. Such a
    /// run measures nothing at its rate, but shows that the rate is above
    /// capacity.
    #[serde(default)]
    pub saturated: Vec<String>,
    /// Thresholds that were missed.
    pub missed_thresholds: Vec<String>,
    /// What a reader of the figures should know of a run that can be judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was measured in a run besides its totals.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunMeasurements<'a> {
    pub(super) response: &'a Percentiles,
    /// Results of each call, if there are several.
    pub(super) calls: &'a [CallResult],
    pub(super) memory_growth: Option<MemoryGrowth>,
    /// Lag of the load generator.
    pub(super) lag: &'a Percentiles,
    /// What used the machine besides.
    pub(super) disturbance: &'a Disturbance,
    pub(super) generator: &'a ProcessCost,
    /// Load threads.
    pub(super) threads: u32,
    /// Connections that are open at the end.
    pub(super) open_at_end: u64,
    /// Requests that waited for a connection at the end of the measured window.
    pub(super) waiting: u64,
    /// Growth of the backlog; `None` in a closed loop.
    pub(super) growth: Option<BacklogGrowth>,
    /// Results of users, if the plan has any.
    pub(super) users: Option<&'a UsersResult>,
}

impl Verdict {
    /// Returns whether the run measures the server at its rate: requests were sent in time and
    /// answered.
    pub const fn is_valid(&self) -> bool {
        !self.is_generator_limited() && self.failed.is_empty() && self.saturated.is_empty()
    }

    /// Returns whether the run cannot be judged.
    pub const fn is_generator_limited(&self) -> bool {
        !self.invalid.is_empty()
    }

    /// Returns whether the run is valid and kept all thresholds.
    pub const fn has_passed(&self) -> bool {
        self.is_valid() && self.missed_thresholds.is_empty()
    }

    /// Returns the status of a run with these thresholds.
    pub fn status(&self, thresholds: &Thresholds) -> RunStatus {
        if !self.failed.is_empty() {
            RunStatus::Failed
        } else if self.is_generator_limited() {
            RunStatus::Invalid
        } else if !self.saturated.is_empty() {
            RunStatus::Failed
        } else if !self.missed_thresholds.is_empty() {
            RunStatus::Missed
        } else if *thresholds == Thresholds::default() {
            RunStatus::Completed
        } else {
            RunStatus::Passed
        }
    }

    /// Returns all reasons why the run did not pass, each with its status; the first has the status
    /// of the run.
    pub fn reasons(&self) -> impl Iterator<Item = (RunStatus, &str)> {
        let all = [
            (RunStatus::Failed, &self.failed),
            (RunStatus::Invalid, &self.invalid),
            (RunStatus::Failed, &self.saturated),
            (RunStatus::Missed, &self.missed_thresholds),
        ];
        all.into_iter()
            .flat_map(|(status, whys)| whys.iter().map(move |why| (status, why.as_str())))
    }

    /// Returns the text of all reasons.
    pub fn reason_texts(&self) -> Vec<String> {
        self.reasons().map(|(_, why)| why.to_owned()).collect()
    }

    /// Checks that no program ended while its connection was open; `first` is how the first did.
    /// Programs are started again, so that the failed requests alone may be few.
    pub(super) fn check_programs(&mut self, ended: u64, first: Option<&str>) {
        if ended > 0 {
            let times = if ended == 1 { "once".into() } else { format!("{ended} times") };
            let first = first.map(|first| format!(", first: {first}")).unwrap_or_default();
            self.failed.insert(0, format!("the program ended {times} during the run{first}"));
        }
    }

    /// Has a run that was stopped, after this time with its warm-up, not be judged.
    pub(super) fn check_stopped(&mut self, plan: &Plan, after: Option<Duration>) {
        let Some(after) = after else { return };
        let seconds = |time: Duration| duration(time.as_secs_f64() * 1e6);
        let planned = match plan.requests {
            Some(requests) => format!("{requests} requests"),
            None => seconds(plan.profile().span()),
        };
        let stopped = format!(
            "stopped after {} of {planned}: the figures are those of this part",
            seconds(after)
        );
        self.invalid.insert(0, stopped);
    }

    /// Checks the connections that were replaced or idle.
    pub(super) fn check_reopened(
        &mut self,
        plan: &Plan,
        totals: &Totals,
        connections: &ConnectionsResult,
    ) {
        let total = plan.total_connections() as u64;
        let errors_max = plan.thresholds.errors_max();
        let unopened = connections.not_reopened;
        if plan.thresholds.errors.is_some() {
            if unopened > 0 {
                self.missed_thresholds
                    .push(format!("{unopened} replaced connections were not reopened"));
            }
        } else if ratio(unopened, total) > errors_max {
            self.failed.push(format!("{unopened} replaced connections were not reopened"));
        }
        let repeated = connections.repeated;
        if ratio(repeated, totals.due) > errors_max {
            // That is more than a keep-alive limit explains.
            self.failed.push(format!(
                "{repeated} of {} due requests were sent again, because the server closed their \
                 connections without an answer",
                totals.due
            ));
        }
        let lost = totals.lost;
        if totals.due == 0 && ratio(lost, total) > errors_max {
            self.failed.push(format!("{lost} of {total} idle connections were closed"));
        }
    }

    /// Evaluates the requests and the connections of a run.
    pub(super) fn evaluate(plan: &Plan, totals: &Totals, run: &RunMeasurements<'_>) -> Self {
        let &RunMeasurements { response, lag, open_at_end, .. } = run;
        let missed_thresholds = missed_thresholds(plan, totals, run);
        let mut verdict = Self { missed_thresholds, ..Self::default() };
        let lateness = Lateness::new(plan, response, lag);
        verdict.check_connections(plan, totals);
        verdict.check_end(plan, totals, open_at_end);
        verdict.check_answers(plan, totals, lateness.is_late);
        if !verdict.failed.is_empty() {
            // The lag of the generator does not explain the failures.
            return verdict;
        }
        if totals.due == 0 && (plan.closed || plan.profile().rate_max() > 0.0) {
            verdict.invalid.push(
                "no request was due while the run was measured: raise the rate, or measure for \
                 longer"
                    .into(),
            );
        }
        verdict.check_generator(plan, totals, run, &lateness);
        verdict
    }

    /// Checks that the server kept up. What the load generator or other programs may have caused
    /// invalidates the run; if they caused nothing, they are noted.
    fn check_generator(
        &mut self,
        plan: &Plan,
        totals: &Totals,
        run: &RunMeasurements<'_>,
        lateness: &Lateness,
    ) {
        let &RunMeasurements { generator, threads, disturbance, .. } = run;
        let is_open = !plan.closed || plan.has_arrivals();
        let is_busy = is_open && generator.cores >= CORES_MAX * f64::from(threads);
        let mut causes = Vec::new();
        if lateness.is_late {
            causes.push(lateness.text());
        }
        if is_busy {
            causes
                .push(format!("the load generator used {:.2} of {threads} cores", generator.cores));
        }
        if !causes.is_empty() || disturbance.slows_server {
            causes.extend(disturbance.causes.iter().cloned());
        }
        // A limit of the plan is one of the validity of the run.
        let is_accepted = !lateness.is_late || plan.lag_max.is_none();
        let is_held = is_accepted
            && lateness.p99_us.unwrap_or_default() <= LAG_PART_MAX * totals.duration_s * 1e6;
        self.check_sent(plan, totals, !causes.is_empty(), run);
        if causes.is_empty() {
            return;
        }
        if is_held && self.invalid.is_empty() && self.missed_thresholds.is_empty() {
            let kept = if plan.thresholds == Thresholds::default() { "" } else { KEPT };
            return self.notes.extend(causes.into_iter().map(|cause| format!("{cause}{kept}")));
        }
        let advice = if !disturbance.causes.is_empty() {
            "run it on a quieter machine, or with --cores of its own"
        } else if is_busy {
            "use more --threads, or lower the rate"
        } else if generator.cores >= CORES_BUSY * f64::from(threads) {
            "use more --threads or dedicated --cores, or accept it with --lag-max"
        } else {
            "use dedicated --cores, or accept it with --lag-max"
        };
        if let Some(last) = causes.last_mut() {
            last.push_str(": ");
            last.push_str(advice);
        }
        self.invalid.extend(causes);
    }

    fn check_connections(&mut self, plan: &Plan, totals: &Totals) {
        let (opened, total) = (totals.opened, plan.total_connections());
        let why = totals.last_error.as_deref();
        if opened == 0 {
            let otherwise = || format!("none of {total} connections opened");
            self.failed.push(why.map_or_else(otherwise, ToOwned::to_owned));
        } else if opened < total as u64 {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            self.failed.push(format!("only {opened} of {total} connections opened{why}"));
        }
    }

    /// Checks that the server did not go away: that most connections are open at the end, or in an
    /// open loop that requests did not stay unsent. In a closed loop, none is due without a
    /// connection; connections that were closed between requests are not lost, and open again
    /// unless there is an error.
    fn check_end(&mut self, plan: &Plan, totals: &Totals, open: u64) {
        let total = plan.connections_at_end() as u64;
        if open * 2 >= total {
            return;
        }
        let lost = "connections were lost and did not open again";
        let why = totals.last_error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let unsent = totals.failures.get(Failure::Unsent.name()).copied().unwrap_or_default();
        if ratio(unsent, totals.due) > plan.thresholds.errors_max() {
            self.failed.push(format!(
                "{unsent} of {} due requests were not sent, because {lost} ({open} of {total} \
                 at the end){why}",
                totals.due
            ));
        } else if plan.closed && (totals.lost > 0 || totals.last_error.is_some()) {
            self.failed.push(format!("{lost} ({open} of {total} at the end){why}"));
        }
    }

    /// Checks the share of the due requests without a good answer. Failures that a late generator
    /// can cause do not count against the server.
    fn check_answers(&mut self, plan: &Plan, totals: &Totals, is_late: bool) {
        let Totals { due, answered, failures, .. } = totals;
        if *due == 0 {
            return;
        }
        let kinds = failures.iter().map(|(kind, count)| format!("{kind} {count}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        if *answered == 0 {
            let kinds = if kinds.is_empty() { kinds } else { format!(": {kinds}") };
            self.failed.push(format!("none of {due} due requests got a good answer{kinds}"));
            return;
        }
        let is_certain = |kind: &str| {
            kind != Failure::Unsent.name() && (kind != Failure::Timeout.name() || !is_late)
        };
        let failed = failures.iter().filter(|(kind, _)| is_certain(kind)).map(|(_, count)| count);
        let failed: u64 = failed.sum();
        let limit = plan.thresholds.errors_max();
        if plan.thresholds.errors.is_none() && ratio(failed, *due) > limit {
            self.failed.push(format!(
                "{failed} of {due} due requests got no good answer, limit {} % (--errors-max): \
                 {kinds}",
                limit * 100.0
            ));
        }
    }

    /// Checks that requests completed as fast as they became due, and were sent.
    fn check_sent(
        &mut self,
        plan: &Plan,
        totals: &Totals,
        is_disturbed: bool,
        run: &RunMeasurements<'_>,
    ) {
        let sent = ratio(totals.sent, totals.due);
        let is_growing = run.growth.is_some_and(|growth| growth.is_saturation);
        if totals.due == 0 || (sent >= SENT_MIN && !is_growing) {
            return;
        }
        let only = if is_growing && plan.has_arrivals() {
            arrivals_text(totals, run.users)
        } else if is_growing {
            growth_text(totals)
        } else {
            format!("only {:.1} % of the due requests were sent", sent * 100.0)
        };
        if is_disturbed {
            self.invalid
                .push(format!("{only}, which the load generator or the machine may have caused"));
            return;
        }
        if let (1.., Some(error)) = (totals.lost, &totals.last_error) {
            let lost = totals.lost;
            self.failed.push(format!("{only}: {lost} connections were lost, {error}"));
            return;
        }
        let (change, waited) = if plan.has_arrivals() {
            ("lower the rate of users, or allow more users at a time", String::new())
        } else if run.waiting > 0 || !is_growing {
            let lost = match totals.lost {
                0 => String::new(),
                lost => format!(", {lost} were lost"),
            };
            let waited = format!(", but every connection was busy{lost}");
            ("lower the rate, or allow more connections or depth", waited)
        } else {
            ("lower the rate", String::new())
        };
        self.saturated.push(format!(
            "the server is saturated: {only}. The load generator was in time ({:.2} of {} cores \
             used){waited}: {change}",
            run.generator.cores, run.threads,
        ));
    }

    /// Checks the deliveries of the fan-out.
    pub(super) fn check_deliveries(&mut self, bounds: &Thresholds, listen: &ListenResult) {
        let ListenResult { missed, unexpected: stray, last, .. } = listen;
        let ratio = listen.missed_ratio();
        if let Some(bound) = bounds.last_delivery {
            // If a notification was missed or nothing was published, there is no last delivery.
            if ratio > 0.0 {
                self.missed_thresholds
                    .push(format!("last_delivery: {missed} missed, limit {bound}"));
            } else if last.max_us.is_some_and(|us| us > bound.get().as_secs_f64() * 1e6) {
                self.missed_thresholds.push(latency_text("last_delivery", last.max_us, bound));
            }
        }
        let Some(bound) = bounds.errors else {
            let bound = bounds.errors_max();
            if ratio > bound {
                self.failed.push(format!("missed deliveries {ratio:.4}, limit {bound}"));
            }
            return;
        };
        if ratio > bound {
            self.missed_thresholds.push(format!("missed deliveries {ratio:.4}, limit {bound}"));
        }
        if *stray > 0 {
            self.missed_thresholds
                .push(format!("{stray} notifications were duplicate, late or unexpected"));
        }
    }
}

/// Lag of the generator and its limit.
struct Lateness {
    is_late: bool,
    p99_us: Option<f64>,
    /// The limit for people.
    limit: String,
}

impl Lateness {
    /// Compares the lag with the limit of the plan, or with the default: the longer of 1 ms and a
    /// tenth of the response time.
    fn new(plan: &Plan, response: &Percentiles, lag: &Percentiles) -> Self {
        let (limit_us, limit) = if let Some(limit) = plan.lag_max {
            let limit_us = limit.get().as_secs_f64() * 1e6;
            (limit_us, format!("limit {}", round_duration(limit_us)))
        } else {
            let limit_us = (response.p99_us.unwrap_or_default() * LAG_RATIO_MAX).max(LAG_US_MIN);
            let why = "the longer of 1 ms and 10 % of the response time";
            (limit_us, format!("limit {}, {why}", duration(limit_us)))
        };
        Self { is_late: lag.p99_us.is_some_and(|us| us > limit_us), p99_us: lag.p99_us, limit }
    }

    fn text(&self) -> String {
        format!(
            "the load generator was {} late at the 99th percentile ({})",
            figure::latency(self.p99_us),
            self.limit
        )
    }
}

/// Describes the growth of the number of users without a place.
fn arrivals_text(totals: &Totals, users: Option<&UsersResult>) -> String {
    let UsersResult { arrived, waited, users, .. } = users.cloned().unwrap_or_default();
    let added = figure::rate(totals.backlog_growth.unwrap_or_default().max(0.0));
    format!(
        "{} of {} users that arrived found none of {users} connections free, backlog +{added}/s",
        figure::count(waited),
        figure::count(arrived)
    )
}

/// Describes the growth of the backlog.
fn growth_text(totals: &Totals) -> String {
    let [due, added] = [totals.due_rate, totals.backlog_growth]
        .map(|rate| figure::rate(rate.unwrap_or_default().max(0.0)));
    format!("answered {}/s of {due}/s due, backlog +{added}/s", figure::rate(totals.rate))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn missed_thresholds(plan: &Plan, totals: &Totals, run: &RunMeasurements<'_>) -> Vec<String> {
    let bounds = &plan.thresholds;
    let checks = threshold_checks(bounds, totals, run.response, run.memory_growth, run.calls);
    let checks = checks.into_iter();
    let mut missed: Vec<String> =
        checks.filter(|check| !check.is_kept).map(|check| check.text).collect();
    if bounds.errors.is_some() && totals.unsolicited > 0 {
        missed.push(format!("{} responses without a matching request", totals.unsolicited));
    }
    missed
}

#[cfg(test)]
mod tests;
