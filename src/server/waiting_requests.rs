//! Messages that wait: for the authorization server to say what their token is, or for the response
//! to the request before (`stdio.sequential`).
//!
//! A server over standard input and output with that option starts one request at a time. While one
//! is in flight, its input is read on, because the next message may be its cancellation or the
//! response that its handler waits for; requests among it wait here.
//!
//! Invariants: requests start in the order in which they came; one that waits is in flight, so that
//! its id is unique and it can be cancelled; what waits is charged to the memory of handlers, and
//! nothing more is read once it exceeds the limit of one message or that of requests in flight.
//!
//! Of messages that wait for an answer about their token a connection has one at most, since
//! nothing is read behind it; it is charged to the memory of handlers; and waits as long as its
//! token is asked about.

use std::collections::{HashMap, VecDeque};

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{HeapBytes, buffer_bytes};
use corelane_base::slab::Key;
use corelane_protocol::in_flight::{RequestKey, RequestsInFlight};
use corelane_protocol::json::{PaddedBuffer, Value, write};
use corelane_protocol::jsonrpc::{Id, IdBuf};

use super::memory::handler_memory::HandlerCharge;
use super::reply_to::ReplyTo;
use super::shard_message::ShardLimits;

/// The waiting requests of the only connection of a shard.
#[derive(Debug)]
pub(super) struct WaitingRequests {
    is_enabled: bool,
    /// A request that has waited is being dispatched.
    is_starting: bool,
    limits: WaitingLimits,
    queue: VecDeque<WaitingRequest>,
    /// Bytes of all of them.
    bytes: usize,
}

/// What may wait before nothing more is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingLimits {
    pub(super) bytes_max: usize,
    requests_max: usize,
}

impl From<&ShardLimits> for WaitingLimits {
    fn from(limits: &ShardLimits) -> Self {
        Self {
            bytes_max: limits.connections.message_bytes_max,
            requests_max: limits.requests_in_flight_max,
        }
    }
}

/// A request with its text.
#[derive(Debug)]
struct WaitingRequest {
    id: IdBuf,
    text: Vec<u8>,
    charge: HandlerCharge,
}

heap_bytes!(
    WaitingRequest { id }
    counted { text: Self::text_bytes }
    // The account itself.
    elsewhere { charge }
);

impl WaitingRequest {
    const fn text_bytes(&self) -> usize {
        buffer_bytes(&self.text)
    }
}

/// Returns what is charged for a request that waits: it is stored with its id, which is in flight.
pub(super) fn waiting_bytes(id: Id<'_>, text: &Vec<u8>) -> usize {
    let id = if let Id::Text(id) = id { id.heap_bytes() } else { 0 };
    size_of::<WaitingRequest>() + 2 * id + buffer_bytes(text)
}

impl WaitingRequests {
    /// Returns an empty queue. Unless it `is_enabled`, no request has to wait.
    pub(super) const fn new(is_enabled: bool, limits: WaitingLimits) -> Self {
        Self { is_enabled, is_starting: false, limits, queue: VecDeque::new(), bytes: 0 }
    }

    pub(super) const fn set_limits(&mut self, limits: WaitingLimits) {
        self.limits = limits;
    }

    /// Returns whether a request has to wait for these, which are in flight.
    pub(super) fn must_queue(&self, in_flight: &RequestsInFlight) -> bool {
        self.is_enabled && !self.is_starting && (!self.is_empty() || has_calls(in_flight))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether so much waits that nothing more is read.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.limits.bytes_max || self.queue.len() >= self.limits.requests_max
    }

    /// Returns what is charged for the waiting requests, from what is stored.
    pub(super) fn recount_bytes(&self) -> usize {
        let counted = |request: &WaitingRequest| {
            size_of::<WaitingRequest>() + request.id.heap_bytes() + request.heap_bytes()
        };
        self.queue.iter().map(counted).sum()
    }

    /// Returns the bytes of the waiting requests.
    pub(super) const fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a request, which is in flight from now on.
    pub(super) fn push(
        &mut self,
        id: Id<'_>,
        text: Vec<u8>,
        charge: HandlerCharge,
        in_flight: &mut RequestsInFlight,
    ) {
        // Checked for duplicates before.
        if in_flight.insert(id, ReplyTo::STANDALONE, RequestKey::Waiting).is_ok() {
            self.bytes += charge.bytes();
            self.queue.push_back(WaitingRequest { id: id.into(), text, charge });
        }
    }

    /// Removes a request that was cancelled.
    pub(super) fn remove(&mut self, id: Id<'_>) {
        let Self { queue, bytes, .. } = self;
        queue.retain(|request| {
            let is_other = request.id.as_id() != id;
            *bytes -= if is_other { 0 } else { request.charge.bytes() };
            is_other
        });
    }

    /// Takes the next request, unless one is in flight. Call [`WaitingRequests::end_start`] after
    /// its dispatch.
    pub(super) fn start_next(&mut self, in_flight: &mut RequestsInFlight) -> Option<PaddedBuffer> {
        if has_calls(in_flight) {
            return None;
        }
        let WaitingRequest { text, .. } = self.pop(in_flight)?;
        self.is_starting = true;
        Some(PaddedBuffer::new(text))
    }

    /// Records that a request that was held is to be dispatched again.
    pub(super) const fn begin_start(&mut self) {
        self.is_starting = true;
    }

    /// Records that the request is dispatched.
    pub(super) const fn end_start(&mut self) {
        self.is_starting = false;
    }

    /// Takes the next request, which is not started any more, and returns its id.
    pub(super) fn discard_next(&mut self, in_flight: &mut RequestsInFlight) -> Option<IdBuf> {
        self.pop(in_flight).map(|request| request.id)
    }

    fn pop(&mut self, in_flight: &mut RequestsInFlight) -> Option<WaitingRequest> {
        let request = self.queue.pop_front()?;
        self.bytes -= request.charge.bytes();
        in_flight.remove_any(request.id.as_id());
        Some(request)
    }
}

fn has_calls(in_flight: &RequestsInFlight) -> bool {
    in_flight.calls().next().is_some()
}

/// Encodes a parsed request again: parsing has changed its text.
pub(super) fn encode_request(id: Id<'_>, method: &str, params: Option<Value<'_>>) -> Vec<u8> {
    let mut text = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    id.write(&mut text);
    text.extend_from_slice(br#","method":"#);
    write::string(&mut text, method);
    if let Some(params) = params {
        text.extend_from_slice(br#","params":"#);
        params.write(&mut text);
    }
    text.push(b'}');
    text
}

/// The messages of a shard that wait.
#[derive(Debug, Default)]
pub(super) struct HeldMessages(HashMap<Key, HeldMessage>);

#[derive(Debug)]
struct HeldMessage {
    text: Vec<u8>,
    _charge: HandlerCharge,
}

heap_bytes!(
    HeldMessage {}
    counted { text: Self::text_bytes }
    // The account itself.
    elsewhere { _charge }
);

impl HeldMessage {
    const fn text_bytes(&self) -> usize {
        buffer_bytes(&self.text)
    }
}

/// Returns what is charged for a message that is held.
pub(super) const fn held_message_bytes(text: &Vec<u8>) -> usize {
    size_of::<(Key, HeldMessage)>() + buffer_bytes(text)
}

impl HeldMessages {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of messages that wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns what is charged for the messages, from what is stored.
    pub(super) fn recount_bytes(&self) -> usize {
        let texts = self.0.values().map(HeapBytes::heap_bytes);
        self.0.len() * size_of::<(Key, HeldMessage)>() + texts.sum::<usize>()
    }

    /// Returns whether a message of a connection waits.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }

    /// Adds the text of a message of a connection.
    pub(super) fn insert(&mut self, key: Key, text: Vec<u8>, charge: HandlerCharge) {
        self.0.insert(key, HeldMessage { text, _charge: charge });
    }

    /// Takes the message of a connection, to be dispatched again or dropped.
    pub(super) fn take(&mut self, key: Key) -> Option<PaddedBuffer> {
        self.0.remove(&key).map(|message| PaddedBuffer::new(message.text))
    }
}

#[cfg(test)]
mod tests {
    use corelane_protocol::json::{ParseLimits, Parser};

    use super::*;
    use crate::server::memory::MemoryLimit;
    use crate::server::memory::handler_memory::HandlerMemory;

    const LIMITS: WaitingLimits = WaitingLimits { bytes_max: 100, requests_max: 3 };

    struct Fixture {
        waiting: WaitingRequests,
        in_flight: RequestsInFlight,
        memory: HandlerMemory,
    }

    impl Fixture {
        /// Returns an empty queue behind call 0.
        fn new() -> Self {
            let mut in_flight = RequestsInFlight::new();
            let first = RequestKey::Call(Key::from_bits(1));
            in_flight.insert(Id::Signed(0), ReplyTo::STANDALONE, first).unwrap();
            let memory = HandlerMemory::new(MemoryLimit::new(1 << 20));
            Self { waiting: WaitingRequests::new(true, LIMITS), in_flight, memory }
        }

        fn push(&mut self, id: i64, text: &str) {
            assert!(self.waiting.must_queue(&self.in_flight));
            let text = text.as_bytes().to_vec();
            let charge = self.memory.charge(text.len(), || 0).unwrap();
            self.waiting.push(Id::Signed(id), text, charge, &mut self.in_flight);
        }

        fn start_next(&mut self) -> Option<String> {
            let text = self.waiting.start_next(&mut self.in_flight)?;
            assert!(!self.waiting.must_queue(&self.in_flight));
            self.waiting.end_start();
            Some(String::from_utf8(text.as_bytes().to_vec()).unwrap())
        }
    }

    #[test]
    fn requests_start_in_order_after_call() {
        let mut fixture = Fixture::new();
        fixture.push(1, "one");
        fixture.push(2, "two");
        assert_eq!(fixture.start_next(), None);
        fixture.in_flight.remove_any(Id::Signed(0));
        // One that comes now is behind them.
        fixture.push(3, "three");
        assert_eq!(fixture.start_next().as_deref(), Some("one"));
        assert!(!fixture.in_flight.contains(Id::Signed(1)));
        assert_eq!(fixture.start_next().as_deref(), Some("two"));
        assert_eq!(fixture.start_next().as_deref(), Some("three"));
        assert_eq!(fixture.start_next(), None);
        assert!(fixture.in_flight.is_empty() && !fixture.waiting.must_queue(&fixture.in_flight));
    }

    #[test]
    fn cancelled_request_releases_its_memory() {
        let mut fixture = Fixture::new();
        for (id, text) in [(1, "one"), (2, "two"), (3, "three")] {
            fixture.push(id, text);
        }
        assert!(fixture.waiting.is_full());
        assert_eq!((fixture.waiting.held_bytes(), fixture.memory.held_bytes()), (11, 11));
        assert_eq!(fixture.in_flight.remove_any(Id::Signed(2)), Some(RequestKey::Waiting));
        fixture.waiting.remove(Id::Signed(2));
        assert!(!fixture.waiting.is_full());
        assert_eq!((fixture.waiting.held_bytes(), fixture.memory.held_bytes()), (8, 8));
        let discarded = fixture.waiting.discard_next(&mut fixture.in_flight);
        assert_eq!(discarded.unwrap().as_id(), Id::Signed(1));
        fixture.push(4, &"x".repeat(100));
        assert!(fixture.waiting.is_full());
    }

    #[test]
    fn encoded_request_has_its_content() {
        let text =
            r#"{"id":"a\"b","params":{"s":"ü\n\u0001","n":[1,-2.5,1e300,18446744073709551615]}}"#;
        let mut buffer = PaddedBuffer::copy_of(text.as_bytes());
        let mut parser = Parser::new(ParseLimits::default());
        let document = parser.parse(buffer.text()).unwrap();
        let params = document.root().as_object().and_then(|root| root.find("params"));
        let encoded = encode_request(Id::Text("a\"b"), "tools/call", params);
        let encoded: serde_json::Value = serde_json::from_slice(&encoded).unwrap();
        let mut expected: serde_json::Value = serde_json::from_str(text).unwrap();
        expected["jsonrpc"] = "2.0".into();
        expected["method"] = "tools/call".into();
        assert_eq!(encoded, expected);
        let bare = encode_request(Id::Signed(-7), "ping", None);
        assert_eq!(bare, br#"{"jsonrpc":"2.0","id":-7,"method":"ping"}"#);
    }
}
