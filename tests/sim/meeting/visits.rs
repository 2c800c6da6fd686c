//! Visits written by hand: a client goes away in the middle of each thing that takes two.

use std::time::Duration;

use corelane::engine::ring::sim::Faults;
use corelane::protocol::revision::Revision;

use crate::meeting::deed::{Deed, Whose};
use crate::meeting::gathering::{self, Outing, Plan};
use crate::meeting::phrase::Manner;

/// Clients that come one after the other, a millisecond apart, to two shards.
fn play(visits: &[(Revision, &[Deed])]) -> Outing {
    let visits = visits.iter().enumerate().map(|(index, (revision, deeds))| {
        (Duration::from_millis(20 * index as u64), *revision, deeds.to_vec())
    });
    let plan = Plan {
        seed: 1,
        shards: 2,
        options: gathering::options(),
        faults: Faults::NONE,
        is_framed: false,
        breaks: None,
        visits: visits.collect(),
        drain: None,
        naps: None,
    };
    let outing = gathering::run(&plan).unwrap_or_else(|reason| panic!("{reason}"));
    assert!(outing.rested.is_some());
    outing
}

const MODERN: Revision = Revision::LATEST;
const LEGACY: Revision = Revision::LATEST_LEGACY;
const ASK: Deed = Deed::Call("test_input_required_result_elicitation");
const RETRY: Deed = Deed::Retry(Manner::Well);
const SOON: Deed = Deed::Wait(Duration::from_millis(8));
const AT_ONCE: Deed = Deed::Wait(Duration::from_micros(100));
const LATER: Deed = Deed::Wait(Duration::from_millis(400));
const CONFIRM: Deed = Deed::Begin("confirm_delete");
const AGREE: Deed = Deed::Update(Manner::Well);

#[test]
fn a_round_that_one_client_left_is_ended_by_another_and_once() {
    let asks: &[Deed] = &[ASK, Deed::Settle, Deed::Reset];
    let goes_on: &[Deed] = &[RETRY, Deed::Replay, Deed::Settle];
    let outing = play(&[(MODERN, asks), (MODERN, goes_on), (MODERN, &[Deed::Replay, SOON])]);
    let tally = outing.tally;
    assert_eq!((tally.rounds, tally.states_taken, tally.states_refused), (1, 1, 2), "{tally}");
}

#[test]
fn a_round_that_nobody_ends_in_time_is_refused() {
    let outing = play(&[(MODERN, &[ASK, Deed::Settle, LATER, RETRY, Deed::Settle])]);
    assert_eq!((outing.tally.states_late, outing.tally.states_taken), (1, 0), "{}", outing.tally);
}

#[test]
fn a_session_that_answers_late_twice_badly_or_never_gets_one_answer_for_each_call() {
    let late: &[Deed] = &[ASK, LATER, Deed::Reply(Manner::Well), Deed::Settle];
    let twice: &[Deed] = &[ASK, SOON, Deed::Reply(Manner::Well), Deed::ReplyAgain, Deed::Settle];
    let badly: &[Deed] = &[ASK, SOON, Deed::Reply(Manner::Badly), Deed::Settle];
    let never: &[Deed] = &[ASK, SOON, Deed::Settle];
    let vanishes: &[Deed] = &[ASK, SOON, Deed::Reset];
    let visits = [late, twice, badly, never, vanishes].map(|deeds| (LEGACY, deeds));
    let tally = play(&visits).tally;
    // Five handshakes and four calls.
    assert_eq!((tally.answers, tally.asked, tally.replies), (9, 5, 3), "{tally}");
    assert_eq!((tally.withdrawn, tally.vanished), (2, 1), "{tally}");
}

#[test]
fn a_task_outlives_its_client_and_is_ended_by_another() {
    let begins: &[Deed] = &[CONFIRM, Deed::Settle, Deed::Reset];
    let get = Deed::Get(Whose::Anybodys);
    let answers: &[Deed] = &[Deed::Listen, get, Deed::Settle, AGREE, Deed::Settle, get, SOON];
    let tally = play(&[(MODERN, begins), (MODERN, answers)]).tally;
    assert_eq!((tally.tasks_begun, tally.tasks_ended), (1, 1), "{tally}");
}

#[test]
fn a_task_that_its_session_leaves_unanswered_goes_on_without_an_answer() {
    let begins: &[Deed] = &[CONFIRM, SOON, Deed::Reset];
    let looks: &[Deed] = &[Deed::Result, Deed::Get(Whose::Anybodys), Deed::Settle];
    let tally = play(&[(LEGACY, begins), (LEGACY, looks)]).tally;
    assert_eq!((tally.tasks_begun, tally.tasks_ended, tally.asked), (1, 1, 1), "{tally}");
}

#[test]
fn a_task_that_nobody_asks_for_is_forgotten_when_its_time_is_over() {
    let begins: &[Deed] = &[Deed::Begin("multi_input"), Deed::Settle, Deed::Close];
    let late = [LATER, LATER, LATER, Deed::Get(Whose::Anybodys), Deed::Settle];
    let tally = play(&[(MODERN, begins), (MODERN, &late)]).tally;
    assert_eq!((tally.tasks_begun, tally.tasks_expired, tally.tasks_ended), (1, 1, 0), "{tally}");
}

#[test]
fn clients_that_listen_and_vanish_or_read_no_more_leave_no_stream() {
    let reset: &[Deed] = &[Deed::Listen, Deed::Settle, LATER, Deed::Reset];
    let deaf: &[Deed] = &[Deed::Listen, Deed::Settle, Deed::StopReading, LATER, Deed::Reset];
    let ends: &[Deed] = &[Deed::Listen, Deed::EndStream, Deed::Touch, Deed::Greet, Deed::Settle];
    let session: &[Deed] = &[Deed::Subscribe, Deed::Settle, LATER, Deed::Reset];
    let changes: &[Deed] = &[Deed::Touch, Deed::Vary, Deed::Touch, Deed::Settle];
    let visits =
        [(MODERN, reset), (MODERN, deaf), (MODERN, ends), (LEGACY, session), (MODERN, changes)];
    let tally = play(&visits).tally;
    assert!(tally.streams >= 1, "{tally}");
    assert_eq!(tally.editions, 1, "{tally}");
}

#[test]
fn a_change_is_made_though_its_client_vanishes_and_others_see_it_with_their_next_answer() {
    let vanishes: &[Deed] = &[Deed::Settle, Deed::Vary, AT_ONCE, Deed::Reset];
    let changes: &[Deed] = &[Deed::Vary, Deed::Vary, Deed::Greet, Deed::Settle];
    let listens: &[Deed] = &[Deed::Listen, Deed::Settle, Deed::Vary, Deed::Settle];
    let (session, stays) = ([Deed::Vary, Deed::Settle], [LATER, Deed::Greet, Deed::Settle]);
    let visits: [(Revision, &[Deed]); 5] = [
        (MODERN, &stays),
        (MODERN, vanishes),
        (MODERN, changes),
        (MODERN, listens),
        (LEGACY, &session),
    ];
    let tally = play(&visits).tally;
    assert_eq!(tally.editions, 5, "{tally}");
    assert_eq!(tally.vanished, 1, "{tally}");
}
