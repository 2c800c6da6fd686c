//! Proof that a run over WebSocket notices a server that is broken: the same visits, and one thing
//! goes wrong between the server and each client.

use std::time::Duration;

use corelane::protocol::revision::Revision;

use super::plan;
use crate::frames::bytes::{CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, unmasked};
use crate::frames::hearing::{Heard, Hearing};
use crate::frames::relay::Break;
use crate::meeting::deed::Deed;
use crate::meeting::gathering::{self, Plan};
use crate::meeting::phrase::Manner;

/// Clients that call, are asked and listen, with nothing in their way.
fn plan(seed: u64, breaks: Option<Break>) -> Plan {
    let soon = Deed::Wait(Duration::from_millis(8));
    let ask = Deed::Call("test_input_required_result_elicitation");
    let calls: &[Deed] = &[Deed::Greet, ask, soon, Deed::Reply(Manner::Well), Deed::Greet, soon];
    let works = [&[Deed::Listen][..], calls, calls, &[Deed::Touch, Deed::Settle, Deed::Greet]];
    let works = works.concat();
    let visits = [Revision::LATEST, Revision::LATEST_LEGACY].map(|revision| (revision, &works[..]));
    Plan { breaks, ..plan::play(seed, &[visits, visits].concat()) }
}

/// What runs with this break complain of is one of these, and some do.
#[track_caller]
fn expect_caught(breaks: Break, complaints: &[&str]) {
    let mut caught = 0;
    for seed in 0..SEEDS {
        let Err(reason) = gathering::run(&plan(seed, Some(breaks))) else { continue };
        let is_known = complaints.iter().any(|complaint| reason.contains(complaint));
        assert!(is_known, "seed {seed} with {breaks:?}: {reason}");
        caught += 1;
    }
    assert!(caught > SEEDS / 2, "{breaks:?} was caught {caught} times");
}

#[test]
fn the_same_visits_to_a_server_that_works_are_fine() {
    for seed in 0..SEEDS {
        gathering::run(&plan(seed, None)).unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
    }
}

#[test]
fn a_message_that_is_lost_doubled_cut_or_joined_to_another_is_noticed() {
    expect_caught(
        Break::MessageLost,
        &["takes too long", "takes back what does not stand", "before the acknowledgement"],
    );
    expect_caught(
        Break::MessageDoubled,
        &["answers nothing that waits", "grants twice", "asked by nobody, or twice"],
    );
    expect_caught(Break::MessageCut, &["begins with 0x1"]);
    expect_caught(Break::MessagesJoined, &["is not one message"]);
}

#[test]
fn a_pong_that_is_lost_or_changed_is_noticed() {
    expect_caught(Break::PongLost, &["pong"]);
    expect_caught(Break::PongChanged, &["pong"]);
}

#[test]
fn a_close_frame_that_is_lost_changed_or_followed_is_noticed() {
    expect_caught(Break::CodeChanged, &["closes what says goodbye"]);
    expect_caught(Break::CloseLost, &["without a close frame"]);
    expect_caught(Break::CloseFollowed, &["behind a close frame"]);
}

#[test]
fn an_answer_that_a_drain_swallows_is_noticed() {
    let mut caught = 0;
    for seed in 0..4 * SEEDS {
        let mut plan = plan(seed, Some(Break::MessageLost));
        plan.drain = Some(Duration::from_millis(20 + 3 * seed));
        let outing = gathering::run(&plan);
        caught += usize::from(outing.is_err_and(|reason| reason.contains("is not answered")));
    }
    assert!(caught > 0);
}

/// The books of a client who has said a request, a ping and another request.
fn hearing() -> Hearing {
    let mut hearing = Hearing::new();
    hearing.say(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
    hearing.ping(b"first".to_vec());
    hearing.say(br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    hearing.ping(b"second".to_vec());
    hearing
}

/// What becomes of these frames, each its first byte and payload: the last that concerns somebody.
fn last(hearing: &mut Hearing, frames: &[(u8, &[u8])]) -> Result<Option<Heard>, String> {
    for (first, payload) in frames {
        hearing.take(&unmasked(*first, payload));
    }
    let mut last = None;
    while let Some(heard) = hearing.next()? {
        last = Some(heard);
    }
    Ok(last)
}

const ANSWERS: [&[u8]; 2] = [b"{\"id\":1,\"result\":{}}", b"{\"id\":2,\"result\":{}}"];

#[test]
fn what_was_read_and_is_not_answered_when_the_server_closes_is_noticed() {
    let (first, second) = ((FINAL | PONG, &b"first"[..]), (FINAL | PONG, &b"second"[..]));
    let (call, ping) = ((FINAL | TEXT, ANSWERS[0]), (FINAL | TEXT, ANSWERS[1]));
    let after = |frames: &[(u8, &[u8])]| {
        let mut hearing = hearing();
        last(&mut hearing, frames).unwrap();
        (hearing.expect_no_debt().is_ok(), hearing.expect_all_read().is_ok())
    };
    assert_eq!(after(&[]), (true, false));
    assert_eq!(after(&[first]), (false, false));
    assert_eq!(after(&[first, call]), (true, false));
    assert_eq!(after(&[first, call, second]), (false, false));
    // A call need not be answered where its client has closed.
    assert_eq!(after(&[first, ping, second]), (false, true));
    assert_eq!(after(&[first, call, ping, second]), (true, true));
    let mut cancelled = hearing();
    let params = "\"params\":{\"requestId\":1}";
    cancelled.say(format!("{{\"method\":\"notifications/cancelled\",{params}}}").as_bytes());
    last(&mut cancelled, &[first]).unwrap();
    assert!(cancelled.expect_no_debt().is_ok());
}

#[test]
fn a_frame_that_no_server_may_send_is_noticed() {
    let close = [&1001_u16.to_be_bytes()[..], b"bye"].concat();
    let closed = last(&mut hearing(), &[(FINAL | TEXT, ANSWERS[0]), (FINAL | CLOSE, &close)]);
    assert_eq!(closed, Ok(Some(Heard::Close(Some(1001)))));
    let wrong: [&[(u8, &[u8])]; 9] = [
        &[(TEXT, b"{}"), (FINAL | CONTINUATION, b"")],
        &[(FINAL | 0x40 | TEXT, b"{}")],
        &[(FINAL | 0x2, b"{}")],
        &[(FINAL | TEXT, b"{}\n{}")],
        &[(FINAL | TEXT, b"\"\xff\"")],
        &[(FINAL | PING, &[0; 126])],
        &[(FINAL | PONG, b"second"), (FINAL | PONG, b"first")],
        &[(FINAL | CLOSE, b"\x03")],
        &[(FINAL | CLOSE, &close), (FINAL | TEXT, ANSWERS[0])],
    ];
    for frames in wrong {
        assert!(last(&mut hearing(), frames).is_err(), "{frames:?}");
    }
    for bytes in [&[FINAL | TEXT, 0x82, 0, 0, 0, 0, b'{', b'}'][..], &[FINAL | TEXT, 126, 0, 2]] {
        let mut hearing = hearing();
        hearing.take(bytes);
        assert!(hearing.next().is_err(), "{bytes:?}");
    }
}

/// Runs with each break.
const SEEDS: u64 = 8;
