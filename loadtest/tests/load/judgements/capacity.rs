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
    // 1,000·n / (1 + 0.1·(n − 1)), and 10 MiB with 1 KiB a connection.
    let bytes = |connections: u64| (10 << 20) + connections * 1_024;
    let one = write("cores-1.json", &sweep(64, 1_000.0, bytes(64)));
    let two = write("cores-2.json", &sweep(1_000, 2_000.0 / 1.1, bytes(1_000)));
    let four = write("cores-4.json", &sweep(4_000, 4_000.0 / 1.3, bytes(4_000)));
    let (one, two, four) = (format!("1={one}"), format!("2={two}"), format!("4={four}"));
    let kept = path_text("capacity.json");
    let target = ["--target-rate=7000", "--target-connections=40000", "--cores-per-machine=8"];
    let arguments = ["capacity", &one, &two, &four, "--json", &kept].into_iter().chain(target);
    let ExitResult { status, stdout, stderr } = load(arguments);
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    let expected = [
        "rates within p99 ≤ 1ms",
        "X(n) = 1000.0·n / (1 + 0.100000",
        "8 cores sustain X(8) = 4705.9/s by the model (above the measured range)",
        "→ 3 machines × 8 = 24 cores",
        "10.0 MiB + 1024 B a connection",
        "EXTRAPOLATION",
        "limited by",
    ];
    assert_contains_all(&stdout, &expected);
    let kept = read(&kept);
    assert_eq!(kept["requirement"]["machines"], 3);
    assert_eq!(kept["model"]["points"].as_array().unwrap().len(), 3);
}

#[test]
fn capacity_reads_cores_and_connections_from_results() {
    let files = [1.0, 2.0, 4.0].map(|cores: f64| {
        let mut result = run(100.0);
        result.totals.rate = 1_000.0 * cores;
        result.server = Some(ProcessCost { cores: cores * 0.99, ..result.server.unwrap() });
        write(&format!("occupied-{cores}.json"), &result)
    });
    let arguments = ["capacity", "--target-rate=5000"].into_iter();
    let ExitResult { status, stdout, stderr } =
        load(arguments.chain(files.iter().map(String::as_str)));
    assert_eq!(status, 0, "{stderr}");
    let expected = [
        "capacity over cores",
        "fitted   throughput grows in proportion to cores, 1000/s for each",
        "5000/s over 64 connections",
    ];
    assert_contains_all(&stdout, &expected);
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
fn capacity_over_connections_uses_plan_sizes() {
    let sizes = [(64, 9_000.0), (1_000, 9_500.0), (40_000, 6_000.0)];
    let files = sizes.map(|(connections, rate)| {
        let kept = sweep(connections, rate, (10 << 20) + connections as u64 * 600);
        write(&format!("connections-{connections}.json"), &kept)
    });
    let arguments = ["capacity"].into_iter();
    let ExitResult { status, stdout, .. } = load(arguments.chain(files.iter().map(String::as_str)));
    assert_eq!(status, 0, "{stdout}");
    let expected = ["capacity over connections", "80000 (logarithmic)", "600 B a connection"];
    assert_contains_all(&stdout, &expected);
}

#[test]
fn capacity_uses_best_run_of_each_size() {
    let passed = |name: &str, rate: f64| {
        let mut result = run(100.0);
        result.totals.rate = rate;
        write(name, &result)
    };
    let (slow, fast) = (passed("slow.json", 10.0), passed("fast.json", 500.0));
    let ExitResult { status, stdout, .. } =
        load(["capacity", &format!("2={slow}"), &format!("2={fast}")]);
    assert_eq!(status, 0, "{stdout}");
    assert_contains_all(&stdout, &["fitted   none", "sustained 250.0/s: 500.0 ÷ 2", "fast.json"]);
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
    assert_usage_error(&capacity(&["--size-of=legs"]), &["cores, connections or threads"]);
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
