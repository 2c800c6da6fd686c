//! What listening costs the generator: nothing new for a notification, and little for a stream.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

#[path = "../../tests/alloc/counting.rs"]
mod counting;

use corelane_load::dialogue::{Hearing, Listening, Speech, Subject, Subscription};
use corelane_load::target::{Era, Transport};
use corelane_load::wire::Reader;
use corelane_load::wire::lines::LineReader;

/// Notifications between two looks at the counter.
const NOTIFICATIONS: usize = 1_000;
/// What one connection that listens may hold beside its lane, in bytes.
const HELD_BYTES_MAX: usize = 640;

/// The first stream of a connection.
const ID: u64 = 1_000_000_000;

fn subscription(transport: Transport) -> Subscription {
    let speech = Speech {
        transport,
        era: Era::Modern,
        authority: "localhost:1".into(),
        path: "/mcp".into(),
        fields: Vec::new(),
    };
    Subscription::new(&speech, Subject::Tools, 1)
}

fn listening(transport: Transport, subscription: &Subscription) -> Listening {
    let reader = match transport {
        Transport::Http => Reader::Responses(Box::default()),
        Transport::WebSocket => Reader::Frames(Box::default()),
        Transport::Tcp | Transport::Stdio => Reader::Lines(LineReader::default()),
    };
    Listening::new(subscription, (reader, Vec::new(), None), &mut Vec::new())
}

/// A notification as a server sends it.
fn framed(transport: Transport, method: &str, rest: &str) -> Vec<u8> {
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{\"_meta\":\
         {{\"io.modelcontextprotocol/subscriptionId\":{ID}}}{rest}}}}}"
    );
    match transport {
        Transport::Http => {
            let event = format!("data: {text}\n\n");
            format!("{:x}\r\n{event}\r\n", event.len()).into()
        }
        Transport::WebSocket => {
            let length = u16::try_from(text.len()).unwrap().to_be_bytes();
            [&[0x81, 126], &length[..], text.as_bytes()].concat()
        }
        Transport::Tcp | Transport::Stdio => format!("{text}\n").into(),
    }
}

/// What a server says until a stream is open.
fn opening(transport: Transport) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Transfer-Encoding: chunked\r\n\r\n";
    let head = if transport == Transport::Http { head } else { "" };
    let granted = ",\"notifications\":{\"toolsListChanged\":true}";
    let acknowledged = framed(transport, "subscriptions/acknowledged", granted);
    [head.as_bytes(), &acknowledged].concat()
}

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Http, Transport::WebSocket];

#[test]
fn hearing_of_a_change_allocates_nothing() {
    for transport in TRANSPORTS {
        for pieces in [1, 3] {
            let mut subscription = subscription(transport);
            let mut listening = listening(transport, &subscription);
            let (opening, change) =
                (opening(transport), framed(transport, "tools/list_changed", ""));
            let mut told = 0;
            let mut hear = |bytes: &[u8]| {
                for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
                    let count = |hearing| told += usize::from(hearing == Hearing::Told(0));
                    listening.hear(&mut subscription, piece, count).unwrap();
                }
            };
            hear(&opening);
            // Buffers grow to the size of what comes.
            (0..2).for_each(|_| hear(&change));
            let allocations =
                counting::allocations(|| (0..NOTIFICATIONS).for_each(|_| hear(&change)));
            assert_eq!(allocations, 0, "{transport:?} in {pieces} pieces");
            assert_eq!(told, NOTIFICATIONS + 2, "{transport:?} in {pieces} pieces");
        }
    }
}

#[test]
fn a_stream_that_listens_holds_little() {
    for transport in TRANSPORTS {
        let mut subscription = subscription(transport);
        let (opening, change) = (opening(transport), framed(transport, "tools/list_changed", ""));
        // What is learned once for all streams is none of it.
        for count in [1, 100] {
            let (held, bytes) = counting::peak_bytes(|| {
                let mut held = Vec::with_capacity(count);
                for _ in 0..count {
                    let mut one = Box::new(listening(transport, &subscription));
                    for bytes in [&opening, &change] {
                        one.hear(&mut subscription, bytes, |_| {}).unwrap();
                    }
                    held.push(one);
                }
                held
            });
            let each = bytes / held.len();
            assert!(count == 1 || each <= HELD_BYTES_MAX, "{transport:?} holds {each} bytes");
        }
    }
}
