//! Tests of the checkers over WebSocket: a run must fail if a proxy damages the server's frames in
//! one way, and pass without.

use std::time::Duration;

use corelane_protocol::revision::Revision;

use super::plan;
use crate::feature_simulation::action::Action;
use crate::feature_simulation::messages::ReplyKind;
use crate::feature_simulation::simulation::{self, FeaturePlan};
use crate::websocket::bytes::{CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, unmasked};
use crate::websocket::fault_proxy::FrameFault;
use crate::websocket::frame_checker::{FrameChecker, ReceivedFrame};

/// Clients that call, respond and subscribe, without other faults.
fn fault_plan(seed: u64, breaks: Option<FrameFault>) -> FeaturePlan {
    let soon = Action::Wait(Duration::from_millis(8));
    let ask = Action::Call("test_input_required_result_elicitation");
    let calls: &[Action] =
        &[Action::Ping, ask, soon, Action::Respond(ReplyKind::Accept), Action::Ping, soon];
    let works = [
        &[Action::Listen][..],
        calls,
        calls,
        &[Action::TouchResource, Action::AwaitResponses, Action::Ping],
    ];
    let works = works.concat();
    let visits = [Revision::LATEST, Revision::LATEST_LEGACY].map(|revision| (revision, &works[..]));
    FeaturePlan { frame_fault: breaks, ..plan::plan_clients(seed, &[visits, visits].concat()) }
}

/// Requires that runs with this fault fail, each with one of the `complaints`.
#[track_caller]
fn assert_detected(breaks: FrameFault, complaints: &[&str]) {
    let mut caught = 0;
    for seed in 0..SEEDS {
        let Err(reason) = simulation::run(&fault_plan(seed, Some(breaks))) else { continue };
        let is_known = complaints.iter().any(|complaint| reason.contains(complaint));
        assert!(is_known, "seed {seed} with {breaks:?}: {reason}");
        caught += 1;
    }
    assert!(caught > SEEDS / 2, "{breaks:?} was caught {caught} times");
}

#[test]
fn undamaged_websocket_runs_pass() {
    for seed in 0..SEEDS {
        simulation::run(&fault_plan(seed, None))
            .unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
    }
}

#[test]
fn message_lost_duplicated_split_or_joined_is_detected() {
    assert_detected(
        FrameFault::MessageLost,
        &["takes too long", "cancels no open client request", "before the acknowledgement"],
    );
    assert_detected(
        FrameFault::MessageDuplicated,
        &["answers no open request", "grants twice", "belongs to no call, or came twice"],
    );
    assert_detected(FrameFault::MessageSplit, &["begins with 0x1"]);
    assert_detected(FrameFault::MessagesJoined, &["is not one message"]);
}

#[test]
fn pong_lost_or_changed_is_detected() {
    assert_detected(FrameFault::PongLost, &["pong"]);
    assert_detected(FrameFault::PongChanged, &["pong"]);
}

#[test]
fn close_frame_lost_changed_or_followed_is_detected() {
    assert_detected(FrameFault::CodeChanged, &["after the client's"]);
    assert_detected(FrameFault::CloseLost, &["without a close frame"]);
    assert_detected(FrameFault::CloseFollowed, &["follows a close frame"]);
}

#[test]
fn response_missing_after_drain_is_detected() {
    let mut caught = 0;
    for seed in 0..4 * SEEDS {
        let mut plan = fault_plan(seed, Some(FrameFault::MessageLost));
        plan.drain_at = Some(Duration::from_millis(20 + 3 * seed));
        let report = simulation::run(&plan);
        caught += usize::from(report.is_err_and(|reason| reason.contains("and not answered")));
    }
    assert!(caught > 0);
}

/// A checker whose client has sent a request, a ping, another request and another ping.
fn checker() -> FrameChecker {
    let mut hearing = FrameChecker::new();
    hearing.record_message(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
    hearing.record_ping(b"first".to_vec());
    hearing.record_message(br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    hearing.record_ping(b"second".to_vec());
    hearing
}

/// Checks these frames, given as first byte and payload; returns the last one to be handled.
fn check_last(
    hearing: &mut FrameChecker,
    frames: &[(u8, &[u8])],
) -> Result<Option<ReceivedFrame>, String> {
    for (first, payload) in frames {
        hearing.feed(&unmasked(*first, payload));
    }
    let mut last = None;
    while let Some(received) = hearing.next_frame()? {
        last = Some(received);
    }
    Ok(last)
}

const RESPONSES: [&[u8]; 2] = [b"{\"id\":1,\"result\":{}}", b"{\"id\":2,\"result\":{}}"];

#[test]
fn close_with_unanswered_requests_is_detected() {
    let (first, second) = ((FINAL | PONG, &b"first"[..]), (FINAL | PONG, &b"second"[..]));
    let (call, ping) = ((FINAL | TEXT, RESPONSES[0]), (FINAL | TEXT, RESPONSES[1]));
    let after = |frames: &[(u8, &[u8])]| {
        let mut hearing = checker();
        check_last(&mut hearing, frames).unwrap();
        (hearing.check_read_requests_answered().is_ok(), hearing.check_all_read().is_ok())
    };
    assert_eq!(after(&[]), (true, false));
    assert_eq!(after(&[first]), (false, false));
    assert_eq!(after(&[first, call]), (true, false));
    assert_eq!(after(&[first, call, second]), (false, false));
    // A call need not be answered if its client has closed.
    assert_eq!(after(&[first, ping, second]), (false, true));
    assert_eq!(after(&[first, call, ping, second]), (true, true));
    let mut cancelled = checker();
    let params = "\"params\":{\"requestId\":1}";
    cancelled
        .record_message(format!("{{\"method\":\"notifications/cancelled\",{params}}}").as_bytes());
    check_last(&mut cancelled, &[first]).unwrap();
    assert!(cancelled.check_read_requests_answered().is_ok());
}

#[test]
fn frame_invalid_for_a_server_is_detected() {
    let close = [&1001_u16.to_be_bytes()[..], b"bye"].concat();
    let closed =
        check_last(&mut checker(), &[(FINAL | TEXT, RESPONSES[0]), (FINAL | CLOSE, &close)]);
    assert_eq!(closed, Ok(Some(ReceivedFrame::Close(Some(1001)))));
    let wrong: [&[(u8, &[u8])]; 9] = [
        &[(TEXT, b"{}"), (FINAL | CONTINUATION, b"")],
        &[(FINAL | 0x40 | TEXT, b"{}")],
        &[(FINAL | 0x2, b"{}")],
        &[(FINAL | TEXT, b"{}\n{}")],
        &[(FINAL | TEXT, b"\"\xff\"")],
        &[(FINAL | PING, &[0; 126])],
        &[(FINAL | PONG, b"second"), (FINAL | PONG, b"first")],
        &[(FINAL | CLOSE, b"\x03")],
        &[(FINAL | CLOSE, &close), (FINAL | TEXT, RESPONSES[0])],
    ];
    for frames in wrong {
        assert!(check_last(&mut checker(), frames).is_err(), "{frames:?}");
    }
    for bytes in [&[FINAL | TEXT, 0x82, 0, 0, 0, 0, b'{', b'}'][..], &[FINAL | TEXT, 126, 0, 2]] {
        let mut hearing = checker();
        hearing.feed(bytes);
        assert!(hearing.next_frame().is_err(), "{bytes:?}");
    }
}

/// Runs with each fault.
const SEEDS: u64 = 8;
