//! The generator against real servers: what it counts is what happened.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use corelane_load::dialogue::{Call, Speech};
use corelane_load::generator::{self, Connecting, Drive, Finding, Fruitless, Job, Limits, Period};
use corelane_load::measure::outcome::Failure;
use corelane_load::schedule::{Pace, Profile};
use corelane_load::target::{Era, Transport};

use self::stage::Stage;

#[path = "support/stage.rs"]
mod stage;

const SPAN: Duration = Duration::from_millis(400);

fn on(stage: &Stage, transport: Transport, era: Era, drive: Drive) -> Job {
    let address = if transport == Transport::Tcp { stage.tcp } else { stage.http };
    job(address, transport, era, drive)
}

fn job(address: SocketAddr, transport: Transport, era: Era, drive: Drive) -> Job {
    let speech = Speech {
        transport,
        era,
        authority: address.to_string(),
        path: if transport == Transport::WebSocket { "/mcp/ws" } else { "/mcp" }.into(),
        fields: Vec::new(),
    };
    Job {
        calls: vec![(Call::echo(&speech, 32), 1)],
        speech,
        tls: None,
        addresses: vec![address],
        program: None,
        connect: Connecting::default(),
        connections: 4,
        depth: 2,
        drive,
        warm_up: Duration::ZERO,
        seed: 1,
        listen: None,
        limits: Limits { connect_max: Duration::from_secs(5), ..Limits::default() },
        churn: None,
        readers: None,
    }
}

fn open_loop() -> Drive {
    Drive::Open { profile: Profile::constant(1_000.0, SPAN), pace: Pace::Constant }
}

fn run(job: &Job) -> Finding {
    generator::run(job, (2, &[]), None, |_, _| {}).unwrap()
}

/// A server that answers each line by what `answer` makes of it, one connection at a time; it ends
/// with the last connection of one run.
fn stand_in(answer: impl Fn(&str) -> Option<String> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            match answer(&line) {
                Some(answer) => drop(writer.write_all(answer.as_bytes())),
                None => return,
            }
        }
    });
    address
}

#[test]
fn every_request_of_an_open_loop_is_sent_and_answered_on_every_road() {
    let stage = Stage::new();
    for transport in [Transport::Tcp, Transport::Http, Transport::WebSocket] {
        for era in [Era::Modern, Era::Legacy] {
            let finding = run(&on(&stage, transport, era, open_loop()));
            let total = &finding.total;
            let counts =
                (total.due, total.sent, total.outcomes.answered, total.outcomes.failures());
            assert_eq!(counts, (400, 400, 400, 0), "{transport:?} {era:?} {:?}", total.outcomes);
            assert_eq!(total.latencies.response().len(), 400);
            assert_eq!((finding.opened, total.lost, total.outcomes.unasked), (4, 0, 0));
        }
    }
}

#[test]
fn a_closed_loop_asks_as_fast_as_it_is_answered() {
    let stage = Stage::new();
    let finding = run(&on(&stage, Transport::Tcp, Era::Legacy, Drive::Closed { span: SPAN }));
    let outcomes = finding.total.outcomes;
    assert!(outcomes.answered > 100 && outcomes.failures() == 0, "{outcomes:?}");
    assert_eq!(finding.total.sent, outcomes.answered);
}

#[test]
fn connections_are_held_without_a_request() {
    let stage = Stage::new();
    let mut job = on(&stage, Transport::Tcp, Era::Legacy, Drive::Hold { span: SPAN });
    job.connections = 100;
    let finding = run(&job);
    assert_eq!((finding.opened, finding.total.open, finding.total.sent), (100, 100, 0));
}

#[test]
fn what_is_sent_in_the_warm_up_is_not_measured() {
    let stage = Stage::new();
    let mut job = on(&stage, Transport::Tcp, Era::Modern, open_loop());
    job.warm_up = SPAN / 2;
    assert_eq!(run(&job).total.outcomes.answered, 200);
}

#[test]
fn a_server_that_answers_garbage_or_errors_has_no_good_answers() {
    for (answer, failure) in [
        ("nonsense\n".to_owned(), Failure::Garbage),
        ("{\"id\":null,\"error\":{\"code\":-32000}}\n".to_owned(), Failure::Rpc),
    ] {
        let address = stand_in(move |_| Some(answer.clone()));
        let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
        job.connections = 1;
        let outcomes = run(&job).total.outcomes;
        assert_eq!((outcomes.answered, outcomes.failed(failure)), (0, 400), "{outcomes:?}");
    }
}

#[test]
fn a_server_that_answers_everything_twice_is_found_out() {
    let address = stand_in(|line| {
        let call: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = &call["params"]["arguments"]["message"];
        let id = &call["id"];
        let answer = format!("{{\"id\":{id},\"result\":{{\"content\":[{{\"text\":{text}}}]}}}}\n");
        Some(answer.repeat(2))
    });
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.connections = 1;
    let outcomes = run(&job).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.unasked), (400, 400));
}

#[test]
fn what_waits_for_a_server_that_never_answers_is_counted_as_timed_out_and_unsent() {
    let address = stand_in(|_| Some(String::new()));
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.connections = 1;
    job.limits.answer_max = Duration::from_millis(200);
    job.limits.due_max = 10;
    let finding = run(&job);
    let outcomes = finding.total.outcomes;
    assert_eq!((outcomes.answered, finding.total.due, finding.total.sent), (0, 400, 2));
    assert_eq!(outcomes.failed(Failure::Timeout), 2);
    assert_eq!(outcomes.failures(), 400, "{outcomes:?}");
}

#[test]
fn a_rate_that_nobody_can_keep_is_counted_to_the_last_request() {
    let stage = Stage::new();
    let profile = Profile::constant(1e7, Duration::from_millis(100));
    let drive = Drive::Open { profile, pace: Pace::Constant };
    let mut job = on(&stage, Transport::Tcp, Era::Modern, drive);
    job.limits.answer_max = Duration::from_millis(100);
    let Period { outcomes, due, sent, .. } = run(&job).total;
    assert_eq!((due, outcomes.requests()), (1_000_000, 1_000_000), "{outcomes:?}");
    assert!(sent < due && outcomes.failed(Failure::Unsent) == due - sent, "{outcomes:?}");
}

#[test]
fn a_server_that_closes_fails_what_was_in_flight() {
    let address = stand_in(|_| None);
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.connections = 1;
    job.limits.answer_max = Duration::from_millis(200);
    let finding = run(&job);
    assert!(finding.total.outcomes.failed(Failure::Closed) >= 1);
    assert!(finding.total.lost >= 1);
    assert_eq!(finding.total.outcomes.answered, 0);
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_reason() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.limits.connect_max = Duration::from_millis(100);
    let error = generator::run(&job, (1, &[]), None, |_, _| {}).unwrap_err();
    let Fruitless::Unreachable(why) = error else { panic!("{error}") };
    assert!(why.contains("refused"), "{why}");
}
