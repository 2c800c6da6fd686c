//! The fan-out: who hears of what is published is counted, and who does not is, too.
//!
//! Nothing here depends on how fast anything is: where all are to hear, a run ends when all have
//! heard, and may take long; where some are not, it ends when nothing more counts.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use corelane_load::generator::{self, Finding, Fruitless};
use corelane_load::plan::listen::{ListPlan, ListenedPlan};
use corelane_load::plan::{CallPlan, ListenPlan, PhasePlan, Plan, Span};
use corelane_load::report::table::table;
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::Era;

use self::stage::Stage;
use self::teller::{Manner, Teller};

#[path = "support/stage.rs"]
mod stage;
#[path = "support/teller.rs"]
mod teller;

/// A plan of one publication, of which may be heard for so long.
fn plan(target: String, era: Era, listen: ListenPlan, heard_max: Duration) -> Plan {
    let every = Span::from(heard_max);
    Plan {
        era,
        connections: 2,
        warm_up: Span::seconds(0),
        answer_max: every,
        connect_max: Span::seconds(10),
        phases: vec![PhasePlan::constant(500.0, Span::from(Duration::from_millis(200)))],
        listen: Some(ListenPlan { every, ..listen }),
        ..Plan::new(target)
    }
}

fn run(plan: &Plan) -> Finding {
    generator::run(&plan.job().unwrap(), (2, &[]), None, |_, _| {}).unwrap()
}

/// Asserts that all of so many streams heard of everything, once, and that the rest went on.
fn assert_heard(finding: &Finding, (streams, publications): (u64, usize), what: &str) {
    let total = &finding.total;
    assert_eq!((finding.listening, finding.publications.len()), (streams, publications), "{what}");
    for publication in &finding.publications {
        assert_eq!(publication.heard, streams, "{what}");
        assert!(publication.first <= publication.median && publication.median <= publication.last);
        assert!(publication.first > Some(0), "{what}");
    }
    let listened = &total.listened;
    assert_eq!((listened.stray, listened.lost, total.lost), (0, 0, 0), "{what}");
    let publishing = &listened.publishing;
    assert_eq!((publishing.answered, publishing.failures()), (publications as u64, 0), "{what}");
    assert_eq!(total.outcomes.failures(), 0, "{what} {:?}", total.outcomes);
    assert_eq!(total.outcomes.answered, total.due, "{what}");
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn every_stream_hears_of_a_change_on_every_road_and_requests_go_on() {
    let stage = Stage::new();
    for target in roads(&stage) {
        for era in [Era::Modern, Era::Legacy] {
            for (list, what) in [(ListPlan::Tools, "tools"), (ListPlan::Prompts, "prompts")] {
                let listen = ListenPlan { to: ListenedPlan::List(list), ..ListenPlan::new(6) };
                let finding = run(&plan(target.clone(), era, listen, PATIENCE));
                // Two for requests, six that listen, one that publishes.
                assert_eq!(finding.opened, 9);
                assert_heard(&finding, (6, 1), &format!("{target} {era:?} {what}"));
                assert_eq!(finding.total.due, 100);
            }
        }
    }
}

#[test]
fn every_stream_hears_of_a_resource_on_every_road() {
    let stage = Stage::new();
    for target in roads(&stage) {
        for era in [Era::Modern, Era::Legacy] {
            let uris = ["test://watched-resource", "test://static-text"].map(String::from);
            let to = ListenedPlan::Uris(uris.into());
            let publish = Some(CallPlan::tool("touch"));
            let listen = ListenPlan { to, publish, ..ListenPlan::new(5) };
            let finding = run(&plan(target.clone(), era, listen, PATIENCE));
            assert_heard(&finding, (5, 1), &format!("{target} {era:?}"));
        }
    }
}

#[test]
fn several_streams_of_a_connection_hear_in_their_own_names() {
    let stage = Stage::new();
    for target in [format!("tcp://{}", stage.tcp), format!("ws://{}", stage.http)] {
        let listen = ListenPlan { per_connection: 4, ..ListenPlan::new(12) };
        let finding = run(&plan(target.clone(), Era::Modern, listen, PATIENCE));
        assert_eq!(finding.opened, 2 + 3 + 1);
        assert_heard(&finding, (12, 1), &target);
    }
}

#[test]
fn publications_follow_each_other_and_the_warm_up_is_not_measured() {
    let stage = Stage::new();
    let every = Duration::from_secs(2);
    let mut plan = plan(format!("http://{}", stage.http), Era::Modern, ListenPlan::new(3), every);
    plan.warm_up = Span::from(Duration::from_millis(100));
    plan.phases = vec![PhasePlan::constant(50.0, Span::seconds(4))];
    // At 0, 2 and 4 s, the first of them in the warm-up.
    let finding = run(&plan);
    let numbers: Vec<u32> = finding.publications.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(finding.total.listened.publishing.answered, 2);
}

#[test]
fn what_came_of_it_is_shown_in_two_lines_and_survives_being_written() {
    let stage = Stage::new();
    let target = format!("http://{}", stage.http);
    let mut plan = plan(target, Era::Modern, ListenPlan::new(4), PATIENCE);
    plan.thresholds.last = Some(Span::from(PATIENCE));
    plan.thresholds.errors = Some(0.0);
    let finding = run(&plan);
    let result = RunResult::new(plan, Manifest::of(&finding, 0), &finding);
    assert!(result.verdict.missed.is_empty(), "{:?}", result.verdict);
    let listen = result.listen.as_ref().unwrap();
    assert_eq!((listen.streams, listen.opened, listen.delivered, listen.missed), (4, 4, 4, 0));
    assert!(listen.bytes > 4 * 100 && listen.first.min_us <= listen.last.max_us);
    let shown = table(&result);
    let counts = "listen   4 of 4 streams · 1 publications · 4 delivered · 0 missed · 0 stray\n";
    assert!(shown.contains(counts) && shown.contains("\nheard    first "), "{shown}");
    let mut written = serde_json::to_value(&result).unwrap();
    let read: RunResult = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read.listen, result.listen);
    written.as_object_mut().unwrap().remove("listen");
    assert_eq!(serde_json::from_value::<RunResult>(written).unwrap().listen, None);
}

#[test]
fn a_flag_is_enough_to_listen() {
    let stage = Stage::new();
    let output = Command::new(env!("CARGO_BIN_EXE_corelane-load"))
        .args(["run", &format!("tcp://{}", stage.tcp), "--listen=3", "--quiet"])
        .args(["--rate=100", "--warm-up=0s", "--span=300ms", "--connections=2"])
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("listen   3 of 3 streams · 1 publications · "), "{out}");
}

/// A server that tells in this manner, four streams that listen to it, and what came of that.
fn listen_to(manner: Manner) -> (Finding, RunResult, Teller) {
    let teller = Teller::start(manner);
    let plan = stand_in_plan(teller.address);
    let finding = run(&plan);
    let result = RunResult::new(plan, Manifest::of(&finding, 0), &finding);
    (finding, result, teller)
}

/// A plan of four streams whose one publication may be heard of for two seconds.
fn stand_in_plan(address: SocketAddr) -> Plan {
    let listen = ListenPlan::new(4);
    let mut plan = plan(format!("tcp://{address}"), Era::Modern, listen, Duration::from_secs(2));
    plan.phases = vec![PhasePlan::constant(0.0, Span::from(Duration::from_millis(200)))];
    plan.thresholds.last = Some(Span::seconds(60));
    plan.thresholds.errors = Some(0.0);
    plan
}

#[test]
fn streams_that_are_not_told_are_missed_and_the_run_does_not_pass() {
    for (manner, heard) in [(Manner::Some(3), 3), (Manner::Some(0), 0)] {
        let (finding, result, _) = listen_to(manner);
        let listen = result.listen.unwrap();
        assert_eq!((listen.delivered, listen.missed, listen.stray), (heard, 4 - heard, 0));
        assert_eq!(finding.publications[0].first.is_some(), heard > 0);
        assert_eq!(result.verdict.missed.len(), 2, "{:?}", result.verdict);
        assert_eq!(finding.total.listened.publishing.answered, 1);
    }
}

#[test]
fn what_is_told_twice_counts_once_and_is_stray() {
    let (_, result, _) = listen_to(Manner::Twice);
    let listen = result.listen.unwrap();
    assert_eq!((listen.delivered, listen.missed, listen.stray), (4, 0, 4));
    assert!(result.verdict.missed[0].starts_with("4 notifications"), "{:?}", result.verdict);
}

#[test]
fn a_stream_that_ends_is_lost_and_opened_again() {
    for manner in [Manner::End, Manner::Close] {
        let (finding, result, teller) = listen_to(manner);
        let listen = result.listen.unwrap();
        assert_eq!((listen.delivered, listen.missed, listen.lost), (3, 1, 1), "{manner:?}");
        assert_eq!(finding.total.lost, u64::from(manner == Manner::Close));
        assert_eq!(teller.listens(), 5, "{manner:?}");
    }
}

#[test]
fn a_publication_that_fails_is_counted_with_its_kind() {
    let (_, result, _) = listen_to(Manner::Refuse);
    let listen = result.listen.unwrap();
    assert_eq!(listen.failures.into_iter().collect::<Vec<_>>(), [("rpc_error".into(), 1)]);
    assert_eq!((listen.delivered, listen.missed), (0, 4));
    assert_eq!(result.totals.failures.len(), 0, "requests are counted apart");
}

#[test]
fn a_server_that_lets_nobody_listen_is_told_with_its_reason() {
    let teller = Teller::start(Manner::Deaf);
    let mut plan = stand_in_plan(teller.address);
    plan.connect_max = Span::from(Duration::from_millis(500));
    let error = generator::run(&plan.job().unwrap(), (1, &[]), None, |_, _| {}).unwrap_err();
    let Fruitless::Unheard(why) = error else { panic!("{error}") };
    assert!(why.contains("rpc_error") && why.contains("-32601"), "{why}");
}

#[test]
fn the_plans_that_ship_are_plans() {
    for (name, streams) in [("fan-out", 1_000), ("fan-out-50000", 50_000)] {
        let path = format!("{}/plans/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let plan = Plan::read(path.as_ref()).unwrap();
        assert_eq!(plan.job().unwrap().listen.unwrap().streams, streams);
        assert_eq!(plan.connections_all(), 64 + streams + 1);
    }
}

fn roads(stage: &Stage) -> [String; 3] {
    let (tcp, http) = (stage.tcp, stage.http);
    [format!("tcp://{tcp}"), format!("http://{http}"), format!("ws://{http}")]
}
