//! Thresholds of runs and calls decide the verdict against a server of known service time.

use corelane_load::result::RunStatus;
use corelane_load::target::Transport;
use corelane_test_support::ExitResult;

use super::{Run, ServerModel, TruthServer, run};
use crate::{file_path, load};

/// Flags of a short run at 50/s, of 10 ms each.
const SHORT: [&str; 4] = ["-r=0.05k", "--connections=8", "--warm-up=0s", "--duration=600ms"];

#[test]
fn each_percentile_has_a_threshold() {
    let figures = ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"];
    let limits = |limit: &str| figures.map(|figure| format!("--{figure}-max={limit}"));
    let with = |limits: &[String]| {
        let flags: Vec<&str> = SHORT.into_iter().chain(limits.iter().map(String::as_str)).collect();
        run(ServerModel { workers: 8, ..ServerModel::default() }, &flags)
    };
    let Run { result, ended, .. } = with(&limits("9ms"));
    assert_eq!((result.status(), ended.status), (RunStatus::Missed, 1), "{}", ended.stdout);
    let missed = &result.verdict.missed_thresholds;
    assert_eq!(missed.len(), figures.len(), "{missed:?}");
    let Run { result, ended, .. } = with(&limits("1min"));
    assert_eq!((result.status(), ended.status), (RunStatus::Passed, 0), "{}", ended.stdout);
    assert_eq!(result.totals.due, 30);
    let Run { result, .. } = with(&["--rate-min=1k".to_owned()]);
    assert_eq!(result.verdict.missed_thresholds.len(), 1, "{:?}", result.verdict);
}

#[test]
fn calls_have_thresholds_of_their_own() {
    let server = TruthServer::start(ServerModel { workers: 8, ..ServerModel::default() });
    let plan = |name: &str| {
        let text = format!(
            "target = \"{}\"\n[[call]]\ntool = \"echo\"\n[[call]]\nmethod = \"ping\"\n\
             [thresholds.call.{name}]\np99 = \"9ms\"\n[thresholds.call.ping]\np50 = \"1min\"\n",
            server.target()
        );
        let path = file_path(&format!("call-thresholds-{name}.toml"));
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let flags = ["run", "--quiet", "--plan", &path].into_iter().chain(SHORT);
        load(flags.collect::<Vec<_>>())
    };
    let ExitResult { status, stdout, stderr } = plan("echo");
    assert!(status == 1 || status == 3, "{stdout}{stderr}");
    assert!(stdout.contains("echo p99 ") && stdout.contains("limit 9 ms"), "{stdout}");
    assert!(!stdout.contains("ping p50 "), "{stdout}");
    let ExitResult { status, stderr, .. } = plan("ehco");
    assert_eq!(status, 2);
    let expected = "thresholds.call.ehco: there is no such call; did you mean echo?";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn call_threshold_applies_to_chosen_tool() {
    let model = ServerModel { transport: Transport::Http, workers: 8, ..ServerModel::default() };
    let server = TruthServer::start(model);
    let path = file_path("chosen-thresholds.toml");
    let plan = |name: &str| {
        std::fs::write(&path, format!("target = \"\"\n[thresholds.call.{name}]\np90 = \"9ms\"\n"))
            .unwrap();
        let (path, target) = (path.to_str().unwrap(), server.target());
        let flags = ["run", "--quiet", "--plan", path, &target].into_iter().chain(SHORT);
        load(flags.collect::<Vec<_>>())
    };
    let ExitResult { stdout, stderr, .. } = plan("echo");
    assert!(stdout.contains("echo p90 "), "{stdout}{stderr}");
    assert!(plan("ecko").stderr.contains("did you mean echo?"));
}
