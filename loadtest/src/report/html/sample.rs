//! Sample results for tests: a run of three seconds, and a sweep of such runs.

use serde_json::json;

use crate::probe::{Probe, SearchResult, Trial};
use crate::result::RunResult;
use crate::search::SearchOutcome;
use crate::sweep::{SweepResult, SweepRun, SweepStep};

/// Returns a run of three seconds, the first of them warm-up, with one failure.
pub(super) fn result() -> RunResult {
    let percentiles = json!({
        "count": 199, "mean_us": 120.0, "p50_us": 100.0, "p90_us": 200.0, "p99_us": 400.0,
        "p999_us": 900.0, "p9999_us": 900.0, "max_us": 900.0,
    });
    let second = |at: u32, answered: u32| {
        json!({
            "at_s": f64::from(at), "span_s": if at > 1 { 1.0 } else { 0.0 }, "due": answered,
            "sent": answered, "answered": answered, "failed": 0, "p50_us": 100.0, "p99_us": 400.0,
            "max_us": 900.0, "lag_p99_us": 40.0,
            "open": 4, "server_cores": 0.25, "server_resident_bytes": 20_000_000,
            "generator_cores": 0.5, "generator_resident_bytes": 9_000_000,
        })
    };
    serde_json::from_value(json!({
        "verdict": { "invalid": [], "missed_thresholds": [] },
        "plan": {
            "target": "http://127.0.0.1:8080/mcp", "connections": 4, "warm_up": "1s",
            "phase": [{ "rate": 100.0, "duration": "2s" }], "thresholds": { "p99": "1ms" },
        },
        "manifest": {
            "version": "0.1.0", "arguments": ["run", "http://127.0.0.1:8080/mcp"],
            "ended_unix_s": 1_700_000_000, "kernel": "6.18.0", "cpu": "A Processor", "cores": 2,
            "sysctls": [["net.core.somaxconn", "4096"]], "ring": "io_uring", "threads": 1,
        },
        "totals": {
            "duration_s": 2.0, "due": 200, "sent": 200, "answered": 199, "rate": 99.5,
            "failures": { "rpc_error": 1 }, "failure_ratio": 0.005, "unsolicited": 0, "opened": 4,
            "lost": 0, "last_error": null,
        },
        "response": percentiles, "service": percentiles, "lag": percentiles,
        "response_distribution": [[0.0, 80.0], [50.0, 100.0], [99.0, 400.0], [100.0, 900.0]],
        "service_distribution": [[0.0, 70.0], [50.0, 90.0], [99.0, 300.0], [100.0, 800.0]],
        "generator": { "cpu_us_per_response": 5.0, "cores": 0.5, "resident_bytes_max": 9_000_000 },
        "server": { "cpu_us_per_response": 3.0, "cores": 0.25, "resident_bytes_max": 20_000_000 },
        "seconds": [second(1, 0), second(2, 100), second(3, 99)],
    }))
    .expect("the sample has every required member")
}

/// Returns a sweep that found 1,000 requests a second after three runs, one of them invalid, with
/// three runs at each of two fractions; the last run is invalid.
pub(super) fn sweep() -> SweepResult {
    let result = result();
    let run = |rate: f64, spread: f64| {
        let mut run = SweepRun::from(result.clone());
        run.totals.rate = rate * (1.0 + spread / 5.0);
        run.response.p50_us = Some(100.0 * (1.0 + spread));
        run.response.p99_us = Some(400.0 * (1.0 + spread));
        run
    };
    let step = |part: f64| {
        let rate = part * 1_000.0;
        let runs = [-0.2, 0.0, 0.2].map(|spread| run(rate, spread));
        SweepStep { fraction: part, rate, runs: runs.to_vec() }
    };
    let probe = |number, rate, p99_us, against: &[&str]| Probe {
        number,
        rate,
        trial: Trial {
            answered: rate,
            p99_us: Some(p99_us),
            failure_ratio: Some(0.0),
            is_valid: number != 3,
            failed_checks: against.iter().map(ToString::to_string).collect(),
        },
    };
    let mut steps = vec![step(0.5), step(0.9)];
    steps[1].runs[2].verdict.invalid.push("the generator was late".into());
    SweepResult {
        plan: result.plan.clone(),
        manifest: result.manifest.clone(),
        search: SearchResult {
            is_stopped: false,
            answer: SearchOutcome::Found {
                rate: 1_000.0,
                passes: 3,
                failures: 0,
                is_ceiling: false,
            },
            probes: vec![
                probe(1, 1_000.0, 600.0, &[]),
                probe(2, 2_000.0, 9_000.0, &["p99 9 ms"]),
                probe(3, 2_500.0, 5_000.0, &["late"]),
            ],
        },
        steps,
    }
}
