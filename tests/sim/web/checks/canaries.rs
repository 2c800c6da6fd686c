//! Proof that the checkers of HTTP look: each is given what it must not let pass.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use super::book::{Book, Carried};
use super::reading::{Event, Piece, Reader};
use crate::web::client::speech;
use crate::web::offer::{mark, note};

const GUEST: u32 = 3;

fn book() -> Book {
    let mut book = Book::new(GUEST, "id".to_owned(), Revision::LATEST_LEGACY, Moment::ORIGIN);
    for id in [7, 8] {
        book.ask(id, Duration::from_millis(10), Moment::ORIGIN);
    }
    book
}

fn event(id: (u32, u32), data: &Value) -> Event {
    Event { id: Some(id), data: Some(data.to_string()), ..Event::default() }
}

fn progress(id: u64, progress: u64) -> Value {
    let params = json!({"progressToken": id, "progress": progress, "message": mark(GUEST)});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

/// Hears the events of one response to request 7 and must have nothing to object before the last.
fn last_heard(book: &mut Book, carried: &mut Carried, numbers: &[(u32, u32)]) -> bool {
    let mut last = true;
    for number in numbers {
        assert!(last, "{numbers:?}");
        let said = event(*number, &json!({"number": number.1}));
        last = book.hear_event(carried, &said, Some(7)).is_ok();
    }
    last
}

#[test]
fn an_event_that_is_left_out_said_twice_or_of_another_stream_is_noticed() {
    for (numbers, is_fine) in [
        (vec![(1, 1), (1, 2), (1, 3)], true),
        (vec![(1, 2)], false),
        (vec![(1, 1), (1, 3)], false),
        (vec![(1, 1), (1, 1)], false),
        (vec![(1, 1), (2, 2)], false),
    ] {
        let heard = last_heard(&mut book(), &mut Carried::default(), &numbers);
        assert_eq!(heard, is_fine, "{numbers:?}");
    }
}

#[test]
fn a_stream_that_goes_on_elsewhere_than_it_was_asked_to_is_noticed() {
    for (next, is_fine) in [(2, true), (3, false), (1, false)] {
        let mut book = book();
        assert!(last_heard(&mut book, &mut Carried::default(), &[(1, 1)]));
        let mut carried = Carried { stream: Some(1), last: Some(1) };
        assert_eq!(last_heard(&mut book, &mut carried, &[(1, next)]), is_fine, "{next}");
    }
}

#[test]
fn an_event_that_changes_or_a_stream_of_two_requests_is_noticed() {
    let mut book = book();
    let said = event((1, 1), &json!({"a": 1}));
    assert!(book.hear_event(&mut Carried::default(), &said, Some(7)).is_ok());
    let again = Carried { stream: Some(1), last: Some(0) };
    assert_eq!(book.hear_event(&mut { again }, &said, Some(7)), Ok(None), "said before");
    let other = event((1, 1), &json!({"a": 2}));
    assert!(book.hear_event(&mut { again }, &other, Some(7)).is_err());
    assert!(book.hear_event(&mut { again }, &said, Some(8)).is_err());
}

#[test]
fn a_word_for_another_session_request_or_client_is_noticed() {
    let result = |id: u64, guest| {
        let text = format!("{} had 2 words", mark(guest));
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"text": text}]}})
    };
    let updated = |guest| {
        let params = json!({"uri": note(guest)});
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
    };
    assert_eq!(book().hear(&result(7, GUEST), Some(7)), Ok(true));
    assert_eq!(book().hear(&updated(GUEST), None), Ok(false));
    assert_eq!(book().hear(&progress(7, 1), Some(7)), Ok(false));
    for (wrong, request) in [
        (result(7, GUEST + 1), Some(7)),
        (result(8, GUEST), Some(7)),
        (result(9, GUEST), Some(9)),
        (updated(GUEST + 1), None),
        (updated(10 * GUEST), None),
        (progress(8, 1), Some(7)),
        (progress(7, 2), Some(7)),
        (progress(7, 1), None),
    ] {
        assert!(book().hear(&wrong, request).is_err(), "{wrong}");
    }
    let mut twice = book();
    assert!(twice.hear(&result(7, GUEST), Some(7)).is_ok());
    assert!(twice.hear(&result(7, GUEST), Some(7)).is_err(), "a second answer");
}

#[test]
fn a_session_that_goes_too_early_and_a_request_that_is_given_up_are_noticed() {
    let (ttl, late) = (Some(Duration::from_millis(100)), Duration::from_millis(90));
    let soon = Moment::ORIGIN.after(Duration::from_millis(20));
    assert!(book().miss(soon, ttl).is_err());
    assert!(book().miss(Moment::ORIGIN.after(late), ttl).is_ok());
    assert!(book().miss(soon, None).is_ok(), "others may have taken its place");
    let mut book = book();
    assert!(last_heard(&mut book, &mut Carried::default(), &[(1, 1)]));
    assert!(book.must_be_open(1, Moment::ORIGIN.after(Duration::from_millis(9))));
    assert!(!book.must_be_open(1, soon));
    assert!(book.must_be_kept(1, soon), "its answer was not heard");
    assert_eq!(book.unfinished(), [(1, 1)]);
    let result = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
    assert_eq!(book.hear(&result, Some(7)), Ok(true));
    assert!(!book.must_be_kept(1, soon));
}

#[test]
fn what_is_no_answer_is_noticed() {
    let read = |bytes: &[u8]| {
        let mut reader = Reader::default();
        reader.hear(bytes);
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next(false, false)? {
            pieces.push(piece);
        }
        Ok::<Vec<Piece>, String>(pieces)
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked";
    let whole = format!("{head}\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n");
    assert_eq!(read(whole.as_bytes()).map(|pieces| pieces.len()), Ok(3));
    for wrong in [
        "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        format!("{head}\r\n\r\nHTTP/1.1 202 Accepted\r\n"),
        format!("{head}\r\n\r\n8\r\ndata: 1\n\n\r\n"),
        format!("{head}\r\n\r\n8\r\ndata: 1\n\r\n"),
        format!("{head}\r\n\r\na\r\nwords: 1\n\n\r\n"),
    ] {
        assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn every_word_of_the_server_names_its_client() {
    let (ours, others) = (progress(1, 1), json!({"method": "notifications/message"}));
    assert!(speech::is_for(&ours, GUEST) && !speech::is_for(&ours, GUEST + 1));
    assert!(!speech::is_for(&others, GUEST));
}
