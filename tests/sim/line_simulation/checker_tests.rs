//! Tests of the checkers: each must reject what violates its rules.

use std::time::Duration;

use corelane::internal::demo;
use corelane::{Options, Server};
use corelane_base::time::Instant;
use corelane_protocol::model::Implementation;
use serde_json::{Value, json};

use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::line_simulation::action::LineAction;
use crate::line_simulation::expectation::{
    CallEnd, DeferredResponse, Expectation, ImmediateResponse,
};
use crate::line_simulation::expected_response::ExpectedResponse;
use crate::line_simulation::input_end::{HalfCloseRule, InputEnd};
use crate::line_simulation::response_checker::ResponseChecker;
use crate::line_simulation::scenario::{Scenario, ScenarioKind};
use crate::line_simulation::simulation;
use crate::mesh_simulation::delivery_checker::DeliveryChecker;

/// A checker that expects these messages.
fn checker(notes: Vec<Expectation>) -> ResponseChecker {
    let mut conversation = ResponseChecker::new(false, usize::MAX, false);
    conversation.record_sent(notes.into_iter().map(|note| vec![note]).collect());
    conversation
}

fn expect_echo(id: u64) -> Expectation {
    Expectation::Immediate(ImmediateResponse::new(
        json!(id),
        ExpectedResponse::Echo(format!("words of {id}")),
    ))
}

fn expect_slow(id: u64, ending: CallEnd) -> Expectation {
    let answer = ExpectedResponse::Slow { steps: 2, step_ms: 1 };
    Expectation::Deferred(DeferredResponse {
        id: json!(id),
        expected: answer,
        token: Some(json!("t")),
        steps: 2,
        end: ending,
    })
}

fn text_result(id: u64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

fn echo_response(id: u64) -> Value {
    text_result(id, &format!("words of {id}"))
}

fn slow_response(id: u64) -> Value {
    text_result(id, "took 2 steps of 1 ms")
}

fn progress(progress: u64) -> Value {
    let params = json!({"progressToken": "t", "progress": progress, "total": 2});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn error_response(id: &Value, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
}

/// Checks all messages; returns the result of the last one, and requires the others to pass.
fn check_last(mut conversation: ResponseChecker, received: &[Value]) -> Result<(), String> {
    let mut last = Ok(());
    for message in received {
        assert_eq!(last, Ok(()), "{received:?}");
        last = conversation.check_line(message.to_string().as_bytes());
    }
    last
}

#[test]
fn expected_responses_are_accepted() {
    let notes = vec![expect_echo(1), expect_slow(2, CallEnd::Result), expect_echo(3)];
    let received = [echo_response(1), echo_response(3), progress(1), progress(2), slow_response(2)];
    assert_eq!(check_last(checker(notes), &received), Ok(()));
}

#[test]
fn wrong_response_is_rejected() {
    let notes = || vec![expect_echo(1), expect_echo(2)];
    let wrong = [
        vec![text_result(1, "other words")],
        vec![echo_response(2)],
        vec![text_result(1, "words of 2")],
        vec![echo_response(1), echo_response(1)],
        vec![echo_response(1), echo_response(2), echo_response(2)],
        vec![error_response(&json!(1), -32603)],
        vec![json!({"id": 1})],
        vec![json!([echo_response(1)])],
        vec![progress(1)],
        vec![json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})],
    ];
    for received in wrong {
        assert!(check_last(checker(notes()), &received).is_err(), "{received:?}");
    }
    assert!(checker(notes()).check_line(b"{\"jsonrpc\":").is_err());
}

#[test]
fn progress_repeated_or_late_is_rejected() {
    let notes = || vec![expect_slow(1, CallEnd::Result)];
    let wrong = [
        vec![progress(2)],
        vec![progress(1), progress(1)],
        vec![progress(1), progress(2), progress(3)],
        vec![progress(1), slow_response(1)],
        vec![progress(1), progress(2), slow_response(1), progress(2)],
        vec![progress(1), progress(2), slow_response(1), slow_response(1)],
        vec![error_response(&json!(1), -32603)],
    ];
    for received in wrong {
        assert!(check_last(checker(notes()), &received).is_err(), "{received:?}");
    }
    let overdue = checker(vec![expect_slow(1, CallEnd::Timeout)]);
    assert!(check_last(overdue, &[progress(1), progress(2), slow_response(1)]).is_err());
}

#[test]
fn progress_after_read_cancellation_is_rejected() {
    let notes = || {
        vec![expect_slow(1, CallEnd::Result), Expectation::Cancellation(json!(1)), expect_echo(2)]
    };
    for crossing in [vec![progress(1)], vec![progress(1), progress(2), slow_response(1)]] {
        assert_eq!(check_last(checker(notes()), &crossing), Ok(()));
    }
    for late in
        [vec![echo_response(2), progress(1)], vec![progress(1), echo_response(2), progress(2)]]
    {
        assert!(check_last(checker(notes()), &late).is_err(), "{late:?}");
    }
}

#[test]
fn response_out_of_order_is_rejected() {
    let notes = vec![expect_echo(1), expect_slow(2, CallEnd::Result)];
    assert!(check_last(checker(notes), &[progress(1)]).is_err());
}

#[test]
fn in_flight_limit_error_below_limit_is_rejected() {
    let refused = |id: u64| {
        let text = "2 requests are in flight on this connection";
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": text}})
    };
    let calls = |cancelled: Option<u64>| {
        let mut conversation = ResponseChecker::new(false, 2, false);
        let mut notes: Vec<Expectation> =
            (1..=2).map(|id| expect_slow(id, CallEnd::Result)).collect();
        notes.extend(cancelled.map(|id| Expectation::Cancellation(json!(id))));
        notes.push(expect_slow(3, CallEnd::Result));
        conversation.record_sent(notes.into_iter().map(|note| vec![note]).collect());
        conversation
    };
    assert_eq!(check_last(calls(None), &[refused(3)]), Ok(()));
    assert!(check_last(calls(Some(1)), &[refused(3)]).is_err());
    assert!(check_last(calls(None), &[refused(2)]).is_err());
    assert!(check_last(calls(None), &[refused(7)]).is_err());
}

#[test]
fn duplicate_id_must_be_refused_while_in_flight() {
    let answer = ExpectedResponse::Echo("words of 1".into());
    let rival = Expectation::Immediate(ImmediateResponse {
        is_duplicate_id: true,
        ..ImmediateResponse::new(json!(1), answer)
    });
    let notes = || vec![expect_slow(1, CallEnd::Result), rival.clone()];
    let refused = error_response(&json!(1), -32600);
    assert_eq!(check_last(checker(notes()), &[refused.clone(), progress(1)]), Ok(()));
    assert!(check_last(checker(notes()), &[echo_response(1)]).is_err());
    assert!(check_last(checker(notes()), &[progress(1), refused.clone()]).is_ok());
    assert!(
        check_last(checker(notes()), &[progress(1), progress(2), slow_response(1), refused])
            .is_err()
    );
}

#[test]
fn message_after_final_error_is_rejected() {
    let no_room = json!({"jsonrpc": "2.0", "error": {"code": 1001, "message": "no room"}});
    assert!(
        check_last(checker(vec![expect_echo(1)]), &[no_room.clone(), echo_response(1)]).is_err()
    );
    assert!(check_last(checker(vec![expect_echo(1)]), &[echo_response(1), no_room]).is_err());
}

#[test]
fn timeout_before_older_call_is_rejected() {
    let notes = |id, ending| vec![vec![expect_slow(id, ending)]];
    let time_out = |first: u64, apart: Duration| {
        let mut conversation = ResponseChecker::new(false, usize::MAX, false);
        conversation.record_sent(notes(1, CallEnd::Timeout));
        conversation.record_sent(vec![vec![expect_echo(2)]]);
        assert_eq!(conversation.check_line(echo_response(2).to_string().as_bytes()), Ok(()));
        conversation.set_now(Instant::ORIGIN.after(apart), false);
        conversation.record_sent(notes(3, CallEnd::Timeout));
        conversation.check_line(error_response(&json!(first), -32603).to_string().as_bytes())
    };
    let long = Duration::from_millis(5);
    assert_eq!(time_out(1, long), Ok(()));
    assert!(time_out(3, long).is_err());
    // Within a timer tick the order is undefined.
    assert_eq!(time_out(3, Duration::from_millis(1)), Ok(()));
}

#[test]
fn timeout_error_is_accepted_only_after_clock_jump() {
    for jumps in [false, true] {
        let mut conversation = checker(vec![expect_slow(1, CallEnd::Result)]);
        if jumps {
            assert_eq!(conversation.prepare_clock_jump(), 1);
        }
        let result =
            conversation.check_line(error_response(&json!(1), -32603).to_string().as_bytes());
        assert_eq!(result.is_ok(), jumps);
        assert!(
            conversation.check_line(slow_response(1).to_string().as_bytes()).is_err(),
            "a second answer"
        );
    }
}

#[test]
fn mesh_message_lost_doubled_or_reordered_is_rejected() {
    let mesh_checker = || {
        let mut mesh_checker = DeliveryChecker::new(2);
        let first = mesh_checker.next_message(0, 1);
        mesh_checker.record_sent(first);
        let second = mesh_checker.next_message(0, 1);
        mesh_checker.record_sent(second);
        (mesh_checker, first, second)
    };
    let (mut whole, first, second) = mesh_checker();
    assert!(!whole.is_complete());
    assert_eq!((whole.record_arrival(1, first), whole.record_arrival(1, second)), (Ok(()), Ok(())));
    assert!(whole.is_complete() && whole.record_arrival(1, second).is_err());
    let (mut overtaken, _, second) = mesh_checker();
    assert!(overtaken.record_arrival(1, second).is_err());
    let (mut misled, first, _) = mesh_checker();
    assert!(misled.record_arrival(0, first).is_err());
    let (mut doubled, first, _) = mesh_checker();
    assert_eq!(doubled.record_arrival(1, first), Ok(()));
    assert!(doubled.record_arrival(1, first).is_err());
    let (mut lost, first, _) = mesh_checker();
    assert_eq!(lost.record_arrival(1, first), Ok(()));
    assert!(!lost.is_complete() && lost.undelivered().is_some());
    lost.record_end(1);
    assert!(lost.is_complete(), "a shard that has ended reads nothing");
    let unsent = DeliveryChecker::new(2);
    assert!(DeliveryChecker::new(2).record_arrival(1, unsent.next_message(0, 1)).is_err());
}

#[test]
fn command_read_twice_or_never_is_rejected() {
    let catalog = demo::catalog(Implementation::new("sim", "1.0.0")).unwrap();
    let (_seeds, handle) = Server::builder(catalog).shard_builders(1).unwrap();
    let mut notices = CommandQueue::new(handle);
    for notice in
        [ServerCommand::ReloadLimits(Box::default()), ServerCommand::Drain, ServerCommand::Drain]
    {
        notices.push(notice);
    }
    assert!(notices.send_pending());
    assert!((2..=3).all(|read| notices.check(read, false).is_ok()));
    assert!([1, 4].into_iter().all(|read| notices.check(read, false).is_err()));
    assert!(notices.check(1, true).is_ok());
}

#[test]
fn catalog_version_going_back_is_rejected() {
    let versed = |id: u64, version: &str| {
        let mut message = echo_response(id);
        message["result"]["_meta"] =
            json!({"io.modelcontextprotocol/serverInfo": {"name": "sim", "version": version}});
        message
    };
    let notes = || vec![expect_echo(1), expect_echo(2)];
    let forth = [versed(1, "1.0.3"), versed(2, "1.0.4")];
    assert_eq!(check_last(checker(notes()), &forth), Ok(()));
    let back = [versed(1, "1.0.4"), versed(2, "1.0.3")];
    assert!(check_last(checker(notes()), &back).is_err());
}

/// Runs some seeds with one expectation changed in each; returns how many were changed and failed.
fn failing_runs(change: impl Fn(&mut Expectation) -> bool) -> (usize, usize) {
    let (mut changed, mut failed) = (0, 0);
    for seed in 0..12 {
        let mut scenario = Scenario::draw(ScenarioKind::Piped, seed);
        let acts = scenario.clients.iter_mut().flat_map(|client| &mut client.actions);
        let mut notes = acts.filter_map(|act| match act {
            LineAction::Send { expectations: notes, .. } => Some(notes.iter_mut().flatten()),
            _ => None,
        });
        if notes.any(|mut notes| notes.any(&change)) {
            changed += 1;
            failed += usize::from(simulation::run(&scenario).is_err());
        }
    }
    (changed, failed)
}

#[test]
fn run_fails_when_response_differs() {
    let (changed, failed) = failing_runs(|note| match note {
        Expectation::Immediate(ImmediateResponse {
            expected: ExpectedResponse::Echo(text),
            ..
        }) => {
            text.push('!');
            true
        }
        _ => false,
    });
    assert!(changed > 4 && failed > changed / 2, "{failed} of {changed}");
}

#[test]
fn run_fails_when_response_never_comes() {
    let (changed, failed) = failing_runs(|note| {
        let is_silent = matches!(note, Expectation::Nothing);
        if is_silent {
            *note = Expectation::Immediate(ImmediateResponse::new(
                json!("unknown id"),
                ExpectedResponse::Empty,
            ));
        }
        is_silent
    });
    assert!(changed > 4 && failed > changed / 2, "{failed} of {changed}");
}

#[test]
fn cancellation_needs_end_of_input() {
    let cancel = |timeout_ms: u64, clients: usize, ends: bool, text: &str| {
        let mut options = Options::tiny();
        options.tcp.half_close_timeout = Duration::from_millis(timeout_ms);
        let mut conversation = checker(vec![expect_slow(1, CallEnd::Result)]);
        if ends {
            let rule = HalfCloseRule::new(&options, clients);
            conversation.end_input(InputEnd { at: Instant::ORIGIN, rule });
        }
        conversation.set_now(Instant::ORIGIN.after(Duration::from_millis(50)), false);
        let error = json!({"code": -32603, "message": format!("the call was cancelled: {text}")});
        let message = json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string();
        conversation.check_line(message.as_bytes()).map(|()| conversation.is_complete())
    };
    let (timeout, limit) = ("tcp.half_close_timeout", "tcp.connections_max / 8");
    assert_eq!(cancel(50, 1, true, timeout), Ok(true));
    assert_eq!(cancel(80, 2, true, limit), Ok(true));
    let wrong = [
        (50, 1, false, timeout),
        (80, 1, true, timeout),
        (80, 1, true, limit),
        (0, 2, true, limit),
    ];
    for (timeout_ms, clients, ends, text) in wrong {
        assert!(cancel(timeout_ms, clients, ends, text).is_err(), "{timeout_ms} {ends} {text}");
    }
}

#[test]
fn end_of_input_excuses_calls_only() {
    let rule = HalfCloseRule::new(&Options::tiny(), 1);
    let is_complete = |notes, received: &[Value]| {
        let mut conversation = checker(notes);
        conversation.end_input(InputEnd { at: Instant::ORIGIN, rule });
        for message in received {
            assert_eq!(conversation.check_line(message.to_string().as_bytes()), Ok(()));
        }
        conversation.is_complete()
    };
    let call = expect_slow(2, CallEnd::Result);
    assert!(is_complete(vec![call.clone()], &[]));
    assert!(!is_complete(vec![expect_echo(1), call.clone()], &[]));
    assert!(is_complete(vec![expect_echo(1), call], &[echo_response(1)]));
}
