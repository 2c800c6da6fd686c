//! Tests of the fan-out: delivered and missed notifications are counted.
//!
//! The tests do not depend on speed: a run ends when all notifications have arrived, or their time
//! is over.

#![expect(clippy::unwrap_used, reason = "test setup")]

mod notifying_server;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use corelane_load::generator::{self, Measurements, RunError};
use corelane_load::plan::listen::{ListKind, SubscriptionPlan};
use corelane_load::plan::{CallPlan, HumanDuration, ListenPlan, PhasePlan, Plan};
use corelane_load::report::table::table;
use corelane_load::result::{Manifest, RunOrigin, RunResult};
use corelane_load::target::Era;
use corelane_test_support::TestServer;

use self::notifying_server::{NotifyBehaviour, NotifyingServer};
use crate::LOAD;

/// Returns a plan with one publication that may be received within `heard_max`.
fn plan(target: String, era: Era, listen: ListenPlan, heard_max: Duration) -> Plan {
    let every = HumanDuration::from(heard_max);
    Plan {
        era: Some(era),
        connections: 2,
        warm_up: HumanDuration::from_secs(0),
        response_timeout: every,
        connect_timeout: HumanDuration::from_secs(10),
        phases: vec![PhasePlan::constant(500.0, HumanDuration::from(Duration::from_millis(200)))],
        listen: Some(ListenPlan { every, ..listen }),
        ..Plan::new(target)
    }
}

fn run(plan: &Plan) -> Measurements {
    generator::run(&plan.run_config().unwrap(), 2, &[], None, |_, _| {}).unwrap()
}

/// Asserts that all streams received every publication once, and that all requests succeeded.
fn assert_all_delivered(finding: &Measurements, streams: u64, publications: usize, what: &str) {
    let total = &finding.total;
    assert_eq!(
        (finding.open_streams, finding.publications.len()),
        (streams, publications),
        "{what}"
    );
    for publication in &finding.publications {
        assert_eq!(publication.received, streams, "{what}");
        assert!(publication.first <= publication.median && publication.median <= publication.last);
        assert!(publication.first > Some(0), "{what}");
    }
    let listened = &total.fanout;
    assert_eq!((listened.stray, listened.lost, total.connects.lost), (0, 0, 0), "{what}");
    let publishing = &listened.publish_outcomes;
    assert_eq!((publishing.answered, publishing.failures()), (publications as u64, 0), "{what}");
    assert_eq!(total.outcomes.failures(), 0, "{what} {:?}", total.outcomes);
    assert_eq!(total.outcomes.answered, total.due, "{what}");
}

const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn list_change_reaches_every_stream_beside_requests() {
    let test_server = TestServer::for_load();
    for target in targets(&test_server) {
        for era in [Era::Modern, Era::Legacy] {
            for (list, what) in [(ListKind::Tools, "tools"), (ListKind::Prompts, "prompts")] {
                let listen = ListenPlan { to: SubscriptionPlan::List(list), ..ListenPlan::new(6) };
                let finding = run(&plan(target.clone(), era, listen, TIMEOUT));
                // Two for requests, six streams, one publisher.
                assert_eq!(finding.opened, 9);
                assert_all_delivered(&finding, 6, 1, &format!("{target} {era:?} {what}"));
                assert_eq!(finding.total.due, 100);
            }
        }
    }
}

#[test]
fn resource_update_reaches_every_stream() {
    let test_server = TestServer::for_load();
    for target in targets(&test_server) {
        for era in [Era::Modern, Era::Legacy] {
            let uris = ["test://watched-resource", "test://static-text"].map(String::from);
            let to = SubscriptionPlan::Uris(uris.into());
            let publish = Some(CallPlan::tool("touch"));
            let listen = ListenPlan { to, publish, ..ListenPlan::new(5) };
            let finding = run(&plan(target.clone(), era, listen, TIMEOUT));
            assert_all_delivered(&finding, 5, 1, &format!("{target} {era:?}"));
        }
    }
}

#[test]
fn streams_sharing_a_connection_each_receive_notification() {
    let test_server = TestServer::for_load();
    for target in [format!("tcp://{}", test_server.tcp()), format!("ws://{}", test_server.http())] {
        let listen = ListenPlan { per_connection: 4, ..ListenPlan::new(12) };
        let finding = run(&plan(target.clone(), Era::Modern, listen, TIMEOUT));
        assert_eq!(finding.opened, 2 + 3 + 1);
        assert_all_delivered(&finding, 12, 1, &target);
    }
}

#[test]
fn publications_in_warm_up_are_not_measured() {
    let test_server = TestServer::for_load();
    let every = Duration::from_secs(2);
    let mut plan =
        plan(format!("http://{}", test_server.http()), Era::Modern, ListenPlan::new(3), every);
    plan.warm_up = HumanDuration::from(Duration::from_millis(100));
    plan.phases = vec![PhasePlan::constant(50.0, HumanDuration::from_secs(4))];
    // At 0, 2 and 4 s; the first is in the warm-up.
    let finding = run(&plan);
    let numbers: Vec<u32> = finding.publications.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(finding.total.fanout.publish_outcomes.answered, 2);
}

#[test]
fn listen_result_is_shown_and_round_trips() {
    let test_server = TestServer::for_load();
    let target = format!("http://{}", test_server.http());
    let mut plan = plan(target, Era::Modern, ListenPlan::new(4), TIMEOUT);
    plan.thresholds.last_delivery = Some(HumanDuration::from(TIMEOUT));
    plan.thresholds.errors = Some(0.0);
    let finding = run(&plan);
    let result = RunResult::new(plan, Manifest::of(&finding, 0, &RunOrigin::default()), &finding);
    assert!(result.verdict.missed_thresholds.is_empty(), "{:?}", result.verdict);
    let listen = result.listen.as_ref().unwrap();
    assert_eq!((listen.streams, listen.opened, listen.delivered, listen.missed), (4, 4, 4, 0));
    assert!(listen.bytes > 4 * 100 && listen.first.min_us <= listen.last.max_us);
    let shown = table(&result);
    let counts =
        "listen   4 of 4 streams · 1 publications · 4 delivered · 0 missed · 0 unexpected\n";
    assert!(shown.contains(counts) && shown.contains("\ndelivery first "), "{shown}");
    let mut written = serde_json::to_value(&result).unwrap();
    let read: RunResult = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read.listen, result.listen);
    written.as_object_mut().unwrap().remove("listen");
    assert_eq!(serde_json::from_value::<RunResult>(written).unwrap().listen, None);
}

#[test]
fn listen_flag_opens_streams() {
    let test_server = TestServer::for_load();
    let output = Command::new(LOAD)
        .args(["run", &format!("tcp://{}", test_server.tcp()), "--listen=3", "--quiet"])
        .args(["--rate=100", "--warm-up=0s", "--duration=300ms", "--connections=2"])
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("listen   3 of 3 streams · 1 publications · "), "{out}");
}

/// Runs four streams against a server that notifies in this way.
fn listen_to(behaviour: NotifyBehaviour) -> (Measurements, RunResult, NotifyingServer) {
    let notifying_server = NotifyingServer::start(behaviour);
    let plan = four_stream_plan(notifying_server.address);
    let finding = run(&plan);
    let result = RunResult::new(plan, Manifest::of(&finding, 0, &RunOrigin::default()), &finding);
    (finding, result, notifying_server)
}

/// Returns a plan of four streams with one publication that may be received within two seconds.
fn four_stream_plan(address: SocketAddr) -> Plan {
    let listen = ListenPlan::new(4);
    let mut plan = plan(format!("tcp://{address}"), Era::Modern, listen, Duration::from_secs(2));
    plan.phases = vec![PhasePlan::constant(0.0, HumanDuration::from(Duration::from_millis(200)))];
    plan.thresholds.last_delivery = Some(HumanDuration::from_secs(60));
    plan.thresholds.errors = Some(0.0);
    plan
}

#[test]
fn missed_notifications_fail_the_run() {
    for (behaviour, received) in
        [(NotifyBehaviour::Limited(3), 3), (NotifyBehaviour::Limited(0), 0)]
    {
        let (finding, result, _) = listen_to(behaviour);
        let listen = result.listen.unwrap();
        assert_eq!(
            (listen.delivered, listen.missed, listen.unexpected),
            (received, 4 - received, 0)
        );
        assert_eq!(finding.publications[0].first.is_some(), received > 0);
        assert_eq!(result.verdict.missed_thresholds.len(), 2, "{:?}", result.verdict);
        assert_eq!(finding.total.fanout.publish_outcomes.answered, 1);
    }
}

#[test]
fn duplicate_notification_counts_as_unexpected() {
    let (_, result, _) = listen_to(NotifyBehaviour::Twice);
    let listen = result.listen.unwrap();
    assert_eq!((listen.delivered, listen.missed, listen.unexpected), (4, 0, 4));
    assert!(
        result.verdict.missed_thresholds[0].starts_with("4 notifications"),
        "{:?}",
        result.verdict
    );
}

#[test]
fn ended_stream_is_lost_and_reopened() {
    for behaviour in [NotifyBehaviour::End, NotifyBehaviour::Close] {
        let (finding, result, notifying_server) = listen_to(behaviour);
        let listen = result.listen.unwrap();
        assert_eq!((listen.delivered, listen.missed, listen.lost), (3, 1, 1), "{behaviour:?}");
        assert_eq!(finding.total.connects.lost, u64::from(behaviour == NotifyBehaviour::Close));
        assert_eq!(notifying_server.listens(), 5, "{behaviour:?}");
    }
}

#[test]
fn failed_publish_is_counted_by_kind() {
    let (_, result, _) = listen_to(NotifyBehaviour::RejectPublish);
    let listen = result.listen.unwrap();
    assert_eq!(listen.failures.into_iter().collect::<Vec<_>>(), [("rpc_error".into(), 1)]);
    assert_eq!((listen.delivered, listen.missed), (0, 4));
    assert_eq!(result.totals.failures.len(), 0, "requests are counted separately");
    let example = &result.failure_examples["rpc_error"];
    assert!(example.contains("-32603"), "{example}");
}

#[test]
fn lost_publish_answer_times_out() {
    let (_, result, _) = listen_to(NotifyBehaviour::LosePublish);
    let listen = result.listen.unwrap();
    assert_eq!(listen.failures.into_iter().collect::<Vec<_>>(), [("timeout".into(), 1)]);
    assert_eq!((listen.delivered, listen.missed), (4, 0));
    assert!(result.failure_examples.contains_key("timeout"), "{:?}", result.failure_examples);
}

#[test]
fn rejected_subscription_is_reported_with_reason() {
    let notifying_server = NotifyingServer::start(NotifyBehaviour::RejectListen);
    let mut plan = four_stream_plan(notifying_server.address);
    plan.connect_timeout = HumanDuration::from(Duration::from_millis(500));
    let error = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {}).unwrap_err();
    let RunError::NoSubscription(why) = error else { panic!("{error}") };
    assert!(why.contains("rpc_error") && why.contains("-32601"), "{why}");
}

#[test]
fn shipped_fan_out_plans_are_valid() {
    for (name, streams) in [("fan-out", 1_000), ("fan-out-50000", 50_000)] {
        let path = format!("{}/plans/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let plan = Plan::read(path.as_ref()).unwrap();
        assert_eq!(plan.run_config().unwrap().roles.subscribers.unwrap().streams, streams);
        assert_eq!(plan.total_connections(), 64 + streams + 1);
    }
}

fn targets(test_server: &TestServer) -> [String; 3] {
    let (tcp, http) = (test_server.tcp(), test_server.http());
    [format!("tcp://{tcp}"), format!("http://{http}"), format!("ws://{http}")]
}
