//! A run is saturated if the backlog grows, and only then.

use std::time::Duration;

use corelane_load::result::RunStatus;
use corelane_load::target::Transport;

use super::{Run, ServerModel, run};
use crate::file_path;

const NO_WARM_UP: &str = "--warm-up=0s";

#[test]
fn excessive_rate_is_saturated_with_any_connections() {
    for (transport, connections) in
        [(Transport::Tcp, "--connections=500"), (Transport::Http, "--connections=8")]
    {
        let model = ServerModel { transport, ..ServerModel::default() };
        let flags = [connections, NO_WARM_UP, "--rate=150", "--duration=2s"];
        let Run { result, server, ended } = run(model, &flags);
        assert_eq!((result.status(), ended.status), (RunStatus::Failed, 1), "{}", ended.stdout);
        assert!(result.verdict.saturated.len() == 1, "{}", ended.stdout);
        let expected = ["saturated", "of 150/s due, backlog +"];
        assert!(expected.iter().all(|part| ended.stdout.contains(part)), "{}", ended.stdout);
        let totals = &result.totals;
        assert_eq!((totals.due, totals.answered), (300, 300));
        let truth = server.answered_within(Duration::ZERO, Duration::from_secs(2));
        assert!((totals.rate - f64::from(truth) / 2.0).abs() <= 2.0, "{truth} {}", ended.stdout);
        assert!(totals.rate <= 101.0 && totals.backlog >= 98, "{totals:?}");
        // A slope: it also depends on where in the window the server was delayed.
        let growth = totals.backlog_growth.unwrap();
        assert!((growth - (150.0 - totals.rate)).abs() <= 7.5, "{totals:?}");
    }
}

#[test]
fn responses_to_warm_up_requests_count() {
    // When the window begins, 50 requests are in flight, which are answered within it.
    let flags = ["--connections=500", "--warm-up=1s", "--rate=150", "--duration=1s"];
    let calls = [r#"{"message":"a"}"#, r#"{"message":"b"}"#];
    let calls = calls.map(|arguments| format!("--arguments={arguments}"));
    let flags = [&flags[..], &["--tool=echo", &calls[0], "--tool=echo", &calls[1]]].concat();
    let Run { result, server, ended } = run(ServerModel::default(), &flags);
    assert_eq!(result.status(), RunStatus::Failed, "{}", ended.stdout);
    let truth = server.answered_within(Duration::from_secs(1), Duration::from_secs(2));
    assert!((result.totals.rate - f64::from(truth)).abs() <= 3.0, "{truth} {}", ended.stdout);
    let rates: Vec<f64> = result.calls.iter().map(|call| call.rate).collect();
    assert_eq!(rates.len(), 2);
    assert!((rates.iter().sum::<f64>() - result.totals.rate).abs() < 1e-6, "{rates:?}");
}

#[test]
fn sustained_rate_is_not_saturated() {
    let stall = Some([Duration::from_millis(800), Duration::from_secs(1)]);
    for (model, flags) in [
        (ServerModel { stall, ..ServerModel::default() }, ["--rate=70", "--duration=2s"]),
        (ServerModel::default(), ["--rate=5", "--duration=1s"]),
        (
            ServerModel {
                workers: 500,
                service_time: Duration::from_millis(600),
                ..ServerModel::default()
            },
            ["--rate=200", "--duration=1s"],
        ),
        (ServerModel::default(), ["--closed", "--duration=1s"]),
    ] {
        let flags = [&flags[..], &["--connections=300", NO_WARM_UP]].concat();
        let Run { result, ended, .. } = run(model, &flags);
        assert_eq!(result.status(), RunStatus::Completed, "{flags:?}: {}", ended.stdout);
    }
}

/// Writes a plan of users that arrive at this rate, 8 at a time, and call once; returns its flag.
fn arrivals(rate: u32) -> String {
    let file = file_path(&format!("truth-arrivals-{rate}.toml"));
    let scenario = format!(
        "warm_up = \"0s\"\n[[phase]]\nduration = \"2s\"\n[[scenario]]\nusers = 8\nrate = {rate}\n\
         [[scenario.step]]\ntool = \"echo\"\narguments = {{ message = \"a\" }}\n"
    );
    std::fs::write(&file, scenario).unwrap();
    format!("--plan={}", file.display())
}

#[test]
fn users_that_arrive_faster_are_saturation() {
    let Run { result, server, ended } = run(ServerModel::default(), &[&arrivals(150)]);
    assert_eq!((result.status(), ended.status), (RunStatus::Failed, 1), "{}", ended.stdout);
    let [why] = &result.verdict.saturated[..] else { panic!("{}", ended.stdout) };
    let expected = "of 300 users that arrived found none of 8 connections free, backlog +";
    assert!(why.contains(expected), "{why}");
    let users = result.users.unwrap();
    let unsent = result.totals.failures["unsent"];
    assert_eq!((users.arrived, result.totals.due, result.totals.sent), (300, 300, 300 - unsent));
    let truth = server.answered_within(Duration::ZERO, Duration::from_secs(3));
    assert_eq!(u64::from(truth), result.totals.answered, "{}", ended.stdout);
}

#[test]
fn users_that_arrive_in_time_are_not_saturation() {
    let Run { result, ended, .. } = run(ServerModel::default(), &[&arrivals(40)]);
    assert_eq!(result.status(), RunStatus::Completed, "{}", ended.stdout);
    assert_eq!((result.totals.due, result.totals.answered), (80, 80), "{}", ended.stdout);
}
