//! Whether a run counts, whose fault it is where it does not, and whether it passed.
//!
//! What it keeps true: a generator that was late or out of CPU is blamed before the server is; the
//! server is blamed for what could not be sent only where the generator was in time and had CPU to
//! spare, so that only connections without room can be the reason.

use serde::{Deserialize, Serialize};

use super::{Cost, ListenResult, OpeningsResult, Percentiles, Totals};
use crate::plan::{Plan, Thresholds};

/// The part of what was due that has to be sent for a run to count.
const SENT_MIN: f64 = 0.99;
/// The part of its cores that the generator may use before what it measures is itself.
const CORES_MAX: f64 = 0.95;

/// What a run is worth.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Verdict {
    /// Why the generator itself has spoiled the run; empty where it has not.
    pub invalid: Vec<String>,
    /// Why the server has: so slow that what was due could not be sent on these connections. Such a
    /// run is no measurement at its rate, but it says that this rate is beyond the server's limit.
    #[serde(default)]
    pub beyond: Vec<String>,
    /// Which thresholds it missed.
    pub missed: Vec<String>,
}

/// Whose fault it is that a run does not count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The generator was late, out of CPU, or could not open its connections.
    Generator,
    /// The server left no connection with room for what was due.
    Server,
}

impl Verdict {
    /// Whether the run counts: what was due was sent, and in time.
    pub const fn is_valid(&self) -> bool {
        self.fault().is_none()
    }

    /// Whose fault it is that the run does not count; none where it does.
    pub const fn fault(&self) -> Option<Fault> {
        if !self.invalid.is_empty() {
            Some(Fault::Generator)
        } else if !self.beyond.is_empty() {
            Some(Fault::Server)
        } else {
            None
        }
    }

    /// Whether it counts and every threshold held.
    pub const fn has_passed(&self) -> bool {
        self.is_valid() && self.missed.is_empty()
    }

    /// Connections that did not come back are failures, though no request failed by them.
    pub(super) fn miss(&mut self, plan: &Plan, openings: &OpeningsResult) {
        let OpeningsResult { unopened, .. } = openings;
        if plan.thresholds.errors.is_some() && *unopened > 0 {
            self.missed
                .push(format!("{unopened} connections that were replaced did not come back"));
        }
    }

    pub(super) fn of(
        plan: &Plan,
        totals: &Totals,
        (response, lag): (&Percentiles, &Percentiles),
        (generator, workers): (&Cost, u32),
    ) -> Self {
        let mut verdict = Self::default();
        let is_late = lag.p99_us > plan.lag_max.duration().as_secs_f64() * 1e6;
        let is_busy = !plan.closed && generator.cores >= CORES_MAX * f64::from(workers);
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let sent = totals.sent as f64 / totals.due.max(1) as f64;
        if totals.due > 0 && sent < SENT_MIN {
            let only = format!("only {:.1} % of what was due could be sent", sent * 100.0);
            if is_late || is_busy {
                verdict.invalid.push(format!("{only}, and the generator was late or busy itself"));
            } else {
                verdict.beyond.push(format!(
                    "{only}: the server was too slow. The generator was in time ({:.0} us late at \
                     the 99th percentile, {:.2} of its {workers} cores in use), but no connection \
                     had room{}: lower the rate, or allow more connections or depth",
                    lag.p99_us,
                    generator.cores,
                    if totals.lost > 0 {
                        format!(", {} were lost", totals.lost)
                    } else {
                        String::new()
                    }
                ));
            }
        }
        let mut spoil = |is_spoiled: bool, why: String| {
            if is_spoiled {
                verdict.invalid.push(why);
            }
        };
        spoil(
            is_late,
            format!(
                "the generator was {:.0} us late at the 99th percentile ({} allowed): give it more \
                 workers, or cores that nobody else uses",
                lag.p99_us, plan.lag_max
            ),
        );
        spoil(
            is_busy,
            format!(
                "the generator used {:.2} cores of its {workers}: give it more workers",
                generator.cores
            ),
        );
        spoil(
            totals.due == 0 && (plan.closed || plan.profile().rate_max() > 0.0),
            "no request was due in what was measured: raise the rate, or measure for longer".into(),
        );
        spoil(
            totals.opened < plan.connections_all() as u64,
            format!(
                "only {} of {} connections opened{}",
                totals.opened,
                plan.connections_all(),
                totals.refused.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
            ),
        );
        verdict.missed = misses(plan, totals, response);
        verdict
    }

    /// Weighs what those that listen have heard.
    pub(super) fn weigh_listening(&mut self, bounds: &Thresholds, listen: &ListenResult) {
        let ListenResult { missed, stray, last, .. } = listen;
        let ratio = listen.missed_ratio();
        if let Some(bound) = bounds.last {
            let us = last.max_us;
            // Where somebody never heard, or nothing was published, there was no last.
            if ratio > 0.0 {
                self.missed.push(format!("last: {missed} deliveries missed, {bound} allowed"));
            } else if us > bound.duration().as_secs_f64() * 1e6 {
                self.missed.push(format!("last {us:.0} us, {bound} allowed"));
            }
        }
        let Some(bound) = bounds.errors else { return };
        if ratio > bound {
            self.missed.push(format!("deliveries {ratio:.4} missed, {bound} allowed"));
        }
        if *stray > 0 {
            self.missed.push(format!("{stray} notifications that came twice, late or for nothing"));
        }
    }
}

fn misses(plan: &Plan, totals: &Totals, response: &Percentiles) -> Vec<String> {
    let bounds = &plan.thresholds;
    let mut missed = Vec::new();
    for (name, bound, us) in [
        ("p50", bounds.p50, response.p50_us),
        ("p99", bounds.p99, response.p99_us),
        ("p99.9", bounds.p999, response.p999_us),
    ] {
        let Some(bound) = bound else { continue };
        // Without a single answer no latency is short.
        if us > bound.duration().as_secs_f64() * 1e6 || response.count == 0 {
            missed.push(format!("{name} {us:.0} us, {bound} allowed"));
        }
    }
    if let Some(bound) = bounds.errors
        && totals.failure_ratio > bound
    {
        missed.push(format!("errors {:.4}, {bound} allowed", totals.failure_ratio));
    }
    if let Some(bound) = bounds.rate
        && totals.rate < bound
    {
        missed.push(format!("{:.0} answers a second, {bound} wanted", totals.rate));
    }
    if bounds.errors.is_some() && totals.unasked > 0 {
        missed.push(format!("{} answers that nobody had asked for", totals.unasked));
    }
    missed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::Span;
    use crate::result::listen::Spread;

    fn verdict(
        change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
    ) -> Verdict {
        verdict_at(0.5, change)
    }

    /// The verdict on a run in which the generator's one worker used so much of its core.
    fn verdict_at(
        cores: f64,
        change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
    ) -> Verdict {
        let mut plan = Plan::new("tcp://localhost:1");
        let mut totals =
            Totals { due: 1_000, sent: 1_000, answered: 1_000, opened: 64, ..Totals::default() };
        let mut response = Percentiles { count: 1_000, p99_us: 900.0, ..Percentiles::default() };
        let mut lag = Percentiles::default();
        change(&mut plan, &mut totals, &mut response, &mut lag);
        let generator = Cost { cores, ..Cost::default() };
        Verdict::of(&plan, &totals, (&response, &lag), (&generator, 1))
    }

    #[test]
    fn a_run_that_kept_its_plan_counts() {
        assert!(verdict(|_, _, _, _| {}).has_passed());
    }

    #[test]
    fn a_server_that_leaves_no_connection_with_room_is_to_blame() {
        let verdict = verdict(|_, totals, _, _| totals.sent = 980);
        assert!(!verdict.is_valid() && verdict.invalid.is_empty());
        assert_eq!(verdict.fault(), Some(Fault::Server));
        assert!(verdict.beyond[0].contains("98.0 %") && verdict.beyond[0].contains("server"));
    }

    #[test]
    fn a_generator_that_was_late_is_to_blame_for_what_it_did_not_send() {
        let verdict = verdict(|_, totals, _, lag| {
            totals.sent = 980;
            lag.p99_us = 1_500.0;
        });
        assert_eq!((verdict.fault(), verdict.invalid.len()), (Some(Fault::Generator), 2));
        assert!(verdict.beyond.is_empty() && verdict.invalid[0].contains("98.0 %"));
    }

    #[test]
    fn a_generator_without_cpu_to_spare_is_to_blame_for_what_it_did_not_send() {
        let verdict = verdict_at(0.95, |_, totals, _, _| totals.sent = 980);
        assert_eq!((verdict.fault(), verdict.invalid.len()), (Some(Fault::Generator), 2));
        assert!(verdict.beyond.is_empty() && verdict.invalid[1].contains("more workers"));
    }

    #[test]
    fn a_verdict_that_was_kept_without_blame_still_reads() {
        let kept: Verdict = serde_json::from_str(r#"{"invalid":["late"],"missed":[]}"#).unwrap();
        assert_eq!(kept.fault(), Some(Fault::Generator));
    }

    #[test]
    fn a_run_in_which_nothing_was_due_that_was_to_be_is_none() {
        let verdict = |holds: bool| {
            verdict(|plan, totals, _, _| {
                (totals.due, totals.sent, totals.answered) = (0, 0, 0);
                plan.closed = !holds;
            })
        };
        assert!(verdict(false).invalid[0].contains("no request"));
        assert!(verdict(true).is_valid(), "connections that are held ask for nothing");
    }

    #[test]
    fn the_bound_of_lateness_is_the_plans() {
        let late = |lag_max| {
            verdict(|plan, _, _, lag| {
                lag.p99_us = 1_500.0;
                plan.lag_max = lag_max;
            })
        };
        assert!(late(Span::from(Duration::from_millis(2))).is_valid());
        assert!(late(Span::from(Duration::from_millis(1))).invalid[0].contains("1ms allowed"));
    }

    #[test]
    fn a_generator_that_was_late_spoils_the_run() {
        assert!(!verdict(|_, _, _, lag| lag.p99_us = 1_500.0).is_valid());
    }

    #[test]
    fn connections_that_did_not_open_spoil_the_run_with_their_reason() {
        let verdict = verdict(|_, totals, _, _| {
            totals.opened = 60;
            totals.refused = Some("full".into());
        });
        assert!(verdict.invalid[0].contains("60 of 64") && verdict.invalid[0].contains("full"));
    }

    #[test]
    fn thresholds_are_missed_one_by_one_and_the_run_still_counts() {
        let verdict = verdict(|plan, totals, _, _| {
            plan.thresholds.p99 = Some(Span::from(Duration::from_micros(500)));
            plan.thresholds.p50 = Some(Span::from(Duration::from_micros(500)));
            plan.thresholds.errors = Some(0.001);
            totals.failure_ratio = 0.01;
        });
        assert!(verdict.is_valid() && !verdict.has_passed());
        assert_eq!(verdict.missed.len(), 2, "{:?}", verdict.missed);
    }

    #[test]
    fn connections_that_did_not_come_back_miss_the_bound_of_errors() {
        let openings = OpeningsResult { unopened: 3, ..OpeningsResult::default() };
        let mut plan = Plan::new("tcp://127.0.0.1:1");
        let mut verdict = Verdict::default();
        verdict.miss(&plan, &openings);
        assert!(verdict.has_passed(), "nobody had asked");
        plan.thresholds.errors = Some(0.5);
        verdict.miss(&plan, &openings);
        assert!(verdict.missed[0].contains("3 connections"), "{:?}", verdict.missed);
    }

    #[test]
    fn a_delivery_that_was_missed_keeps_no_bound() {
        let verdict = |missed, stray, last_us| {
            let bounds = Thresholds {
                last: Some(Span::seconds(1)),
                errors: Some(0.1),
                ..Thresholds::default()
            };
            let last = Spread { max_us: last_us, ..Spread::default() };
            let listen =
                ListenResult { delivered: 8, missed, stray, last, ..ListenResult::default() };
            let mut verdict = Verdict::default();
            verdict.weigh_listening(&bounds, &listen);
            verdict.missed
        };
        assert_eq!(verdict(0, 0, 1e6), [""; 0]);
        assert_eq!(verdict(0, 0, 1_000_001.0), ["last 1000001 us, 1s allowed"]);
        let missed =
            ["last: 2 deliveries missed, 1s allowed", "deliveries 0.2000 missed, 0.1 allowed"];
        assert_eq!(verdict(2, 0, 5.0), missed);
        assert_eq!(verdict(0, 1, 5.0).len(), 1);
    }

    #[test]
    fn a_run_without_an_answer_keeps_no_bound_of_latency() {
        let verdict = verdict(|plan, _, response, _| {
            plan.thresholds.p99 = Some(Span::seconds(1));
            *response = Percentiles::default();
        });
        assert_eq!(verdict.missed.len(), 1);
    }
}
