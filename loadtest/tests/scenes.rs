//! Connections that come and go, that read slowly, and answers that come as streams, against real
//! servers: what is counted of them is what happened.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use corelane_load::generator::{self, Finding, Job};
use corelane_load::measure::outcome::Failure;
use corelane_load::plan::Plan;
use corelane_load::report::table::table;
use corelane_load::result::{Manifest, RunResult};

use self::program::{Ended, load};
use self::sessions::Sessions;
use self::stage::Stage;
use self::stall::stall;

#[path = "support/program.rs"]
mod program;
#[path = "support/sessions.rs"]
mod sessions;
#[path = "support/stage.rs"]
mod stage;
#[path = "support/stall.rs"]
mod stall;

/// What every plan here begins with: four connections, and nothing that is not measured.
fn plan(target: &str, rest: &str) -> Plan {
    let text = format!("target = \"{target}\"\nconnections = 4\nwarm_up = \"0s\"\n{rest}");
    toml::from_str(&text).unwrap()
}

fn job(target: &str, rest: &str) -> Job {
    plan(target, rest).job().unwrap()
}

fn run(job: &Job) -> Finding {
    generator::run(job, (2, &[]), None, |_, _| {}).unwrap()
}

/// 400 requests.
const PHASE: &str = "[[phase]]\nrate = 1000\nspan = \"400ms\"\n";
/// Connections and nothing else.
const HOLD: &str = "[[phase]]\nrate = 0\nspan = \"400ms\"\n";

/// A server that answers each line of each connection by what `answer` makes of it; where that is
/// nothing the connection ends. It lives as long as the test.
fn stand_in(answer: impl Fn(&str) -> Option<String> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let Some(answer) = answer(&line) else { return };
                    writer.write_all(answer.as_bytes()).unwrap_or(());
                }
            });
        }
    });
    address
}

/// The right answer to a call of the tool `echo`, or to any other request.
fn echo(line: &str) -> String {
    let call: serde_json::Value = serde_json::from_str(line).unwrap();
    let text = &call["params"]["arguments"]["message"];
    let Some(id) = call.get("id") else { return String::new() };
    format!("{{\"id\":{id},\"result\":{{\"content\":[{{\"text\":{text}}}]}}}}\n")
}

#[test]
fn the_time_that_each_connection_took_to_open_is_known_in_every_run() {
    let stage = Stage::new();
    let openings = run(&job(&format!("ws://{}", stage.http), HOLD)).total.openings;
    assert_eq!((openings.opened, openings.connect.len()), (4, 4));
    assert!(openings.connect.min() > 0 && openings.churn.is_empty());
}

#[test]
fn connections_that_come_and_go_cost_no_request_on_any_road() {
    let stage = Stage::new();
    for (scheme, address) in [("tcp", stage.tcp), ("http", stage.http), ("ws", stage.http)] {
        for era in ["modern", "legacy"] {
            let rest = format!("era = \"{era}\"\n{PHASE}[churn]\nrate = 50\n");
            let total = run(&job(&format!("{scheme}://{address}"), &rest)).total;
            let (outcomes, openings) = (total.outcomes, total.openings);
            let counts = (total.sent, outcomes.answered, outcomes.failures(), total.lost);
            assert_eq!(counts, (400, 400, 0, 0), "{scheme} {era} {outcomes:?}");
            assert_eq!((openings.opened, openings.churn.len()), (24, 20), "{scheme} {era}");
            assert_eq!((openings.unopened, openings.undeleted, total.open), (0, 0, 4));
        }
    }
}

#[test]
fn sessions_are_deleted_unless_they_are_to_be_left() {
    for (how, deleted) in [("delete", 20), ("leave", 0)] {
        let (address, sessions) = Sessions::serve();
        let churn = format!("[churn]\nrate = 50\nsessions = \"{how}\"\n");
        let rest = format!("era = \"legacy\"\n{PHASE}{churn}[[call]]\nmethod = \"ping\"\n");
        let total = run(&job(&format!("http://{address}"), &rest)).total;
        assert_eq!((total.outcomes.answered, total.lost), (400, 0), "{how}");
        assert_eq!((sessions.begun(), sessions.deleted()), (24, deleted), "{how}");
        assert_eq!(total.openings.undeleted, 0);
    }
}

#[test]
fn a_storm_replaces_as_many_as_it_should_whenever_it_comes() {
    let stage = Stage::new();
    let target = format!("tcp://{}", stage.tcp);
    for (storm, count) in [
        ("at = \"100ms\"", 4),
        ("at = \"100ms\"\nevery = \"100ms\"", 12),
        ("at = \"0s\"\nconnections = 3", 3),
    ] {
        let rest = format!("era = \"legacy\"\n{HOLD}[churn.storm]\n{storm}\n");
        let openings = run(&job(&target, &rest)).total.openings;
        assert_eq!((openings.storm.len(), openings.opened), (count, 4 + count), "{storm}");
        assert_eq!((openings.unopened, openings.churn.len()), (0, 0));
    }
}

#[test]
fn who_is_not_let_in_again_is_counted_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        // Its end is heard, and answered by ours.
        BufReader::new(stream).lines().for_each(drop);
    });
    let mut job = job(&format!("tcp://{address}"), &format!("{HOLD}[churn]\nrate = 50\n"));
    job.connections = 1;
    job.limits.answer_max = Duration::from_millis(200);
    let openings = run(&job).total.openings;
    assert_eq!((openings.opened, openings.unopened), (1, 20));
    assert!(openings.refused(Failure::Connect) >= 1);
}

#[test]
fn a_replacement_that_is_late_counts_from_the_moment_at_which_it_was_due() {
    // Each handshake takes 30 ms, and a new one is due every 10 ms.
    let address = stand_in(|line| {
        if line.contains("\"initialize\"") {
            stall(Duration::from_millis(30));
        }
        Some(echo(line))
    });
    let rest = format!("era = \"legacy\"\n{HOLD}[churn]\nrate = 100\n");
    let mut job = job(&format!("tcp://{address}"), &rest);
    job.connections = 1;
    let openings = run(&job).total.openings;
    assert_eq!(openings.churn.len(), 40);
    // The last was due after 390 ms and came after 40 × 30 ms.
    assert!(openings.churn.max() > 800_000_000, "{}", openings.churn.max());
    assert!(openings.connect.max() < openings.churn.max());
}

#[test]
fn a_connection_whose_answers_never_come_goes_when_they_are_given_up() {
    let address = stand_in(|_| Some(String::new()));
    let rest = format!("{PHASE}[churn.storm]\nat = \"200ms\"\n");
    let mut job = job(&format!("tcp://{address}"), &rest);
    job.limits.answer_max = Duration::from_millis(300);
    let total = run(&job).total;
    assert_eq!(total.openings.storm.len() + total.openings.unopened, 4);
    assert_eq!((total.outcomes.answered, total.lost), (0, 0));
    assert!(total.outcomes.failed(Failure::Timeout) >= 4, "{:?}", total.outcomes);
}

#[test]
fn slow_readers_have_figures_of_their_own_and_get_all_they_asked_for_in_the_end() {
    let stage = Stage::new();
    for (scheme, address) in [("tcp", stage.tcp), ("http", stage.http), ("ws", stage.http)] {
        for speed in [0, 1_000] {
            let readers = format!("[readers]\nslow = 2\nbytes_per_second = {speed}\ndepth = 8\n");
            let rest = format!("{PHASE}{readers}bytes = 2000\n");
            let total = run(&job(&format!("{scheme}://{address}"), &rest)).total;
            let slow = total.slow;
            // Who never reads asks no more than fits.
            let is_bounded = if speed == 0 { slow.asked == 16 } else { slow.asked >= 16 };
            assert!(is_bounded, "{scheme} {speed} {slow:?}");
            assert_eq!((slow.answered, slow.failed, slow.closed), (slow.asked, 0, 0), "{scheme}");
            let others = (total.sent, total.outcomes.answered, total.outcomes.failures());
            assert_eq!(others, (400, 400, 0), "{scheme} {speed}");
        }
    }
}

#[test]
fn a_slow_reader_that_the_server_closes_is_counted_and_not_lost() {
    // The one that asks for nine letters is slow.
    let address =
        stand_in(|line| if line.contains("abcdefghi\"") { None } else { Some(echo(line)) });
    let readers = "[readers]\nslow = 1\nbytes_per_second = 0\nbytes = 9\n";
    let total = run(&job(&format!("tcp://{address}"), &format!("{PHASE}{readers}"))).total;
    assert!(total.slow.closed >= 1, "{:?}", total.slow);
    assert_eq!((total.outcomes.answered, total.slow.answered, total.lost), (400, 0, 0));
}

#[test]
fn answers_with_progress_are_told_as_streams_and_notices() {
    let stage = Stage::new();
    let call = "[[call]]\ntool = \"slow\"\narguments = { steps = 3, step_ms = 1 }\n\
                progress = true\nexpect = \"took 3 steps of 1 ms\"\n";
    for (scheme, address, streams) in
        [("tcp", stage.tcp, 0), ("http", stage.http, 40), ("ws", stage.http, 0)]
    {
        for era in ["modern", "legacy"] {
            let phase = "[[phase]]\nrate = 100\nspan = \"400ms\"\n";
            let rest = format!("era = \"{era}\"\n{phase}{call}");
            let outcomes = run(&job(&format!("{scheme}://{address}"), &rest)).total.outcomes;
            let counts = (outcomes.answered, outcomes.streamed, outcomes.notices);
            assert_eq!(counts, (40, streams, 120), "{scheme} {era} {outcomes:?}");
        }
    }
}

#[test]
fn a_result_shows_what_was_asked_for_and_reads_without_it() {
    let stage = Stage::new();
    let rest = format!("{PHASE}[churn]\nrate = 50\n[readers]\nslow = 1\nat = \"100ms\"\n");
    let plan = plan(&format!("http://{}", stage.http), &rest);
    let finding = run(&plan.job().unwrap());
    let result = RunResult::new(plan, Manifest::of(&finding, 0), &finding);
    let shown = table(&result);
    for row in ["connect ", "churn ", "opened   24 connections", "slow "] {
        assert!(shown.lines().any(|line| line.starts_with(row)), "{row} is not in: {shown}");
    }
    let mut written = serde_json::to_value(&result).unwrap();
    assert_eq!(written["openings"]["churn"]["count"], 20);
    // What was written before there were any of these is still read.
    let members = written.as_object_mut().unwrap();
    for member in ["openings", "readers", "drift"] {
        assert!(members.remove(member).is_some(), "{member}");
    }
    let read: RunResult = serde_json::from_value(written).unwrap();
    assert_eq!(read.openings.opened, 0);
}

#[test]
fn churn_can_be_asked_for_by_flags() {
    let (address, sessions) = Sessions::serve();
    let target = format!("http://{address}");
    let churn = |flags: &[&str]| {
        let brief = ["--era=legacy", "--connections=2", "--warm-up=0s", "--span=300ms"];
        load(["run", target.as_str(), "--rate=0"].iter().chain(&brief).chain(flags).copied())
    };
    let Ended { out, .. } = churn(&["--churn=100", "--leave-sessions"]);
    assert!(out.contains("\nopened   32 connections\n"), "{out}");
    assert_eq!((sessions.begun(), sessions.deleted()), (32, 0));
    for (flags, part) in [(&["--leave-sessions"], "--churn 100"), (&["--churn=-1"], "from 0 to")] {
        let Ended { status, said, .. } = churn(flags);
        assert_eq!((status, said.lines().count()), (2, 1), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
