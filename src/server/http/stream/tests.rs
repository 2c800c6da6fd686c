//! The life of streams: opened, carried, left, resumed, kept and forgotten.

use super::*;

const BOUNDS: StreamBounds = StreamBounds {
    streams_max: 4,
    streams_kept_max: 2,
    log: LogBounds { events_max: 3, bytes_max: 10_000 },
};

const NOW: Moment = Moment::from_milliseconds(1);

fn exchange(serial: u32) -> ExchangeAddress {
    ExchangeAddress { shard: ShardId(1), connection: Key::from_bits(7), serial }
}

fn push(streams: &mut Streams, number: u32) -> Pushed {
    streams.push(number, Bytes::from_static(b"{}"), BOUNDS.log, usize::MAX).unwrap()
}

fn replayed(streams: &Streams, number: u32, after: u32) -> Vec<u32> {
    streams.replay(number, after).map(|(number, _)| number).collect()
}

#[test]
fn streams_of_requests_are_open_side_by_side_and_hear_only_of_their_own() {
    let mut streams = Streams::default();
    let (one, other) = (exchange(1), exchange(2));
    assert_eq!(streams.open(one, BOUNDS), Ok(1));
    assert_eq!(streams.open(other, BOUNDS), Ok(2));
    assert_eq!(push(&mut streams, 2).exchange, Some(other));
    assert_eq!((replayed(&streams, 1, 0), replayed(&streams, 2, 0)), (vec![], vec![1]));
    assert_eq!(streams.finish(1, BOUNDS, NOW), Some(one));
    assert!(streams.detach(1, one, true, BOUNDS, NOW));
    assert_eq!((streams.len(), streams.attached()), (1, 1));
    assert_eq!(streams.push(1, Bytes::new(), BOUNDS.log, usize::MAX), None);
}

#[test]
fn a_second_listener_is_refused_until_the_first_has_gone() {
    let mut streams = Streams::default();
    assert_eq!(streams.listen(exchange(1)), Ok(0));
    assert_eq!(streams.listen(exchange(2)), Err(Refusal::Conflict));
    assert!(streams.detach(LISTENING, exchange(1), true, BOUNDS, NOW));
    assert_eq!(streams.listen(exchange(2)), Ok(0));
    assert_eq!(streams.finish(LISTENING, BOUNDS, NOW), None);
}

#[test]
fn what_nobody_heard_waits_for_the_next_listener_and_is_told_once() {
    let mut streams = Streams::default();
    assert_eq!(push(&mut streams, LISTENING).exchange, None);
    assert_eq!(streams.listen(exchange(1)), Ok(0));
    assert_eq!(replayed(&streams, LISTENING, 0), [1]);
    push(&mut streams, LISTENING);
    assert!(streams.detach(LISTENING, exchange(1), false, BOUNDS, NOW));
    push(&mut streams, LISTENING);
    assert_eq!(streams.listen(exchange(2)), Ok(2));
    assert_eq!(replayed(&streams, LISTENING, 2), [3]);
}

#[test]
fn a_client_that_comes_back_goes_on_where_it_stood() {
    let mut streams = Streams::default();
    streams.open(exchange(1), BOUNDS).unwrap();
    push(&mut streams, 1);
    push(&mut streams, 1);
    assert!(streams.detach(1, exchange(1), true, BOUNDS, NOW));
    assert_eq!(push(&mut streams, 1).exchange, None);
    let resumed = streams.resume(1, 1, exchange(2)).unwrap();
    assert_eq!(resumed, Resumed { replaced: None, missing: 0, is_finished: false });
    assert_eq!(replayed(&streams, 1, 1), [2, 3]);
    assert_eq!(push(&mut streams, 1).exchange, Some(exchange(2)));
    // Three are kept: the first has gone.
    assert_eq!(streams.resume(1, 0, exchange(3)).unwrap().missing, 1);
}

#[test]
fn who_resumes_takes_over_and_the_exchange_before_has_no_more_say() {
    let mut streams = Streams::default();
    streams.open(exchange(1), BOUNDS).unwrap();
    let resumed = streams.resume(1, 0, exchange(2)).unwrap();
    assert_eq!(resumed.replaced, Some(exchange(1)));
    assert!(!streams.detach(1, exchange(1), false, BOUNDS, NOW));
    assert_eq!((streams.exchange(1), streams.attached()), (Some(exchange(2)), 1));
}

#[test]
fn an_event_that_was_never_sent_resumes_nothing() {
    let mut streams = Streams::default();
    streams.open(exchange(1), BOUNDS).unwrap();
    push(&mut streams, 1);
    for (number, after) in [(1, 2), (1, u32::MAX), (2, 0), (LISTENING, 0)] {
        assert_eq!(streams.resume(number, after, exchange(2)), Err(Refusal::Event));
    }
    assert_eq!(streams.exchange(1), Some(exchange(1)));
}

#[test]
fn a_finished_stream_is_kept_until_it_was_sent_and_lingers_then() {
    let mut streams = Streams::default();
    streams.open(exchange(1), BOUNDS).unwrap();
    push(&mut streams, 1);
    assert_eq!(streams.finish(1, BOUNDS, NOW), Some(exchange(1)));
    assert!(streams.detach(1, exchange(1), false, BOUNDS, NOW));
    assert_eq!((streams.len(), streams.attached()), (1, 0));
    assert!(streams.resume(1, 0, exchange(2)).unwrap().is_finished);
    assert_eq!(replayed(&streams, 1, 0), [1]);
    assert_eq!(streams.lingers_since(1), None);
    assert!(streams.detach(1, exchange(2), true, BOUNDS, NOW));
    assert_eq!(streams.lingers_since(1), Some(NOW));
    // The client was gone before it had all of it.
    assert!(streams.resume(1, 0, exchange(3)).unwrap().is_finished);
    assert_eq!((replayed(&streams, 1, 0), streams.lingers_since(1)), (vec![1], None));
    let later = Moment::from_milliseconds(2);
    assert!(streams.detach(1, exchange(3), true, BOUNDS, later));
    streams.let_go(1, NOW);
    assert_eq!((streams.len(), streams.lingers_since(1)), (1, Some(later)));
    streams.let_go(1, later);
    assert_eq!((streams.len(), streams.bytes(), streams.held.capacity()), (0, 0, 0));
    assert_eq!(streams.resume(1, 0, exchange(4)), Err(Refusal::Event));
}

#[test]
fn what_was_sent_goes_before_what_was_not_however_old_that_is() {
    let mut streams = Streams::default();
    for number in 1..=4 {
        streams.open(exchange(number), BOUNDS).unwrap();
        push(&mut streams, number);
        streams.finish(number, BOUNDS, NOW);
        assert!(streams.detach(number, exchange(number), number > 1, BOUNDS, NOW));
    }
    let resumed = [1, 2, 3, 4].map(|number| streams.resume(number, 0, exchange(5)).is_ok());
    assert_eq!(resumed, [true, false, false, true]);
}

#[test]
fn a_stream_on_which_nothing_was_said_does_not_linger() {
    let mut streams = Streams::default();
    streams.open(exchange(1), BOUNDS).unwrap();
    streams.finish(1, BOUNDS, NOW);
    assert!(streams.detach(1, exchange(1), true, BOUNDS, NOW));
    assert_eq!(streams.len(), 0);
}

#[test]
fn an_answer_that_comes_while_nobody_is_there_waits() {
    let mut streams = Streams::default();
    for number in [1, 2] {
        streams.open(exchange(number), BOUNDS).unwrap();
        assert!(streams.detach(number, exchange(number), true, BOUNDS, NOW));
    }
    push(&mut streams, 1);
    assert_eq!(streams.finish(1, BOUNDS, NOW), None);
    // The other request was cancelled: there is nothing to wait for.
    assert_eq!(streams.finish(2, BOUNDS, NOW), None);
    assert_eq!(streams.len(), 1);
    assert!(streams.resume(1, 0, exchange(3)).is_ok());
}

#[test]
fn what_is_replayed_is_owed_again() {
    let mut streams = Streams::default();
    streams.open(exchange(1), BOUNDS).unwrap();
    push(&mut streams, 1);
    assert!(streams.detach(1, exchange(1), true, BOUNDS, NOW));
    // Sent, but not seen: the answer that the client comes back for may break off once more.
    streams.resume(1, 0, exchange(2)).unwrap();
    assert_eq!(streams.finish(1, BOUNDS, NOW), Some(exchange(2)));
    assert!(streams.detach(1, exchange(2), false, BOUNDS, NOW));
    assert_eq!(replayed(&streams, 1, 0), [1]);
    assert!(streams.resume(1, 0, exchange(3)).is_ok());
}

#[test]
fn streams_that_nobody_comes_back_for_are_bounded_and_the_oldest_goes_first() {
    let mut streams = Streams::default();
    for number in 1..=10_000 {
        assert_eq!(streams.open(exchange(number), BOUNDS), Ok(number));
        push(&mut streams, number);
        streams.finish(number, BOUNDS, NOW);
        assert!(streams.detach(number, exchange(number), false, BOUNDS, NOW));
        assert!(streams.len() <= BOUNDS.streams_kept_max);
    }
    assert_eq!(streams.resume(9_998, 0, exchange(0)), Err(Refusal::Event));
    assert!(streams.resume(9_999, 0, exchange(0)).is_ok());
}

#[test]
fn streams_of_requests_that_run_are_bounded_and_never_forgotten() {
    let mut streams = Streams::default();
    for number in 1..=4 {
        streams.open(exchange(number), BOUNDS).unwrap();
        assert!(streams.detach(number, exchange(number), true, BOUNDS, NOW));
    }
    assert_eq!(streams.open(exchange(5), BOUNDS), Err(Refusal::Streams(4)));
    assert!(streams.listen(exchange(5)).is_ok());
    assert!((1..=4).all(|number| streams.resume(number, 0, exchange(6)).is_ok()));
}

#[test]
fn a_session_that_has_given_every_number_opens_no_more_streams() {
    let mut streams = Streams { opened: u32::MAX - 1, ..Streams::default() };
    assert_eq!(streams.open(exchange(1), BOUNDS), Ok(u32::MAX));
    assert!(streams.open(exchange(2), BOUNDS).is_err());
}
