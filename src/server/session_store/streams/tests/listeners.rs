//! Several GET streams of one session: each message is sent on one of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::server::session_store::streams::listening::ListeningStream;

const REPLACE: StreamLimits = StreamLimits {
    streams_max: 64,
    retained_streams_max: 64,
    second_stream: SecondStream::Replace,
    log: EventLogLimits { events_max: 1_000, bytes_max: 1 << 20 },
};
const JOIN: StreamLimits = StreamLimits { second_stream: SecondStream::Join, ..REPLACE };

fn listen_in(streams: &mut SessionStreams, serial: u32, limits: StreamLimits) -> ListeningStream {
    listening::attach(streams, exchange(serial), limits).unwrap()
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
        assert!(listening::attach(&mut streams, exchange(2), limits).is_err());
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

    fn close(&mut self, exchange: Option<ExchangeAddress>, limits: StreamLimits) {
        let closed = exchange.and_then(|it| self.open.iter().position(|open| open.1 == it.serial));
        if let Some(place) = closed {
            let (stream, serial) = self.open.remove(place);
            assert!(self.streams.detach(stream, super::exchange(serial), true, limits, NOW));
        }
    }

    fn apply(&mut self, operation: &Operation, limits: StreamLimits) {
        self.serial += 1;
        let own = exchange(self.serial);
        match *operation {
            Operation::Listen => {
                let listening = listening::attach(&mut self.streams, own, limits).unwrap();
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
