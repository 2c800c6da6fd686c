//! Proof that a run over WebSocket notices a server that is broken: the same visits, and one thing
//! goes wrong between the server and each client.

use std::time::Duration;

use corelane::protocol::revision::Revision;

use super::plan;
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

/// Runs with each break.
const SEEDS: u64 = 8;
