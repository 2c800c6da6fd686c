//! The growth of the memory of a server that leaks at a known rate.

use corelane_load::result::{MemoryGrowth, RunResult, RunStatus};

use super::python_server::PythonServer;
use crate::load;

const MIB: f64 = 1_048_576.0;

/// Runs with a limit of 10 MiB a minute against a server that leaks so many MiB a minute.
fn run_leaking(mib_per_minute: u32) -> RunResult {
    let leaked_bytes = mib_per_minute * 1_048_576 / 60;
    let load = ["--connections=2", "--warm-up=1s", "--rate=50", "--duration=12s"];
    let limits = ["--memory-growth-max=10MiB", "--lag-max=1min"];
    let server = PythonServer { leaked_bytes, ..PythonServer::default() };
    let (result, ended) = server.run(&[&load[..], &limits].concat());
    assert!(ended.stdout.contains("\nmemory    growth "), "{}", ended.stdout);
    result
}

fn is_within(growth: &MemoryGrowth, mib_per_minute: u32) -> bool {
    let truth = f64::from(mib_per_minute) * MIB;
    (growth.low_bytes_per_minute..=growth.high_bytes_per_minute).contains(&truth)
}

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn leaking_server_misses_limit_of_growth() {
    let leaking = std::thread::spawn(|| run_leaking(60));
    let steady = run_leaking(0);
    let leaking = leaking.join().unwrap();
    let growth = leaking.memory_growth.unwrap();
    assert!(is_within(&growth, 60), "{growth:?}");
    assert!((growth.bytes_per_minute / MIB - 60.0).abs() < 6.0, "{growth:?}");
    let missed = &leaking.verdict.missed_thresholds;
    assert!(missed[0].starts_with("memory growth +") && missed.len() == 1, "{missed:?}");
    let growth = steady.memory_growth.unwrap();
    assert!(
        growth.low_bytes_per_minute <= MIB && growth.high_bytes_per_minute >= -MIB,
        "{growth:?}"
    );
    assert_eq!(steady.status(), RunStatus::Passed, "{:?}", steady.verdict);
}

#[test]
fn limit_of_growth_needs_server_and_time() {
    let target = "tcp://127.0.0.1:1";
    for (flags, part) in [
        (&["--duration=12s"][..], "add --pid or --server"),
        (&["--duration=5s", "--pid=1"], "measure for 10 s or longer"),
    ] {
        let flags = flags.iter().copied().chain(["--memory-growth-max=10MiB"]);
        let ended = load(["run", target].into_iter().chain(flags));
        assert_eq!(ended.status, 2);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
