//! Tests of memory: a notification allocates nothing, and a stream holds little.

#![expect(clippy::unwrap_used, reason = "test setup")]

use corelane_load::mcp::{
    RequestSettings, Subscriber, SubscriberEvent, Subscription, SubscriptionFilter,
};
use corelane_load::target::{Era, Transport};
use corelane_load::wire::Reader;
use corelane_load::wire::lines::LineReader;
use corelane_test_support::alloc_counter::{CountingAllocator, count_allocations, peak_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Notifications between two readings of the allocation counter.
const NOTIFICATIONS: usize = 1_000;
/// Limit of the memory of a listening connection, without its generic connection state, in bytes.
const HELD_BYTES_MAX: usize = 1_000;

/// Subscription id of the first stream of a connection.
const ID: u64 = 1_000_000_000;

fn subscription(transport: Transport) -> Subscription {
    let (authority, path) = ("localhost:1", "/mcp");
    let settings =
        RequestSettings::new(transport, Era::Modern, authority, path, Vec::new()).unwrap();
    Subscription::new(&settings, SubscriptionFilter::Tools, 1)
}

fn listening(transport: Transport, subscription: &Subscription) -> Subscriber {
    let reader = match transport {
        Transport::Http => Reader::Responses(Box::default()),
        Transport::WebSocket => Reader::Frames(Box::default()),
        Transport::Tcp | Transport::Stdio => Reader::Lines(LineReader::default()),
    };
    Subscriber::new(subscription, reader, Vec::new(), None, &mut Vec::new())
}

/// Returns a notification framed for the transport.
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

/// Returns the bytes that open a stream.
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
fn notification_allocates_nothing() {
    for transport in TRANSPORTS {
        for pieces in [1, 3] {
            let mut subscription = subscription(transport);
            let mut listening = listening(transport, &subscription);
            let (opening, change) =
                (opening(transport), framed(transport, "tools/list_changed", ""));
            let mut received = 0;
            let mut receive = |bytes: &[u8]| {
                for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
                    let count =
                        |event| received += usize::from(event == SubscriberEvent::Notified(0));
                    listening.receive(&mut subscription, piece, count).unwrap();
                }
            };
            receive(&opening);
            // Buffers grow to the size of the messages first.
            (0..2).for_each(|_| receive(&change));
            let allocations = count_allocations(|| {
                (0..NOTIFICATIONS).for_each(|_| receive(&change));
            });
            assert_eq!(allocations, 0, "{transport:?} in {pieces} pieces");
            assert_eq!(received, NOTIFICATIONS + 2, "{transport:?} in {pieces} pieces");
        }
    }
}

#[test]
fn listening_stream_memory_is_bounded() {
    for transport in TRANSPORTS {
        let mut subscription = subscription(transport);
        let (opening, change) = (opening(transport), framed(transport, "tools/list_changed", ""));
        // Memory shared by all streams is excluded.
        for count in [1, 100] {
            let (held, bytes) = peak_bytes(|| {
                let mut held = Vec::with_capacity(count);
                for _ in 0..count {
                    let mut one = Box::new(listening(transport, &subscription));
                    for bytes in [&opening, &change] {
                        one.receive(&mut subscription, bytes, |_| {}).unwrap();
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
