//! Proof that a run notices a server that is broken: the same visits, and one thing goes wrong
//! between the server and its clients.

use std::time::Duration;

use corelane::engine::ring::sim::Faults;

use super::relay::Break;
use crate::web::evening;
use crate::web::plan::{self, Deed, Plan};

/// Clients that have sessions, lose connections and come back, and some that have none.
fn plan(seed: u64, breaks: Option<Break>) -> Plan {
    let soon = Deed::Wait(Duration::from_millis(3));
    let later = Deed::Wait(Duration::from_millis(130));
    let work = [Deed::Work, Deed::Work, soon, Deed::Touch, Deed::Look, soon, Deed::Work];
    let mut session = vec![Deed::Begin, soon, soon, Deed::Follow, Deed::Listen, soon];
    session.extend(work);
    session.extend([Deed::Vary, Deed::Look, Deed::Work, Deed::Cut, Deed::Work, Deed::Cut, soon]);
    for _ in 0..3 {
        session.extend([Deed::Work, soon, Deed::Work, soon, Deed::Cut, Deed::Cut, Deed::Resume]);
    }
    session.extend([Deed::Settle, Deed::Listen, Deed::Vary, Deed::Settle, Deed::Look]);
    session.extend(work);
    session.extend([later, Deed::Settle]);
    let mut modern = vec![Deed::Subscribe, soon, Deed::Modern, Deed::Vary, Deed::Look, soon];
    modern.extend([Deed::Modern, Deed::Look, Deed::Modern, Deed::Vary, Deed::Settle, Deed::Look]);
    modern.extend([later, Deed::Settle, later, Deed::Look, Deed::Settle]);
    let visits = [&session, &modern, &session, &modern].into_iter().enumerate();
    let visits =
        visits.map(|(index, deeds)| (Duration::from_millis(2 * index as u64), deeds.clone()));
    Plan {
        seed,
        shards: 2,
        options: plan::options(),
        faults: Faults::NONE,
        visits: visits.collect(),
        drain: None,
        naps: None,
        breaks,
    }
}

/// What a run with this break complains of is one of these, and it complains.
#[track_caller]
fn expect_caught(breaks: Break, complaints: &[&str]) {
    let mut caught = 0;
    for seed in 0..SEEDS {
        let Err(reason) = evening::run(&plan(seed, Some(breaks))) else { continue };
        let is_known = complaints.iter().any(|complaint| reason.contains(complaint));
        assert!(is_known, "seed {seed} with {breaks:?}: {reason}");
        caught += 1;
    }
    assert!(caught > 0, "{breaks:?} was never caught");
}

#[test]
fn the_same_visits_to_a_server_that_works_are_fine() {
    for seed in 0..SEEDS {
        evening::run(&plan(seed, None)).unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
    }
}

#[test]
fn a_server_that_loses_an_answer_is_caught() {
    expect_caught(
        Break::AnswerLost,
        &["has no answer", "answers Asked", "answers Some", "was not asked for", "is said of"],
    );
}

#[test]
fn a_server_that_answers_twice_is_caught() {
    expect_caught(
        Break::AnswerDoubled,
        &["nobody asked for", "answers Asked", "answers Some", "words after"],
    );
}

#[test]
fn a_server_that_answers_on_another_connection_is_caught() {
    expect_caught(
        Break::AnswerGivenAway,
        &["nobody asked for", "answers Asked", "answers Some", "has no answer", "is not for"],
    );
}

#[test]
fn a_server_that_loses_bytes_is_caught() {
    expect_caught(Break::BytesLost, &["no answer", "is no JSON", "is no status", "of an answer"]);
}

#[test]
fn a_server_that_says_bytes_twice_is_caught() {
    expect_caught(
        Break::BytesDoubled,
        &["is no JSON", "is no status", "no answer", "of an answer"],
    );
}

#[test]
fn a_server_that_reorders_bytes_is_caught() {
    expect_caught(
        Break::BytesSwapped,
        &["is no status", "no answer", "is no JSON", "of an answer"],
    );
}

#[test]
fn a_server_that_loses_an_event_is_caught() {
    expect_caught(Break::EventLost, &["comes as", "is said of", "ends", "nobody told of"]);
}

#[test]
fn a_server_that_says_an_event_twice_is_caught() {
    expect_caught(Break::EventDoubled, &["comes as", "is said of", "comes after", "told of"]);
}

#[test]
fn a_server_that_reorders_events_is_caught() {
    expect_caught(Break::EventsSwapped, &["comes as", "is said of", "ends", "told of"]);
}

#[test]
fn a_server_that_misnumbers_events_is_caught() {
    expect_caught(Break::EventRenumbered, &["comes as"]);
}

#[test]
fn a_server_that_says_events_on_a_stream_of_another_is_caught() {
    expect_caught(
        Break::EventGivenAway,
        &[
            "goes on another",
            "can be asked for",
            "is not for",
            "is said of",
            "told of",
            "answers",
            "has no name",
        ],
    );
}

#[test]
fn a_server_that_ends_a_stream_early_is_caught() {
    expect_caught(Break::StreamEnded, &["the stream of"]);
}

#[test]
fn a_server_that_goes_on_elsewhere_than_it_was_asked_to_is_caught() {
    let complaints = ["comes as", "has no answer", "goes on another", "status 4"];
    expect_caught(Break::ResumedFromStart, &complaints);
    expect_caught(Break::ResumedTooLate, &complaints);
    expect_caught(Break::ResumptionForgotten, &complaints);
}

#[test]
fn a_server_that_forgets_a_session_is_caught() {
    expect_caught(Break::SessionForgotten, &["a session has gone", "status 404"]);
}

#[test]
fn a_server_that_mixes_sessions_up_is_caught() {
    expect_caught(Break::SessionsSwapped, &["is not for", "status 409", "nobody told of", "told"]);
}

#[test]
fn a_server_that_gives_one_name_to_two_sessions_is_caught() {
    expect_caught(Break::SessionNamedTwice, &["two sessions are called"]);
}

#[test]
fn a_server_that_tells_of_an_edition_twice_is_caught() {
    expect_caught(Break::NewsDoubled, &["changes were told of", "comes as"]);
}

#[test]
fn a_server_that_does_not_tell_of_an_edition_is_caught() {
    expect_caught(Break::NewsLost, &["nobody told of edition", "comes as"]);
}

#[test]
fn a_server_that_offers_an_older_edition_after_a_newer_is_caught() {
    expect_caught(Break::EditionOld, &["is seen after"]);
}

/// Runs with each break.
const SEEDS: u64 = 8;
