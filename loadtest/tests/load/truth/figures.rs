//! Rates, counts and latencies equal those of the server's log.

use std::time::Duration;

use corelane_load::result::RunStatus;
use corelane_load::target::Transport;
use serde_json::json;

use super::{Run, ServerModel, run};
use crate::file_path;

#[test]
fn steady_run_agrees_with_server_log() {
    for transport in [Transport::Tcp, Transport::Http] {
        let model = ServerModel { transport, ..ServerModel::default() };
        let flags = ["--rate=80", "--connections=8", "--warm-up=0s", "--duration=1s"];
        let Run { result, server, ended } = run(model, &flags);
        assert_eq!(result.status(), RunStatus::Completed, "{}", ended.stdout);
        assert_eq!((result.totals.due, result.totals.answered), (80, 80), "{}", ended.stdout);
        assert_eq!(server.arrived(), 80);
        let within = server.answered_within(Duration::ZERO, Duration::from_secs(1));
        assert!((79..=80).contains(&within), "{within}");
        assert!(result.service.p50_us >= Some(10_000.0), "{:?}", result.service);
    }
}

#[test]
fn lost_and_stalled_calls_are_reported() {
    let stall = Some([Duration::from_millis(300), Duration::from_millis(500)]);
    let model = ServerModel { workers: 4, lost_each: Some(50), stall, ..ServerModel::default() };
    let flags = ["--rate=100", "--connections=32", "--warm-up=0s", "--duration=1s"];
    let flags = [&flags[..], &["--timeout=500ms", "--errors-max=0.05"]].concat();
    let Run { result, server, ended } = run(model, &flags);
    assert_eq!(server.arrived(), 100, "{}", ended.stdout);
    assert_eq!(result.totals.failures.get("timeout"), Some(&2), "{}", ended.stdout);
    assert!(result.response.max_us >= Some(150_000.0), "{:?}", result.response);
    assert!(server.capacity() > 399.0);
}

#[test]
fn first_progress_has_its_own_latency() {
    let plan = file_path("progress.toml");
    let call = "[[call]]\ntool = \"echo\"\narguments = { message = \"a\" }\nprogress = true\n";
    std::fs::write(&plan, format!("target = \"\"\n{call}")).unwrap();
    let plan = format!("--plan={}", plan.display());
    let (progress_at, service_time) = (Some(Duration::from_millis(10)), Duration::from_millis(40));
    for transport in [Transport::Tcp, Transport::WebSocket] {
        let model = ServerModel { transport, service_time, progress_at, ..ServerModel::default() };
        // The only worker serves the requests of one connection, up to eight of which wait.
        let flags = ["--rate=20", "--connections=1", "--depth=8", "--warm-up=0s", "--duration=1s"];
        let Run { result, ended, .. } = run(model, &[&flags[..], &[&plan]].concat());
        let [event, progress] = [result.first_event, result.first_progress].map(Option::unwrap);
        assert_eq!((event.count, progress.count), (20, 20), "{}", ended.stdout);
        assert!(progress.p50_us >= Some(10_000.0) && event == progress, "{}", ended.stdout);
        assert!(progress.p50_us < result.response.p50_us.map(|us| us - 20_000.0), "{progress:?}");
        assert!(ended.stdout.contains("\nfirst progress "), "{}", ended.stdout);
    }
}

#[test]
fn figures_without_data_are_dashes_and_null() {
    let model = ServerModel { lost_each: Some(1), ..ServerModel::default() };
    let flags = ["--rate=20", "--connections=8", "--warm-up=0s", "--duration=500ms"];
    let Run { result, ended, .. } = run(model, &[&flags[..], &["--timeout=300ms"]].concat());
    assert_eq!(result.totals.answered, 0, "{}", ended.stdout);
    let row = ended.stdout.lines().find(|line| line.starts_with("response")).unwrap();
    assert!(row.contains('–') && !row.contains('0'), "{row}");
    assert!(!ended.stdout.contains("CPU per response"), "{}", ended.stdout);
    let file = serde_json::to_value(&result).unwrap();
    assert!(file["response"]["p99_us"].is_null() && file["response"]["p95_us"].is_null());
    assert!(file["generator"]["cpu_us_per_response"].is_null());
    assert!(file["seconds"][0]["p50_us"].is_null(), "{}", file["seconds"][0]);
    assert_eq!((file["totals"]["rate"].as_f64(), &file["server"]), (Some(0.0), &json!(null)));
}
