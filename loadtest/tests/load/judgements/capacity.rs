//! `capacity`: cores for a target load, from sweeps.

use std::path::Path;

use corelane_load::plan::{Plan, SweepPlan};
use corelane_load::probe::{Probe, Trial};
use corelane_load::result::ProcessCost;
use corelane_load::search::SearchOptions;
use corelane_test_support::ExitResult;

use super::{assert_contains_all, assert_usage_error, load, path_text, read, run, sweep, write};

#[test]
fn capacity_computes_requirement_from_sweeps() {
    // 10 MiB with 1 KiB a connection.
    let bytes = |connections: u64| (10 << 20) + connections * 1_024;
    let one = write("cores-1.json", &sweep(64, 1_000.0, bytes(64)));
    let two = write("cores-2.json", &sweep(1_000, 900.0, bytes(1_000)));
    let kept = path_text("capacity.json");
    let target = ["--target-rate=7000", "--target-connections=40000", "--cores-per-machine=8"];
    let arguments = ["capacity", &one, &two, "--json", &kept].into_iter().chain(target);
    let ExitResult { status, stdout, stderr } = load(arguments);
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    let expected = [
        "rates within p99 ≤ 1ms",
        "a core   900/s, the lowest measured",
        "10000.0 ÷ 900.0 = 11.11 → 12 cores; 12 ÷ 8 a machine → 2 machines",
        "10.0 MiB + 1024 B a connection",
        "in proportion: 20.0 times what was measured",
        "limited by CPU",
    ];
    assert_contains_all(&stdout, &expected);
    let kept = read(&kept);
    assert_eq!(kept["requirement"]["cores"], 12);
    assert_eq!(kept["measured"]["points"].as_array().unwrap().len(), 2);
}

#[test]
fn capacity_reads_cores_and_connections_from_results() {
    let mut result = run(100.0);
    result.totals.rate = 4_000.0;
    result.server = Some(ProcessCost { cores: 3.96, ..result.server.unwrap() });
    let file = write("occupied.json", &result);
    let ExitResult { status, stdout, stderr } = load(["capacity", "--target-rate=5000", &file]);
    assert_eq!(status, 0, "{stderr}");
    assert_contains_all(&stdout, &["a core   1000/s", "5000/s over 64 connections", "8 cores"]);
}

#[test]
fn capacity_rejects_generator_limited_sweep_by_default() {
    let mut limited = sweep(64, 1_000.0, 1 << 20);
    let against = vec!["the generator was late".to_owned()];
    let trial = Trial { is_valid: false, failed_checks: against, ..Trial::default() };
    limited.search.probes.push(Probe { number: 2, rate: 1_100.0, trial });
    let limited = write("limited.json", &limited);
    let expected = ["load generator was the limit", "was late", "--even-invalid"];
    assert_usage_error(&load(["capacity", &limited]), &expected);
    let ExitResult { status, stdout, .. } = load(["capacity", &limited, "--even-invalid"]);
    assert_eq!(status, 0, "{stdout}");
    assert_contains_all(&stdout, &["limited.json (at least)"]);
}

#[test]
fn capacity_uses_best_run_of_each_size() {
    let passed = |name: &str, rate: f64| {
        let mut result = run(100.0);
        result.totals.rate = rate;
        write(name, &result)
    };
    let (slow, fast) = (passed("slow.json", 10.0), passed("fast.json", 500.0));
    let ExitResult { status, stdout, .. } = load(["capacity", &slow, &fast]);
    assert_eq!(status, 0, "{stdout}");
    assert_contains_all(&stdout, &["a core   500/s", "fast.json"]);
    assert!(!stdout.contains("slow.json"), "{stdout}");
    let mut missed = run(100.0);
    missed.verdict.missed_thresholds.push("p99 9 us, limit 1us".into());
    let missed = write("missed.json", &missed);
    assert_usage_error(&load(["capacity", &missed]), &["missed.json has not passed", "limit 1us"]);
}

#[test]
fn invalid_capacity_arguments_are_reported() {
    let good = write("sound.json", &run(100.0));
    let capacity =
        |flags: &[&'static str]| load(["capacity", &good].into_iter().chain(flags.iter().copied()));
    assert_usage_error(&capacity(&["--target-connections=5"]), &["--target-rate"]);
    let target = ["--target-rate=5", "--target-connections=1"];
    assert_usage_error(&capacity(&[&target[..], &["--headroom=1"]].concat()), &["below 1"]);
    assert_usage_error(
        &capacity(&[&target[..], &["--cores-per-machine=0"]].concat()),
        &["one core"],
    );
    let strict = write("strict.json", &sweep(64, 10.0, 1));
    assert_usage_error(&load(["capacity", &good, &strict]), &["different thresholds", "p99 ≤ 1ms"]);
}

#[test]
fn shipped_capacity_plans_are_valid_sweeps() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().starts_with("capacity-") {
            continue;
        }
        count += 1;
        let plan = Plan::read(&path).unwrap();
        let sweep: SweepPlan = plan.sweep.clone().unwrap();
        sweep.check().unwrap();
        SearchOptions::new(&sweep, 1.0).check().unwrap();
        assert!(plan.thresholds.p50.is_some() && plan.thresholds.errors.is_some());
        assert!(plan.thresholds.rate.is_none() && !plan.closed && plan.phases.is_empty());
    }
    assert_eq!(count, 12);
}
