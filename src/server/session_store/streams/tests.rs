//! Tests of the life cycle of streams: open, attach, detach, resume, retain and remove; and of
//! several GET streams of one session: each message is sent on one of them.

use std::collections::BTreeMap;

use corelane_base::slab::Key;
use corelane_engine::mesh::ShardId;
use proptest::prelude::*;

use super::*;

const LIMITS: StreamLimits = StreamLimits {
    streams_max: 4,
    retained_streams_max: 2,
    second_stream: SecondStream::Refuse,
    log: EventLogLimits { events_max: 3, bytes_max: 10_000 },
};

const NOW: Instant = Instant::from_milliseconds(1);

fn exchange(serial: u32) -> ExchangeAddress {
    ExchangeAddress { shard: ShardId(1), connection: Key::from_bits(7), serial }
}

fn push(streams: &mut SessionStreams, number: u32) -> PushedEvent {
    streams.push(number, Bytes::from_static(b"{}"), LIMITS.log, usize::MAX).unwrap()
}

/// Attaches the listening stream; returns the number after which it must be replayed.
fn listen(streams: &mut SessionStreams, serial: u32) -> Result<u32, SessionError> {
    streams.attach_listening(exchange(serial), LIMITS).map(|it| {
        assert_eq!((it.number, it.replaced_listener), (LISTENING_STREAM, None));
        it.after
    })
}

fn resume(
    streams: &mut SessionStreams,
    number: u32,
    after: u32,
    serial: u32,
) -> Result<ResumedStream, SessionError> {
    streams.resume(number, after, exchange(serial), LIMITS, usize::MAX, NOW)
}

fn replayed_numbers(streams: &SessionStreams, number: u32, after: u32) -> Vec<u32> {
    streams.replay(number, after).map(|(number, _)| number).collect()
}

#[test]
fn streams_receive_their_own_events_only() {
    let mut streams = SessionStreams::default();
    let (one, other) = (exchange(1), exchange(2));
    assert_eq!(streams.open(one, LIMITS), Ok(1));
    assert_eq!(streams.open(other, LIMITS), Ok(2));
    assert_eq!(push(&mut streams, 2).exchange, Some(other));
    assert_eq!(
        (replayed_numbers(&streams, 1, 0), replayed_numbers(&streams, 2, 0)),
        (vec![], vec![1])
    );
    assert_eq!(streams.finish(1, LIMITS, NOW), Some(one));
    assert!(streams.detach(1, one, true, LIMITS, NOW));
    assert_eq!((streams.len(), streams.attached()), (1, 1));
    assert_eq!(streams.push(1, Bytes::new(), LIMITS.log, usize::MAX), None);
}

#[test]
fn second_listener_conflicts_until_first_detaches() {
    let mut streams = SessionStreams::default();
    assert_eq!(listen(&mut streams, 1), Ok(0));
    assert_eq!(listen(&mut streams, 2), Err(SessionError::Conflict));
    assert!(streams.detach(LISTENING_STREAM, exchange(1), true, LIMITS, NOW));
    assert_eq!(listen(&mut streams, 2), Ok(0));
    assert_eq!(streams.finish(LISTENING_STREAM, LIMITS, NOW), None);
}

#[test]
fn events_without_listener_go_to_next_once() {
    let mut streams = SessionStreams::default();
    assert_eq!(push(&mut streams, LISTENING_STREAM).exchange, None);
    assert_eq!(listen(&mut streams, 1), Ok(0));
    assert_eq!(replayed_numbers(&streams, LISTENING_STREAM, 0), [1]);
    push(&mut streams, LISTENING_STREAM);
    assert!(streams.detach(LISTENING_STREAM, exchange(1), false, LIMITS, NOW));
    push(&mut streams, LISTENING_STREAM);
    assert_eq!(listen(&mut streams, 2), Ok(2));
    assert_eq!(replayed_numbers(&streams, LISTENING_STREAM, 2), [3]);
}

#[test]
fn resumed_stream_replays_later_events() {
    let mut streams = SessionStreams::default();
    streams.open(exchange(1), LIMITS).unwrap();
    push(&mut streams, 1);
    push(&mut streams, 1);
    assert!(streams.detach(1, exchange(1), true, LIMITS, NOW));
    assert_eq!(push(&mut streams, 1).exchange, None);
    let resumed = resume(&mut streams, 1, 1, 2).unwrap();
    assert_eq!(
        resumed,
        ResumedStream {
            replaced_exchange: None,
            replaced_listener: None,
            missing_events: 0,
            is_finished: false
        }
    );
    assert_eq!(replayed_numbers(&streams, 1, 1), [2, 3]);
    assert_eq!(push(&mut streams, 1).exchange, Some(exchange(2)));
    // Three events are stored: the first was dropped.
    assert_eq!(resume(&mut streams, 1, 0, 3).unwrap().missing_events, 1);
}

#[test]
fn resume_replaces_attached_exchange() {
    let mut streams = SessionStreams::default();
    streams.open(exchange(1), LIMITS).unwrap();
    let resumed = resume(&mut streams, 1, 0, 2).unwrap();
    assert_eq!(resumed.replaced_exchange, Some(exchange(1)));
    assert!(!streams.detach(1, exchange(1), false, LIMITS, NOW));
    assert_eq!((streams.exchange(1), streams.attached()), (Some(exchange(2)), 1));
}

#[test]
fn resume_after_unknown_event_is_rejected() {
    let mut streams = SessionStreams::default();
    streams.open(exchange(1), LIMITS).unwrap();
    push(&mut streams, 1);
    for (number, after) in [(1, 2), (1, u32::MAX), (2, 0), (LISTENING_STREAM, 0)] {
        assert_eq!(resume(&mut streams, number, after, 2), Err(SessionError::UnknownEvent));
    }
    assert_eq!(streams.exchange(1), Some(exchange(1)));
}

#[test]
fn finished_stream_is_retained_until_sent_then_lingers() {
    let mut streams = SessionStreams::default();
    streams.open(exchange(1), LIMITS).unwrap();
    push(&mut streams, 1);
    assert_eq!(streams.finish(1, LIMITS, NOW), Some(exchange(1)));
    assert!(streams.detach(1, exchange(1), false, LIMITS, NOW));
    assert_eq!((streams.len(), streams.attached()), (1, 0));
    assert!(resume(&mut streams, 1, 0, 2).unwrap().is_finished);
    assert_eq!(replayed_numbers(&streams, 1, 0), [1]);
    assert_eq!(streams.lingering_since(1), None);
    assert!(streams.detach(1, exchange(2), true, LIMITS, NOW));
    assert_eq!(streams.lingering_since(1), Some(NOW));
    // The client disconnected before it received everything.
    assert!(resume(&mut streams, 1, 0, 3).unwrap().is_finished);
    assert_eq!((replayed_numbers(&streams, 1, 0), streams.lingering_since(1)), (vec![1], None));
    let later = Instant::from_milliseconds(2);
    assert!(streams.detach(1, exchange(3), true, LIMITS, later));
    streams.expire_lingering(1, NOW);
    assert_eq!((streams.len(), streams.lingering_since(1)), (1, Some(later)));
    streams.expire_lingering(1, later);
    assert_eq!((streams.len(), streams.bytes(), streams.streams.capacity()), (0, 0, 0));
    assert_eq!(resume(&mut streams, 1, 0, 4), Err(SessionError::UnknownEvent));
}

#[test]
fn sent_streams_are_removed_before_unsent() {
    let mut streams = SessionStreams::default();
    for number in 1..=4 {
        streams.open(exchange(number), LIMITS).unwrap();
        push(&mut streams, number);
        streams.finish(number, LIMITS, NOW);
        assert!(streams.detach(number, exchange(number), number > 1, LIMITS, NOW));
    }
    let resumed = [1, 2, 3, 4].map(|number| resume(&mut streams, number, 0, 5).is_ok());
    assert_eq!(resumed, [true, false, false, true]);
}

#[test]
fn stream_without_events_does_not_linger() {
    let mut streams = SessionStreams::default();
    streams.open(exchange(1), LIMITS).unwrap();
    streams.finish(1, LIMITS, NOW);
    assert!(streams.detach(1, exchange(1), true, LIMITS, NOW));
    assert_eq!(streams.len(), 0);
}

#[test]
fn response_without_exchange_is_retained() {
    let mut streams = SessionStreams::default();
    for number in [1, 2] {
        streams.open(exchange(number), LIMITS).unwrap();
        assert!(streams.detach(number, exchange(number), true, LIMITS, NOW));
    }
    push(&mut streams, 1);
    assert_eq!(streams.finish(1, LIMITS, NOW), None);
    // The other request was cancelled: nothing to retain.
    assert_eq!(streams.finish(2, LIMITS, NOW), None);
    assert_eq!(streams.len(), 1);
    assert!(resume(&mut streams, 1, 0, 3).is_ok());
}

#[test]
fn replayed_events_count_as_undelivered() {
    let mut streams = SessionStreams::default();
    streams.open(exchange(1), LIMITS).unwrap();
    push(&mut streams, 1);
    assert!(streams.detach(1, exchange(1), true, LIMITS, NOW));
    // Sent, but not received: the connection of the replay may break as well.
    resume(&mut streams, 1, 0, 2).unwrap();
    assert_eq!(streams.finish(1, LIMITS, NOW), Some(exchange(2)));
    assert!(streams.detach(1, exchange(2), false, LIMITS, NOW));
    assert_eq!(replayed_numbers(&streams, 1, 0), [1]);
    assert!(resume(&mut streams, 1, 0, 3).is_ok());
}

#[test]
fn retained_streams_are_bounded_oldest_removed_first() {
    let mut streams = SessionStreams::default();
    for number in 1..=10_000 {
        assert_eq!(streams.open(exchange(number), LIMITS), Ok(number));
        push(&mut streams, number);
        streams.finish(number, LIMITS, NOW);
        assert!(streams.detach(number, exchange(number), false, LIMITS, NOW));
        assert!(streams.len() <= LIMITS.retained_streams_max);
    }
    assert_eq!(resume(&mut streams, 9_998, 0, 0), Err(SessionError::UnknownEvent));
    assert!(resume(&mut streams, 9_999, 0, 0).is_ok());
}

#[test]
fn streams_of_running_requests_are_never_removed() {
    let mut streams = SessionStreams::default();
    for number in 1..=4 {
        streams.open(exchange(number), LIMITS).unwrap();
        assert!(streams.detach(number, exchange(number), true, LIMITS, NOW));
    }
    assert_eq!(streams.open(exchange(5), LIMITS), Err(SessionError::StreamLimit(4)));
    assert!(listen(&mut streams, 5).is_ok());
    assert!((1..=4).all(|number| resume(&mut streams, number, 0, 6).is_ok()));
}

#[test]
fn stream_numbers_exhausted_open_fails() {
    let mut streams = SessionStreams { last_opened: u32::MAX - 1, ..SessionStreams::default() };
    assert_eq!(streams.open(exchange(1), LIMITS), Ok(u32::MAX));
    assert!(streams.open(exchange(2), LIMITS).is_err());
}

const REPLACE: StreamLimits = StreamLimits {
    streams_max: 64,
    retained_streams_max: 64,
    second_stream: SecondStream::Replace,
    log: EventLogLimits { events_max: 1_000, bytes_max: 1 << 20 },
};
const JOIN: StreamLimits = StreamLimits { second_stream: SecondStream::Join, ..REPLACE };

fn listen_in(streams: &mut SessionStreams, serial: u32, limits: StreamLimits) -> ListeningStream {
    streams.attach_listening(exchange(serial), limits).unwrap()
}

/// Pushes an event on the current listening stream; returns its stream and exchange.
fn push_listening(streams: &mut SessionStreams) -> (u32, Option<ExchangeAddress>) {
    let number = streams.listening();
    (number, push(streams, number).exchange)
}

#[test]
fn replaced_listener_is_finished_and_resumable() {
    let mut streams = SessionStreams::default();
    listen_in(&mut streams, 1, REPLACE);
    assert_eq!(push_listening(&mut streams), (0, Some(exchange(1))));
    let second = listen_in(&mut streams, 2, REPLACE);
    let expected = ListeningStream { number: 1, after: 0, replaced_listener: Some(exchange(1)) };
    assert_eq!((second, streams.attached()), (expected, 2));
    assert_eq!(push_listening(&mut streams), (1, Some(exchange(2))));
    assert!(streams.detach(0, exchange(1), true, REPLACE, NOW));
    assert_eq!((streams.lingering_since(0), streams.attached()), (Some(NOW), 1));
    // The client of the first one reconnects: it gets what it has missed, and replaces the other.
    let resumed = streams.resume(0, 0, exchange(3), REPLACE, usize::MAX, NOW).unwrap();
    assert_eq!((resumed.replaced_listener, resumed.is_finished), (Some(exchange(2)), false));
    assert_eq!(replayed_numbers(&streams, 0, 0), [1]);
    assert_eq!(push_listening(&mut streams), (0, Some(exchange(3))));
}

#[test]
fn joined_listeners_share_messages_newest_first() {
    let mut streams = SessionStreams::default();
    listen_in(&mut streams, 1, JOIN);
    let second = listen_in(&mut streams, 2, JOIN);
    assert_eq!(second, ListeningStream { number: 1, after: 0, replaced_listener: None });
    assert_eq!(push_listening(&mut streams), (1, Some(exchange(2))));
    assert!(streams.detach(1, exchange(2), true, JOIN, NOW));
    assert_eq!(push_listening(&mut streams), (0, Some(exchange(1))));
    let resumed = streams.resume(1, 1, exchange(3), JOIN, usize::MAX, NOW).unwrap();
    assert_eq!((resumed.replaced_listener, resumed.is_finished), (None, false));
    assert_eq!(push_listening(&mut streams), (1, Some(exchange(3))));
    // The older one closes, which does not change the current one.
    assert!(streams.detach(0, exchange(1), true, JOIN, NOW));
    assert_eq!(push_listening(&mut streams), (1, Some(exchange(3))));
    assert_eq!(streams.attached(), 1);
}

#[test]
fn waiting_events_move_to_resumed_listener() {
    let mut streams = SessionStreams::default();
    listen_in(&mut streams, 1, REPLACE);
    push_listening(&mut streams);
    listen_in(&mut streams, 2, REPLACE);
    push_listening(&mut streams);
    assert!(streams.detach(0, exchange(1), true, REPLACE, NOW));
    assert!(streams.detach(1, exchange(2), true, REPLACE, NOW));
    let bytes = streams.bytes();
    for _ in 0..2 {
        assert_eq!(push_listening(&mut streams), (1, None));
    }
    let resumed = streams.resume(0, 1, exchange(3), REPLACE, 0, NOW).unwrap();
    assert_eq!(resumed.replaced_listener, None);
    assert_eq!(
        (replayed_numbers(&streams, 0, 1), replayed_numbers(&streams, 1, 0)),
        (vec![2, 3], vec![1])
    );
    assert_eq!(streams.bytes(), 2 * bytes);
}

#[test]
fn refused_listener_changes_nothing() {
    let mut streams = SessionStreams::default();
    assert_eq!(listen(&mut streams, 1), Ok(0));
    let full = StreamLimits { streams_max: 0, ..REPLACE };
    for limits in [LIMITS, full] {
        assert!(streams.attach_listening(exchange(2), limits).is_err());
        assert_eq!(push_listening(&mut streams), (0, Some(exchange(1))));
        assert_eq!((streams.len(), streams.attached()), (1, 1));
    }
}

/// What clients and messages do. Streams and exchanges are counted back from the newest.
#[derive(Clone, Debug)]
enum Operation {
    Listen,
    Push,
    Detach { back: usize, is_sent: bool },
    Resume { back: usize },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        3 => Just(Operation::Listen),
        6 => Just(Operation::Push),
        3 => (0..3usize, any::<bool>())
            .prop_map(|(back, is_sent)| Operation::Detach { back, is_sent }),
        3 => (0..4usize).prop_map(|back| Operation::Resume { back }),
    ];
    prop::collection::vec(operation, 0..60)
}

/// Clients that receive every event given to their exchange.
#[derive(Default)]
struct Clients {
    streams: SessionStreams,
    /// Attached exchanges with their streams.
    open: Vec<(u32, u32)>,
    /// The last event of each stream.
    last_seen: BTreeMap<u32, u32>,
    /// How often each message was received.
    received: Vec<u32>,
    serial: u32,
}

impl Clients {
    fn receive(&mut self, stream: u32, number: u32, text: &Bytes) {
        let message: usize = std::str::from_utf8(text).unwrap().parse().unwrap();
        self.received[message] += 1;
        self.last_seen.insert(stream, number);
    }

    /// Receives what a stream replays on a new exchange.
    fn attach(&mut self, stream: u32, after: u32) {
        self.open.retain(|(known, _)| *known != stream);
        self.open.push((stream, self.serial));
        let events: Vec<(u32, Bytes)> =
            self.streams.replay(stream, after).map(|(n, text)| (n, text.clone())).collect();
        for (number, text) in events {
            self.receive(stream, number, &text);
        }
    }

    fn close(&mut self, ended: Option<ExchangeAddress>, limits: StreamLimits) {
        let closed = ended.and_then(|it| self.open.iter().position(|open| open.1 == it.serial));
        if let Some(place) = closed {
            let (stream, serial) = self.open.remove(place);
            assert!(self.streams.detach(stream, exchange(serial), true, limits, NOW));
        }
    }

    fn apply(&mut self, operation: &Operation, limits: StreamLimits) {
        self.serial += 1;
        let own = exchange(self.serial);
        match *operation {
            Operation::Listen => {
                let listening = self.streams.attach_listening(own, limits).unwrap();
                self.attach(listening.number, listening.after);
                self.close(listening.replaced_listener, limits);
            }
            Operation::Push => {
                let text = Bytes::from(self.received.len().to_string());
                self.received.push(0);
                let stream = self.streams.listening();
                let pushed =
                    self.streams.push(stream, text.clone(), limits.log, usize::MAX).unwrap();
                if pushed.exchange.is_some() {
                    self.receive(stream, pushed.number, &text);
                }
            }
            Operation::Detach { back, is_sent } => {
                let Some(place) = self.open.len().checked_sub(back + 1) else { return };
                let (stream, serial) = self.open.remove(place);
                assert!(self.streams.detach(stream, exchange(serial), is_sent, limits, NOW));
            }
            Operation::Resume { back } => {
                let known: Vec<(u32, u32)> =
                    self.last_seen.iter().map(|(stream, last)| (*stream, *last)).collect();
                let Some(place) = known.len().checked_sub(back + 1) else { return };
                let (stream, after) = known[place];
                let resumed = self.streams.resume(stream, after, own, limits, usize::MAX, NOW);
                // A delivered stream without events is not retained.
                let Ok(resumed) = resumed else { return };
                assert!(!resumed.is_finished);
                self.attach(stream, after);
                self.close(resumed.replaced_listener, limits);
            }
        }
        let attached = u32::try_from(self.open.len()).unwrap();
        assert_eq!(self.streams.attached(), attached);
        if limits.second_stream == SecondStream::Replace {
            assert!(attached <= 1);
        }
        // Messages never wait while a listener is attached.
        let is_attached = self.streams.exchange(self.streams.listening()).is_some();
        assert_eq!(is_attached, attached > 0);
    }
}

proptest! {
    #[test]
    fn each_message_is_received_once(operations in operations(), joins in any::<bool>()) {
        let limits = if joins { JOIN } else { REPLACE };
        let mut clients = Clients::default();
        for operation in &operations {
            clients.apply(operation, limits);
        }
        clients.apply(&Operation::Listen, limits);
        prop_assert!(clients.received.iter().all(|count| *count == 1), "{:?}", clients.received);
    }
}
