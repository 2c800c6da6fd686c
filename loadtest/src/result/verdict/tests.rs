//! Tests of the verdict.

use corelane_base::random::Random;

use super::*;
use crate::plan::HumanDuration;
use crate::result::listen::MinMedianMax;

fn verdict(
    change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
) -> Verdict {
    verdict_at(0.5, change)
}

/// Returns the verdict on a run whose single load thread used this much of its core.
fn verdict_at(
    cores: f64,
    change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
) -> Verdict {
    let mut plan = Plan::new("tcp://localhost:1");
    let mut totals =
        Totals { due: 1_000, sent: 1_000, answered: 1_000, opened: 64, ..Totals::default() };
    totals.duration_s = 10.0;
    let (p50_us, p99_us) = (Some(400.0), Some(900.0));
    let mut response = Percentiles { count: 1_000, p50_us, p99_us, ..Percentiles::default() };
    let mut lag = Percentiles::default();
    change(&mut plan, &mut totals, &mut response, &mut lag);
    let generator = ProcessCost { cores, ..ProcessCost::default() };
    let run = RunMeasurements {
        response: &response,
        calls: &[],
        memory_growth: None,
        lag: &lag,
        disturbance: &Disturbance::default(),
        generator: &generator,
        threads: 1,
        open_at_end: 64,
        waiting: 0,
        growth: None,
        users: None,
    };
    Verdict::evaluate(&plan, &totals, &run)
}

#[test]
fn run_without_lag_has_passed() {
    assert!(verdict(|_, _, _, _| {}).has_passed());
}

#[test]
fn unsent_requests_without_lag_mean_server_saturated() {
    let verdict = verdict(|_, totals, _, _| totals.sent = 980);
    assert!(!verdict.is_valid() && verdict.invalid.is_empty());
    assert_eq!(verdict.status(&Thresholds::default()), RunStatus::Failed);
    assert!(verdict.saturated[0].contains("98.0 %") && verdict.saturated[0].contains("server"));
}

#[test]
fn unsent_requests_with_lag_blame_generator() {
    let verdict = verdict(|_, totals, _, lag| {
        totals.sent = 980;
        lag.p99_us = Some(1_500.0);
    });
    assert_eq!(verdict.status(&Thresholds::default()), RunStatus::Invalid);
    assert_eq!(verdict.invalid.len(), 2);
    assert!(verdict.saturated.is_empty() && verdict.invalid[0].contains("98.0 %"));
}

#[test]
fn unsent_requests_with_busy_generator_blame_generator() {
    let verdict = verdict_at(0.95, |_, totals, _, _| totals.sent = 980);
    assert_eq!(verdict.status(&Thresholds::default()), RunStatus::Invalid);
    assert_eq!(verdict.invalid.len(), 2);
    assert!(verdict.saturated.is_empty() && verdict.invalid[1].contains("more --threads"));
}

#[test]
fn verdict_without_saturated_key_is_readable() {
    let kept: Verdict =
        serde_json::from_str(r#"{"invalid":["late"],"missed_thresholds":[]}"#).unwrap();
    assert!(kept.is_generator_limited());
}

#[test]
fn run_without_due_requests_is_invalid() {
    let verdict = |holds: bool| {
        verdict(|plan, totals, _, _| {
            (totals.due, totals.sent, totals.answered) = (0, 0, 0);
            plan.closed = !holds;
        })
    };
    assert!(verdict(false).invalid[0].contains("no request"));
    assert!(verdict(true).is_valid(), "idle connections send no requests");
}

#[test]
fn lag_limit_comes_from_the_plan() {
    let late = |lag_max| {
        verdict(|plan, totals, _, lag| {
            totals.sent = 900;
            lag.p99_us = Some(1_500.0);
            plan.lag_max = lag_max;
        })
    };
    let limit = |ms| Some(HumanDuration::from(Duration::from_millis(ms)));
    assert!(late(limit(2)).invalid.is_empty());
    assert!(late(limit(1)).invalid[1].contains("limit 1 ms"));
}

#[test]
fn late_generator_invalidates_missed_thresholds_only() {
    let late = |lag_us, response_us| {
        verdict(|plan, _, response, lag| {
            (lag.p99_us, response.p99_us) = (Some(lag_us), Some(response_us));
            plan.thresholds.p99 = Some(HumanDuration::from(Duration::from_millis(8)));
        })
    };
    let thresholds = Thresholds {
        p99: Some(HumanDuration::from(Duration::from_millis(8))),
        ..Thresholds::default()
    };
    let missed = late(1_500.0, 9_000.0);
    assert_eq!(missed.status(&thresholds), RunStatus::Invalid);
    assert!(missed.invalid[0].contains("limit 1.00 ms") && missed.invalid[0].contains("--lag-max"));
    assert!(!missed.invalid[0].contains("--threads") || missed.invalid[0].contains("dedicated"));
    let kept = late(1_500.0, 7_000.0);
    assert_eq!(kept.status(&thresholds), RunStatus::Passed);
    assert!(kept.notes[0].contains("only lengthened response times"), "{kept:?}");
    // A tenth of the response time does not change the result.
    assert_eq!(late(1_500.0, 16_000.0).status(&thresholds), RunStatus::Missed);
    assert_eq!(late(1_700.0, 16_000.0).status(&thresholds), RunStatus::Invalid);
    // A tenth of the measured time means that the rate was not held.
    assert_eq!(late(1_100_000.0, 7_000.0).status(&thresholds), RunStatus::Invalid);
}

#[test]
fn other_programs_invalidate_missed_thresholds_only() {
    let disturbance = Disturbance {
        causes: vec!["other programs used 1.9 of 2 cores".into()],
        slows_server: true,
    };
    let status = |us| {
        let mut plan = Plan::new("tcp://localhost:1");
        plan.thresholds.p99 = Some(HumanDuration::from(Duration::from_millis(8)));
        let totals = Totals {
            due: 10,
            sent: 10,
            answered: 10,
            opened: 64,
            duration_s: 1.0,
            ..Totals::default()
        };
        let run = RunMeasurements {
            response: &Percentiles { count: 10, p99_us: Some(us), ..Percentiles::default() },
            calls: &[],
            memory_growth: None,
            lag: &Percentiles::default(),
            disturbance: &disturbance,
            generator: &ProcessCost { cores: 0.01, ..ProcessCost::default() },
            threads: 1,
            open_at_end: 64,
            waiting: 0,
            growth: None,
            users: None,
        };
        let verdict = Verdict::evaluate(&plan, &totals, &run);
        (verdict.status(&plan.thresholds), verdict.reason_texts().concat())
    };
    assert_eq!(status(7_000.0).0, RunStatus::Passed);
    let (missed, why) = status(9_000.0);
    assert_eq!(missed, RunStatus::Invalid);
    assert!(why.contains("other programs used 1.9 of 2 cores"), "{why}");
    assert!(!why.contains("--threads"), "{why}");
}

#[test]
fn growing_backlog_means_server_saturated() {
    let growth = |is_saturation| BacklogGrowth { is_saturation, ..BacklogGrowth::default() };
    let judge = |growth, lag_us, waiting| {
        let plan = Plan::new("tcp://localhost:1");
        let mut totals = Totals { due: 450, sent: 450, answered: 450, ..Totals::default() };
        (totals.opened, totals.rate, totals.duration_s) = (64, 73.0, 3.0);
        (totals.due_rate, totals.backlog_growth) = (Some(150.0), Some(77.0));
        let run = RunMeasurements {
            response: &Percentiles { count: 450, p99_us: Some(1e3), ..Percentiles::default() },
            calls: &[],
            memory_growth: None,
            lag: &Percentiles { p99_us: Some(lag_us), ..Percentiles::default() },
            disturbance: &Disturbance::default(),
            generator: &ProcessCost::default(),
            threads: 1,
            open_at_end: 64,
            waiting,
            growth: Some(growth),
            users: None,
        };
        Verdict::evaluate(&plan, &totals, &run)
    };
    assert!(judge(growth(false), 0.0, 9).has_passed());
    let verdict = judge(growth(true), 0.0, 0);
    let expected = "answered 73/s of 150/s due, backlog +77/s.";
    assert!(verdict.saturated[0].contains(expected), "{verdict:?}");
    assert!(!verdict.saturated[0].contains("connection"), "{verdict:?}");
    assert_eq!(verdict.status(&Thresholds::default()), RunStatus::Failed);
    let verdict = judge(growth(true), 0.0, 9);
    assert!(verdict.saturated[0].contains("more connections"), "{verdict:?}");
    let verdict = judge(growth(true), 5e3, 0);
    assert_eq!(verdict.status(&Thresholds::default()), RunStatus::Invalid);
}

#[test]
fn lost_connections_fail_even_a_late_run() {
    let mut plan = Plan::new("tcp://localhost:1");
    let mut totals = Totals { due: 100, sent: 60, answered: 60, opened: 64, ..Totals::default() };
    totals.failures.insert("unsent".into(), 40);
    totals.last_error = Some("refused".into());
    let lag = Percentiles { p99_us: Some(9_000.0), ..Percentiles::default() };
    let generator = ProcessCost::default();
    let mut status = |open, errors| {
        plan.thresholds.errors = errors;
        let run = RunMeasurements {
            calls: &[],
            memory_growth: None,
            response: &Percentiles::default(),
            lag: &lag,
            disturbance: &Disturbance::default(),
            generator: &generator,
            threads: 1,
            open_at_end: open,
            waiting: 0,
            growth: None,
            users: None,
        };
        let verdict = Verdict::evaluate(&plan, &totals, &run);
        (verdict.status(&plan.thresholds), verdict.reason_texts().concat())
    };
    assert_eq!(status(60, None).0, RunStatus::Invalid);
    let (lost, why) = status(1, None);
    assert!(lost == RunStatus::Failed && why.contains("1 of 64 at the end): refused"), "{why}");
    assert_eq!(status(1, Some(0.1)).0, RunStatus::Failed);
}

#[test]
fn closed_loop_without_connections_at_end_fails() {
    let plan = Plan { closed: true, ..Plan::new("tcp://localhost:1") };
    let mut totals = Totals { due: 500, sent: 500, answered: 499, opened: 64, ..Totals::default() };
    totals.failures.insert("closed".into(), 1);
    let reasons = |totals: &Totals, open| {
        let run = RunMeasurements {
            calls: &[],
            memory_growth: None,
            response: &Percentiles { count: 499, ..Percentiles::default() },
            lag: &Percentiles::default(),
            disturbance: &Disturbance::default(),
            generator: &ProcessCost::default(),
            threads: 1,
            open_at_end: open,
            waiting: 0,
            growth: None,
            users: None,
        };
        Verdict::evaluate(&plan, totals, &run).failed
    };
    // Connections that the server closes between requests are not lost.
    assert!(reasons(&totals, 0).is_empty());
    totals.last_error = Some("refused".into());
    assert!(reasons(&totals, 32).is_empty());
    let expected = "connections were lost and did not open again (31 of 64 at the end): refused";
    assert_eq!(reasons(&totals, 31), [expected]);
    (totals.last_error, totals.lost) = (None, 64);
    assert_eq!(
        reasons(&totals, 31),
        ["connections were lost and did not open again (31 of 64 at the end)"]
    );
}

#[test]
fn status_without_thresholds_is_completed() {
    let verdict = verdict(|_, _, _, _| {});
    assert_eq!(verdict.status(&Thresholds::default()), RunStatus::Completed);
    let thresholds = Thresholds { errors: Some(0.5), ..Thresholds::default() };
    assert_eq!(verdict.status(&thresholds), RunStatus::Passed);
}

#[test]
fn failures_above_default_fail_the_run() {
    let failing = |count, thresholds: Thresholds| {
        let verdict = verdict(|plan, totals, _, _| {
            plan.thresholds = thresholds.clone();
            totals.answered -= count;
            totals.failures.insert("http_5xx".into(), count);
            totals.failure_ratio = Some(ratio(count, totals.due));
        });
        verdict.status(&thresholds)
    };
    assert_eq!(failing(10, Thresholds::default()), RunStatus::Completed);
    assert_eq!(failing(11, Thresholds::default()), RunStatus::Failed);
    let accepted = Thresholds { errors: Some(0.5), ..Thresholds::default() };
    assert_eq!(failing(500, accepted.clone()), RunStatus::Passed);
    assert_eq!(failing(501, accepted.clone()), RunStatus::Missed);
    assert_eq!(
        failing(1_000, Thresholds { errors: Some(1.0), ..accepted.clone() }),
        RunStatus::Failed
    );
}

#[test]
fn unanswered_run_never_passes() {
    let mut random = Random::seeded(5);
    for _ in 0..2_000 {
        let mut thresholds = Thresholds::default();
        let verdict = verdict_at(0.2, |plan, totals, response, lag| {
            totals.due = 1 + random.below(100_000) as u64;
            (totals.answered, totals.sent) = (0, 0);
            *response = Percentiles::default();
            let mut left = totals.due;
            for kind in Failure::ALL {
                let last = Failure::ALL[random.below(Failure::ALL.len())];
                let count = random.below(usize::try_from(left).unwrap() + 1) as u64;
                left -= count;
                *totals.failures.entry(last.name().into()).or_default() += count;
                totals.sent += if kind == Failure::Unsent { 0 } else { count };
            }
            totals.failure_ratio = Some(1.0);
            lag.p99_us = Some(f64::from(u16::try_from(random.below(5_000)).unwrap()));
            plan.closed = random.chance(1, 2);
            thresholds.errors = random.chance(1, 2).then_some(1.0);
            plan.thresholds = thresholds.clone();
        });
        let status = verdict.status(&thresholds);
        assert_eq!(status, RunStatus::Failed, "{verdict:?}");
    }
}

#[test]
fn closed_idle_connections_fail_the_run() {
    let mut verdict = Verdict::default();
    let totals = Totals { lost: 2, ..Totals::default() };
    let plan = Plan::new("tcp://127.0.0.1:1");
    verdict.check_reopened(&plan, &totals, &ConnectionsResult::default());
    assert!(verdict.failed[0].contains("2 of 64 idle connections"), "{verdict:?}");
}

#[test]
fn unopened_connections_fail_the_run() {
    let verdict = verdict(|_, totals, _, _| {
        totals.opened = 60;
        totals.last_error = Some("full".into());
    });
    assert!(verdict.failed[0].contains("60 of 64") && verdict.failed[0].contains("full"));
}

#[test]
fn each_missed_threshold_is_listed() {
    let verdict = verdict(|plan, totals, _, _| {
        plan.thresholds.p99 = Some(HumanDuration::from(Duration::from_micros(500)));
        plan.thresholds.p50 = Some(HumanDuration::from(Duration::from_micros(500)));
        plan.thresholds.errors = Some(0.001);
        totals.failure_ratio = Some(0.01);
    });
    assert!(verdict.is_valid() && !verdict.has_passed());
    assert_eq!(verdict.missed_thresholds.len(), 2, "{:?}", verdict.missed_thresholds);
}

#[test]
fn connections_not_reopened_miss_errors_threshold() {
    let openings = ConnectionsResult { not_reopened: 3, ..ConnectionsResult::default() };
    let mut plan = Plan { connections: 1_000, ..Plan::new("tcp://127.0.0.1:1") };
    let mut verdict = Verdict::default();
    verdict.check_reopened(&plan, &Totals::default(), &openings);
    assert!(verdict.has_passed(), "fewer than the default");
    plan.thresholds.errors = Some(0.5);
    verdict.check_reopened(&plan, &Totals::default(), &openings);
    assert!(
        verdict.missed_thresholds[0].contains("3 replaced connections"),
        "{:?}",
        verdict.missed_thresholds
    );
}

#[test]
fn missed_delivery_violates_thresholds() {
    let verdict = |missed, stray, last_us| {
        let bounds = Thresholds {
            last_delivery: Some(HumanDuration::from_secs(1)),
            errors: Some(0.1),
            ..Thresholds::default()
        };
        let last = MinMedianMax { max_us: Some(last_us), ..MinMedianMax::default() };
        let listen = ListenResult {
            delivered: 8,
            missed,
            unexpected: stray,
            last,
            ..ListenResult::default()
        };
        let mut verdict = Verdict::default();
        verdict.check_deliveries(&bounds, &listen);
        verdict.missed_thresholds
    };
    assert_eq!(verdict(0, 0, 1e6), [""; 0]);
    assert_eq!(verdict(0, 0, 1_000_001.0), ["last_delivery 1.00 s, limit 1 s"]);
    let missed = ["last_delivery: 2 missed, limit 1s", "missed deliveries 0.2000, limit 0.1"];
    assert_eq!(verdict(2, 0, 5.0), missed);
    assert_eq!(verdict(0, 1, 5.0).len(), 1);
}

#[test]
fn run_without_response_misses_latency_threshold() {
    let verdict = verdict(|plan, _, response, _| {
        plan.thresholds.p99 = Some(HumanDuration::from_secs(1));
        *response = Percentiles::default();
    });
    assert_eq!(verdict.missed_thresholds.len(), 1);
}
