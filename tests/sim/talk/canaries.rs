//! Proof that the checkers look: each is given what it must not let pass.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::protocol::message::ServerInfo;
use corelane::server::Server;
use corelane::service::demo;
use serde_json::{Value, json};

use crate::mesh::correspondence::Correspondence;
use crate::talk::answer::Answer;
use crate::talk::conversation::{Conversation, Deferred, Ending, Note, Owed};
use crate::talk::dialogue::Act;
use crate::talk::scenario::{Chapter, Scenario};
use crate::talk::stage;
use crate::world::notices::{Notice, Notices};

/// A connection on which these messages were said.
fn conversation(notes: Vec<Note>) -> Conversation {
    let mut conversation = Conversation::new(false, usize::MAX);
    conversation.say(notes.into_iter().map(|note| vec![note]).collect());
    conversation
}

fn echo(id: u64) -> Note {
    Note::Owed(Owed::to(json!(id), Answer::Echo(format!("words of {id}"))))
}

fn slow(id: u64, ending: Ending) -> Note {
    let answer = Answer::Took { steps: 2, step_ms: 1 };
    Note::Deferred(Deferred { id: json!(id), answer, token: Some(json!("t")), steps: 2, ending })
}

fn result(id: u64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

fn echoed(id: u64) -> Value {
    result(id, &format!("words of {id}"))
}

fn took(id: u64) -> Value {
    result(id, "took 2 steps of 1 ms")
}

fn step(progress: u64) -> Value {
    let params = json!({"progressToken": "t", "progress": progress, "total": 2});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn error(id: &Value, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
}

/// Hears all of it and must have nothing to object before the last.
fn last_heard(mut conversation: Conversation, said: &[Value]) -> Result<(), String> {
    let mut last = Ok(());
    for message in said {
        assert_eq!(last, Ok(()), "{said:?}");
        last = conversation.hear(message.to_string().as_bytes());
    }
    last
}

#[test]
fn what_was_asked_for_passes() {
    let notes = vec![echo(1), slow(2, Ending::Result), echo(3)];
    let said = [echoed(1), echoed(3), step(1), step(2), took(2)];
    assert_eq!(last_heard(conversation(notes), &said), Ok(()));
}

#[test]
fn a_wrong_answer_is_noticed() {
    let notes = || vec![echo(1), echo(2)];
    let wrong = [
        vec![result(1, "other words")],
        vec![echoed(2)],
        vec![result(1, "words of 2")],
        vec![echoed(1), echoed(1)],
        vec![echoed(1), echoed(2), echoed(2)],
        vec![error(&json!(1), -32603)],
        vec![json!({"id": 1})],
        vec![json!([echoed(1)])],
        vec![step(1)],
        vec![json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})],
    ];
    for said in wrong {
        assert!(last_heard(conversation(notes()), &said).is_err(), "{said:?}");
    }
    assert!(conversation(notes()).hear(b"{\"jsonrpc\":").is_err());
}

#[test]
fn progress_that_does_not_grow_or_comes_late_is_noticed() {
    let notes = || vec![slow(1, Ending::Result)];
    let wrong = [
        vec![step(2)],
        vec![step(1), step(1)],
        vec![step(1), step(2), step(3)],
        vec![step(1), took(1)],
        vec![step(1), step(2), took(1), step(2)],
        vec![step(1), step(2), took(1), took(1)],
        vec![error(&json!(1), -32603)],
    ];
    for said in wrong {
        assert!(last_heard(conversation(notes()), &said).is_err(), "{said:?}");
    }
    let overdue = conversation(vec![slow(1, Ending::Overdue)]);
    assert!(last_heard(overdue, &[step(1), step(2), took(1)]).is_err());
}

#[test]
fn a_word_about_a_cancelled_call_is_noticed_once_the_cancellation_was_read() {
    let notes = || vec![slow(1, Ending::Result), Note::Cancelled(json!(1)), echo(2)];
    for crossing in [vec![step(1)], vec![step(1), step(2), took(1)]] {
        assert_eq!(last_heard(conversation(notes()), &crossing), Ok(()));
    }
    for late in [vec![echoed(2), step(1)], vec![step(1), echoed(2), step(2)]] {
        assert!(last_heard(conversation(notes()), &late).is_err(), "{late:?}");
    }
}

#[test]
fn an_answer_that_is_overtaken_is_noticed() {
    let notes = vec![echo(1), slow(2, Ending::Result)];
    assert!(last_heard(conversation(notes), &[step(1)]).is_err());
}

#[test]
fn a_call_must_not_be_one_too_many_while_fewer_are_in_flight() {
    let refused = |id: u64| {
        let text = "2 requests are in flight on this connection";
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": text}})
    };
    let calls = |cancelled: Option<u64>| {
        let mut conversation = Conversation::new(false, 2);
        let mut notes: Vec<Note> = (1..=2).map(|id| slow(id, Ending::Result)).collect();
        notes.extend(cancelled.map(|id| Note::Cancelled(json!(id))));
        notes.push(slow(3, Ending::Result));
        conversation.say(notes.into_iter().map(|note| vec![note]).collect());
        conversation
    };
    assert_eq!(last_heard(calls(None), &[refused(3)]), Ok(()));
    assert!(last_heard(calls(Some(1)), &[refused(3)]).is_err());
    assert!(last_heard(calls(None), &[refused(2)]).is_err());
    assert!(last_heard(calls(None), &[refused(7)]).is_err());
}

#[test]
fn a_second_request_under_an_id_in_flight_must_be_refused_and_no_other() {
    let answer = Answer::Echo("words of 1".into());
    let rival = Note::Owed(Owed { is_rival: true, ..Owed::to(json!(1), answer) });
    let notes = || vec![slow(1, Ending::Result), rival.clone()];
    let refused = error(&json!(1), -32600);
    assert_eq!(last_heard(conversation(notes()), &[refused.clone(), step(1)]), Ok(()));
    assert!(last_heard(conversation(notes()), &[echoed(1)]).is_err());
    assert!(last_heard(conversation(notes()), &[step(1), refused.clone()]).is_ok());
    assert!(last_heard(conversation(notes()), &[step(1), step(2), took(1), refused]).is_err());
}

#[test]
fn a_word_after_the_last_one_is_noticed() {
    let no_room = json!({"jsonrpc": "2.0", "error": {"code": 1001, "message": "no room"}});
    assert!(last_heard(conversation(vec![echo(1)]), &[no_room.clone(), echoed(1)]).is_err());
    assert!(last_heard(conversation(vec![echo(1)]), &[echoed(1), no_room]).is_err());
}

#[test]
fn a_call_that_ends_before_an_older_one_is_noticed() {
    let notes = |id, ending| vec![vec![slow(id, ending)]];
    let tell = |first: u64, apart: Duration| {
        let mut conversation = Conversation::new(false, usize::MAX);
        conversation.say(notes(1, Ending::Overdue));
        conversation.say(vec![vec![echo(2)]]);
        assert_eq!(conversation.hear(echoed(2).to_string().as_bytes()), Ok(()));
        conversation.at(Moment::ORIGIN.after(apart));
        conversation.say(notes(3, Ending::Overdue));
        conversation.hear(error(&json!(first), -32603).to_string().as_bytes())
    };
    let long = Duration::from_millis(5);
    assert_eq!(tell(1, long), Ok(()));
    assert!(tell(3, long).is_err());
    // Within a tick of the timers nobody can tell.
    assert_eq!(tell(3, Duration::from_millis(1)), Ok(()));
}

#[test]
fn a_result_is_as_good_as_an_error_only_where_time_has_jumped() {
    for jumps in [false, true] {
        let mut conversation = conversation(vec![slow(1, Ending::Result)]);
        if jumps {
            assert_eq!(conversation.jump(), 1);
        }
        let heard = conversation.hear(error(&json!(1), -32603).to_string().as_bytes());
        assert_eq!(heard.is_ok(), jumps);
        assert!(conversation.hear(took(1).to_string().as_bytes()).is_err(), "a second answer");
    }
}

#[test]
fn a_letter_that_is_lost_doubled_misled_or_overtaken_in_its_lane_is_noticed() {
    let books = || {
        let mut books = Correspondence::new(2);
        let first = books.write(0, 1);
        books.sent(first);
        let second = books.write(0, 1);
        books.sent(second);
        (books, first, second)
    };
    let (mut whole, first, second) = books();
    assert!(!whole.is_settled());
    assert_eq!((whole.arrive(1, first), whole.arrive(1, second)), (Ok(()), Ok(())));
    assert!(whole.is_settled() && whole.arrive(1, second).is_err());
    let (mut overtaken, _, second) = books();
    assert!(overtaken.arrive(1, second).is_err());
    let (mut misled, first, _) = books();
    assert!(misled.arrive(0, first).is_err());
    let (mut doubled, first, _) = books();
    assert_eq!(doubled.arrive(1, first), Ok(()));
    assert!(doubled.arrive(1, first).is_err());
    let (mut lost, first, _) = books();
    assert_eq!(lost.arrive(1, first), Ok(()));
    assert!(!lost.is_settled() && lost.missing().is_some());
    lost.end(1);
    assert!(lost.is_settled(), "who has ended reads nothing");
    let unsent = Correspondence::new(2);
    assert!(Correspondence::new(2).arrive(1, unsent.write(0, 1)).is_err());
}

#[test]
fn a_shard_that_read_a_notice_twice_or_not_at_all_is_noticed() {
    let catalog = demo::catalog(ServerInfo::new("sim", "1.0.0")).unwrap();
    let (_seeds, handle) = Server::new(catalog).seeds(1).unwrap();
    let mut notices = Notices::new(handle);
    for notice in [Notice::KeepTo(Box::default()), Notice::Drain, Notice::Drain] {
        notices.say(notice);
    }
    assert!(notices.pass_on());
    assert!((2..=3).all(|read| notices.check(read, false).is_ok()));
    assert!([1, 4].into_iter().all(|read| notices.check(read, false).is_err()));
    assert!(notices.check(1, true).is_ok());
}

#[test]
fn a_catalog_that_comes_back_is_noticed() {
    let versed = |id: u64, version: &str| {
        let mut message = echoed(id);
        message["result"]["_meta"] =
            json!({"io.modelcontextprotocol/serverInfo": {"name": "sim", "version": version}});
        message
    };
    let notes = || vec![echo(1), echo(2)];
    let forth = [versed(1, "1.0.3"), versed(2, "1.0.4")];
    assert_eq!(last_heard(conversation(notes()), &forth), Ok(()));
    let back = [versed(1, "1.0.4"), versed(2, "1.0.3")];
    assert!(last_heard(conversation(notes()), &back).is_err());
}

/// The runs of a chapter with one expectation changed in each; how many of them fail.
fn failures(change: impl Fn(&mut Note) -> bool) -> (usize, usize) {
    let (mut changed, mut failed) = (0, 0);
    for seed in 0..12 {
        let mut scenario = Scenario::draw(Chapter::Piped, seed);
        let acts = scenario.clients.iter_mut().flat_map(|(_, acts)| acts);
        let mut notes = acts.filter_map(|act| match act {
            Act::Say { notes, .. } => Some(notes.iter_mut().flatten()),
            _ => None,
        });
        if notes.any(|mut notes| notes.any(&change)) {
            changed += 1;
            failed += usize::from(stage::run(&scenario).is_err());
        }
    }
    (changed, failed)
}

#[test]
fn a_run_fails_where_the_server_says_something_else() {
    let (changed, failed) = failures(|note| match note {
        Note::Owed(Owed { answer: Answer::Echo(text), .. }) => {
            text.push('!');
            true
        }
        _ => false,
    });
    assert!(changed > 4 && failed > changed / 2, "{failed} of {changed}");
}

#[test]
fn a_run_fails_where_an_answer_never_comes() {
    let (changed, failed) = failures(|note| {
        let is_silent = matches!(note, Note::Nothing);
        if is_silent {
            *note = Note::Owed(Owed::to(json!("never said"), Answer::Empty));
        }
        is_silent
    });
    assert!(changed > 4 && failed > changed / 2, "{failed} of {changed}");
}
