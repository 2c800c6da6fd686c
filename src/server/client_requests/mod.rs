//! Requests from handlers to their clients (elicitation, sampling, roots) and their responses.
//!
//! ```text
//!                ┌─ legacy: server request ─▶ ClientRequests ─▶ response ────────┐
//!   handler ─────┤                                                              ├─▶ handler
//!                └─ modern: PendingInputs, input_required ─▶ call with responses ┘
//! ```
//!
//! Invariants: a client request is answered once, by its peer, or it is cancelled, which its client
//! is notified of; it is sent when the handshake of its client is complete; a malformed response
//! fails it, and one without a usable id the only one that is
//! open to its peer; any other response changes nothing; no client request outlives its call or
//! task.
//!
//! Client capabilities are checked in [`crate::service`].
//!
//! Source: `basic/lifecycle` ("Timeouts") and `basic/utilities/{cancellation,progress}` of the
//! legacy revisions; 2026-07-28 `basic/patterns/mrtr`.

mod server_requests;

pub(super) mod request_state;

mod inputs;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use corelane_base::time::Instant;
use corelane_engine::timer::TimerWheel;
use corelane_protocol::error::Error;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::{ElicitAction, InputRequest, InputResponse};

pub(super) use self::inputs::{PendingInput, PendingInputs, TaskInputs};
pub(super) use self::server_requests::{OpenRequests, RequesterTarget, Requesters};
use super::memory::handler_memory::{RequestAccount, RequestCharge};
use super::reply_to::{PeerId, ReplyTo};
use super::shard_message::Requester;
use crate::service::ClientRequestError;

/// The result of an input request.
pub(super) type InputResult = Result<InputResponse, ClientRequestError>;

/// Maximum open client requests of one call or task.
pub(super) const CLIENT_REQUESTS_MAX: usize = 32;

/// Time for `notifications/initialized`, for which a client request waits.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Progress notifications of a client extend its timeout, up to this multiple of it: a client must
/// not keep a handler alive for ever.
const TIMEOUT_EXTENSIONS_MAX: u32 = 8;

/// Characters of a client's error message that are passed to the handler.
const ERROR_MESSAGE_CHARS_MAX: usize = 400;

/// The open client requests of one shard, by number.
#[derive(Debug)]
pub(super) struct ClientRequests {
    open: BTreeMap<u64, ClientRequest>,
    /// Those that wait for the handshake of their client, in the order in which they were made.
    held: Vec<u64>,
    timers: TimerWheel<u64>,
    /// Prefix of every id, which makes ids unique in the process.
    shard: u16,
    /// Time for the response.
    pub(super) timeout: Duration,
}

/// One open client request.
#[derive(Debug)]
pub(super) struct ClientRequest {
    /// The peer, and the target of the request.
    pub(super) reply_to: ReplyTo,
    pub(super) requester: Requester,
    /// The JSON-RPC id of the request.
    pub(super) id: IdBuf,
    /// Without the texts once it was written.
    request: InputRequest,
    charge: RequestCharge,
    oneshot: Rc<Oneshot>,
    sent_at: Instant,
    deadline: Instant,
    delivery: Delivery,
}

/// Where the text of a client request is.
#[derive(Debug)]
enum Delivery {
    /// In the outbox.
    Queued,
    /// Here, until the handshake of the client is complete.
    Held(Box<[u8]>),
    /// In the output of the peer, so that the request is cancelled by a notification.
    Sent,
}

/// A request to the client that is not sent yet.
#[derive(Debug)]
pub(super) struct NewClientRequest {
    request: InputRequest,
    charge: RequestCharge,
    /// Receives the result.
    pub(super) oneshot: Rc<Oneshot>,
}

/// A one-shot channel for the result of a client request.
#[derive(Debug, Default)]
pub(super) struct Oneshot {
    value: RefCell<Option<InputResult>>,
    waker: RefCell<Option<Waker>>,
}

/// What kind of response a client has sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResponseKind {
    /// An accepted URL elicitation: its outcome follows later.
    UrlAccepted,
    /// A result, or a JSON-RPC error.
    Answered,
    /// A result of the wrong shape.
    Malformed,
}

impl ClientRequests {
    pub(super) fn new(shard: u16, timeout: Duration) -> Self {
        Self { open: BTreeMap::new(), held: Vec::new(), timers: TimerWheel::new(), shard, timeout }
    }

    /// Opens client request `number`, which must be unused. Returns it to be sent.
    pub(super) fn open(
        &mut self,
        number: u64,
        reply_to: ReplyTo,
        requester: Requester,
        NewClientRequest { request, charge, oneshot }: NewClientRequest,
        now: Instant,
    ) -> &mut ClientRequest {
        let id = IdBuf::from(Id::Text(&format!("corelane-{}-{number}", self.shard)));
        let deadline = now.after(self.timeout);
        // Most are answered long before their deadline: drop stale timers first.
        self.timers.purge_stale(self.open.len(), |number| self.open.contains_key(number));
        self.timers.insert(deadline, number);
        let client_request = ClientRequest {
            reply_to,
            requester,
            id,
            request,
            charge,
            oneshot,
            sent_at: now,
            deadline,
            delivery: Delivery::Queued,
        };
        self.open.entry(number).or_insert(client_request)
    }

    /// Takes the client request that `peer_id` answers with `id`. Returns `None` if there is none:
    /// unknown, sent to another peer, answered or timed out.
    pub(super) fn take_answered(
        &mut self,
        peer_id: PeerId,
        id: Id<'_>,
    ) -> Option<(u64, ClientRequest)> {
        let number = self.find(peer_id, id)?;
        self.take(number).map(|client_request| (number, client_request))
    }

    /// Extends the timeout of a client request after a progress notification. Returns `false` if
    /// the token is unknown.
    pub(super) fn extend_timeout(&mut self, peer_id: PeerId, token: Id<'_>, now: Instant) -> bool {
        let number = self.find(peer_id, token);
        let Some(client_request) = number.and_then(|number| self.open.get_mut(&number)) else {
            return false;
        };
        let last =
            client_request.sent_at.after(self.timeout.saturating_mul(TIMEOUT_EXTENSIONS_MAX));
        // The timer stays and is rescheduled when it fires.
        client_request.deadline = now.after(self.timeout).min(last);
        true
    }

    /// Reassigns client requests to another handler state.
    pub(super) fn reassign(&mut self, numbers: &[u64], requester: Requester) {
        for number in numbers {
            if let Some(client_request) = self.open.get_mut(number) {
                client_request.requester = requester;
            }
        }
    }

    /// Takes a client request out, if it is open.
    pub(super) fn take(&mut self, number: u64) -> Option<ClientRequest> {
        let client_request = self.open.remove(&number)?;
        if matches!(client_request.delivery, Delivery::Held(_)) {
            self.held.retain(|held| *held != number);
        }
        Some(client_request)
    }

    /// Takes one client request whose deadline has passed.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<(u64, ClientRequest)> {
        loop {
            let number = self.timers.pop_expired(now)?;
            match self.open.get(&number) {
                Some(client_request) if client_request.deadline > now => {
                    self.timers.insert(client_request.deadline, number);
                }
                Some(_) => return self.take(number).map(|client_request| (number, client_request)),
                None => {}
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the bytes that all requests hold, from what is stored.
    pub(super) fn recount_bytes(&self) -> usize {
        self.open.values().map(ClientRequest::heap_bytes).sum()
    }

    /// Returns the bytes of the tables, without what is charged for the requests. Nodes are two
    /// thirds full on average.
    pub(super) fn place_bytes(&self) -> usize {
        let Self { open, held, timers, shard: _, timeout: _ } = self;
        let nodes = open.len() * size_of::<(u64, ClientRequest)>() * 3 / 2;
        let ids: usize = open.values().map(|it| it.id.heap_bytes()).sum();
        let shared =
            open.len() * (ALLOCATION_BYTES + size_of::<Oneshot>() + 2 * size_of::<usize>());
        nodes + ids + shared + held.capacity() * size_of::<u64>() + timers.allocated_bytes()
    }

    /// Returns the bytes that client requests hold.
    pub(super) fn held_bytes(&self, numbers: &[u64]) -> usize {
        let open = numbers.iter().filter_map(|number| self.open.get(number));
        open.map(|client_request| client_request.charge.bytes()).sum()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// The numbers of all open client requests.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    /// Returns the number of the client request to `peer_id` with this id.
    pub(super) fn find(&self, peer_id: PeerId, id: Id<'_>) -> Option<u64> {
        let Id::Text(text) = id else { return None };
        let number = text.rsplit('-').next()?.parse().ok()?;
        let client_request = self.open.get(&number)?;
        (client_request.reply_to.peer_id == peer_id && client_request.id.as_id() == id)
            .then_some(number)
    }
}

impl NewClientRequest {
    /// Charges `request` to the account of its handler.
    ///
    /// # Errors
    ///
    /// The server is short of memory.
    pub(super) fn charged(
        request: InputRequest,
        account: &RequestAccount,
    ) -> Result<Self, ClientRequestError> {
        let charge = account.charge(request.heap_bytes()).map_err(ClientRequestError::Refused)?;
        Ok(Self { request, charge, oneshot: Rc::default() })
    }
}

heap_bytes!(
    ClientRequest { request }
    counted { delivery: Self::text_bytes }
    inline { reply_to, requester, sent_at, deadline }
    // The places, as their number is limited; the account itself.
    elsewhere { id, oneshot, charge }
);

impl ClientRequest {
    /// Discards what reading the response does not need: the request was written.
    fn discard_texts(&mut self) {
        self.request.discard_texts();
        self.charge.shrink(self.request.heap_bytes());
    }

    /// Returns the bytes of the text that waits.
    fn text_bytes(&self) -> usize {
        match &self.delivery {
            Delivery::Queued | Delivery::Sent => 0,
            Delivery::Held(text) => text.len(),
        }
    }

    /// Passes the client's response to the handler.
    pub(super) fn complete(self, outcome: Result<Value<'_>, Value<'_>>) -> ResponseKind {
        let reply = match outcome {
            Ok(result) => self
                .request
                .read_response(&result.to_json())
                .map_err(ClientRequestError::invalid_message),
            Err(fault) => Err(ClientRequestError::ErrorResponse(error_message(fault))),
        };
        let settled = match (&self.request, &reply) {
            (_, Err(ClientRequestError::InvalidResponse(_))) => ResponseKind::Malformed,
            (InputRequest::Elicit(asked), Ok(InputResponse::Elicit(elicit_result)))
                if asked.is_url() && elicit_result.action == ElicitAction::Accept =>
            {
                ResponseKind::UrlAccepted
            }
            _ => ResponseKind::Answered,
        };
        self.oneshot.send(reply);
        settled
    }

    /// The `elicitationId` of a URL elicitation: that of the handler, or the id of the request.
    pub(super) fn elicitation_id(&self) -> Option<Box<str>> {
        let InputRequest::Elicit(elicit) = &self.request else { return None };
        match (elicit.id(), self.id.as_id()) {
            (Some(own), _) => Some(own.into()),
            (None, Id::Text(id)) => Some(id.into()),
            (None, _) => None,
        }
    }

    /// Fails the request with `error`.
    pub(super) fn fail(self, error: ClientRequestError) {
        self.oneshot.send(Err(error));
    }
}

/// Returns the message of a JSON-RPC error, truncated.
pub(super) fn error_message(fault: Value<'_>) -> Box<str> {
    let text = fault.as_object().and_then(|fault| fault.find("message"));
    let text = text.and_then(Value::as_str).unwrap_or_default();
    text.chars().take(ERROR_MESSAGE_CHARS_MAX).collect()
}

impl Oneshot {
    /// Stores the result and wakes the handler.
    pub(super) fn send(&self, reply: InputResult) {
        *self.value.borrow_mut() = Some(reply);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Returns the result once it is there.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<InputResult> {
        if let Some(reply) = self.value.take() {
            return Poll::Ready(reply);
        }
        *self.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The error of a handler with too many open requests.
#[cold]
pub(super) fn too_many_requests() -> ClientRequestError {
    let message = format!("too many open client requests (limit {CLIENT_REQUESTS_MAX})");
    ClientRequestError::Refused(Error::internal(message))
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Key;
    use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};
    use corelane_protocol::model::{ElicitRequest, Field, Form};
    use corelane_protocol::revision::Revision;

    use super::*;
    use crate::server::memory::MemoryLimit;
    use crate::server::memory::handler_memory::HandlerMemory;
    use crate::server::outbox::Outbox;

    const CLIENT: PeerId = PeerId::Connection(Key::from_bits(1));
    const OTHER_CLIENT: PeerId = PeerId::Connection(Key::from_bits(2));
    const CALL: Requester = Requester::Call(Key::from_bits(7));

    fn at(seconds: u64) -> Instant {
        Instant::from_milliseconds(seconds * 1000)
    }

    /// Opens client request `number` and returns its id.
    fn open(client_requests: &mut ClientRequests, number: u64, oneshot: &Rc<Oneshot>) -> IdBuf {
        let memory = Rc::new(HandlerMemory::new(MemoryLimit::new(1600)));
        let charge = RequestAccount::new(&memory).charge(0).unwrap();
        let (request, oneshot) = (InputRequest::ListRoots, Rc::clone(oneshot));
        let request = NewClientRequest { request, charge, oneshot };
        let reply_to = ReplyTo::standalone(CLIENT);
        client_requests.open(number, reply_to, CALL, request, at(0)).id.clone()
    }

    fn client_requests() -> ClientRequests {
        ClientRequests::new(3, Duration::from_secs(10))
    }

    fn poll_result(oneshot: &Oneshot) -> Poll<InputResult> {
        oneshot.poll(&Context::from_waker(Waker::noop()))
    }

    fn complete(client_request: ClientRequest, response: &str) -> ResponseKind {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = response.as_bytes().to_vec();
        bytes.resize(response.len() + PADDING_BYTES, 0);
        let document = parser.parse(PaddedText::new(&mut bytes, response.len())).unwrap();
        client_request.complete(Ok(document.root()))
    }

    #[test]
    fn client_request_is_answered_once_by_its_peer() {
        let (mut client_requests, oneshot) = (client_requests(), Rc::<Oneshot>::default());
        let id = open(&mut client_requests, 5, &oneshot);
        assert_eq!(id.as_id(), Id::Text("corelane-3-5"));
        assert!(client_requests.take_answered(OTHER_CLIENT, id.as_id()).is_none());
        for other in [Id::Text("corelane-4-5"), Id::Text("corelane-3-05"), Id::Signed(5)] {
            assert!(client_requests.take_answered(CLIENT, other).is_none());
        }
        let (number, client_request) = client_requests.take_answered(CLIENT, id.as_id()).unwrap();
        assert_eq!(number, 5);
        assert!(poll_result(&oneshot).is_pending());
        assert_eq!(complete(client_request, r#"{"roots":[]}"#), ResponseKind::Answered);
        assert!(matches!(poll_result(&oneshot), Poll::Ready(Ok(InputResponse::ListRoots(_)))));
        assert!(client_requests.take_answered(CLIENT, id.as_id()).is_none());
    }

    #[test]
    fn sent_client_request_holds_no_text() {
        let memory = Rc::new(HandlerMemory::new(MemoryLimit::new(64 << 10)));
        let account = RequestAccount::new(&memory);
        let form = Form::new().field(Field::text("name").title("x".repeat(1 << 10)));
        let request = InputRequest::Elicit(ElicitRequest::form("x".repeat(8 << 10), form));
        let request = NewClientRequest::charged(request, &account).unwrap();
        assert!(memory.held_bytes() > 9 << 10);
        let (mut client_requests, oneshot) = (client_requests(), Rc::clone(&request.oneshot));
        client_requests.open(0, ReplyTo::standalone(CLIENT), CALL, request, at(0)).discard_texts();
        assert!(memory.held_bytes() < 1 << 10);
        let client_request = client_requests.take(0).unwrap();
        let response = r#"{"action":"accept","content":{"name":"n"}}"#;
        assert_eq!(complete(client_request, response), ResponseKind::Answered);
        assert!(matches!(poll_result(&oneshot), Poll::Ready(Ok(InputResponse::Elicit(_)))));
        assert_eq!(memory.held_bytes(), 0);
    }

    #[test]
    fn progress_with_maximum_timeout_does_not_overflow() {
        let (mut client_requests, oneshot) =
            (ClientRequests::new(3, Duration::MAX), Rc::<Oneshot>::default());
        let id = open(&mut client_requests, 5, &oneshot);
        assert!(client_requests.extend_timeout(CLIENT, id.as_id(), at(1)));
        assert!(client_requests.pop_overdue(at(1_000_000)).is_none());
    }

    #[test]
    fn malformed_client_response_is_reported() {
        let (mut client_requests, oneshot) = (client_requests(), Rc::<Oneshot>::default());
        let id = open(&mut client_requests, 0, &oneshot);
        let (_, client_request) = client_requests.take_answered(CLIENT, id.as_id()).unwrap();
        assert_eq!(complete(client_request, r#"{"roots":7}"#), ResponseKind::Malformed);
        assert!(matches!(
            poll_result(&oneshot),
            Poll::Ready(Err(ClientRequestError::InvalidResponse(_)))
        ));
    }

    #[test]
    fn progress_extends_client_request_timeout_up_to_limit() {
        let (mut client_requests, oneshot) = (client_requests(), Rc::<Oneshot>::default());
        let id = open(&mut client_requests, 0, &oneshot);
        assert!(!client_requests.extend_timeout(OTHER_CLIENT, id.as_id(), at(9)));
        assert!(!client_requests.extend_timeout(CLIENT, Id::Text("corelane-3-1"), at(9)));
        for now in (9..80).step_by(9) {
            assert!(client_requests.extend_timeout(CLIENT, id.as_id(), at(now)));
            assert!(client_requests.pop_overdue(at(now + 1)).is_none(), "{now}");
        }
        assert!(client_requests.extend_timeout(CLIENT, id.as_id(), at(79)));
        assert!(client_requests.pop_overdue(at(79)).is_none());
        let (number, client_request) = client_requests.pop_overdue(at(80)).unwrap();
        client_request.fail(ClientRequestError::Timeout);
        assert_eq!((number, client_requests.next_deadline()), (0, None));
        assert!(matches!(poll_result(&oneshot), Poll::Ready(Err(ClientRequestError::Timeout))));
    }

    /// The only call, whose client requests it records.
    #[derive(Default)]
    struct OneCall {
        finished: Vec<u64>,
    }

    impl Requesters for OneCall {
        fn target(&mut self, _: Requester) -> Option<RequesterTarget> {
            let (reply_to, revision) = (ReplyTo::standalone(CLIENT), Revision::LATEST_LEGACY);
            Some(RequesterTarget { reply_to, revision, task: None })
        }

        fn add(&mut self, _: Requester, _: u64, _: usize, _: Instant) -> bool {
            true
        }

        fn finish(&mut self, _: Requester, number: u64, _: Instant) {
            self.finished.push(number);
        }

        fn record_accepted_url(&mut self, _: Requester, _: Option<Box<str>>) {}
    }

    /// Sends client request `number`, which is held from second 0 on.
    fn hold(client_requests: &mut ClientRequests, call: &mut OneCall, number: u64) -> Rc<Oneshot> {
        let memory = Rc::new(HandlerMemory::new(MemoryLimit::new(1 << 10)));
        let account = RequestAccount::new(&memory);
        let request = NewClientRequest::charged(InputRequest::ListRoots, &account).unwrap();
        let oneshot = Rc::clone(&request.oneshot);
        client_requests.request_client(call, CALL, number, request, at(0), &mut Outbox::default());
        client_requests.hold(call, number, b"{}", at(0));
        oneshot
    }

    #[test]
    fn held_client_request_fails_without_handshake() {
        let (mut client_requests, mut call) = (client_requests(), OneCall::default());
        let oneshot = hold(&mut client_requests, &mut call, 0);
        client_requests.send_held(OTHER_CLIENT, at(1), &mut Outbox::default());
        client_requests.expire(&mut call, at(4), &mut Outbox::default());
        assert!(poll_result(&oneshot).is_pending());
        let mut outbox = Outbox::default();
        client_requests.expire(&mut call, at(6), &mut outbox);
        let result = poll_result(&oneshot);
        assert!(matches!(result, Poll::Ready(Err(ClientRequestError::NotInitialized))));
        assert_eq!(call.finished, [0]);
        client_requests.send_held(CLIENT, at(6), &mut outbox);
        assert!(outbox.is_empty(), "{outbox:?}");
    }

    #[test]
    fn time_for_response_begins_after_handshake() {
        let (mut client_requests, mut call) = (client_requests(), OneCall::default());
        let oneshot = hold(&mut client_requests, &mut call, 0);
        let mut outbox = Outbox::default();
        client_requests.send_held(CLIENT, at(4), &mut outbox);
        assert!(!outbox.is_empty());
        client_requests.expire(&mut call, at(13), &mut outbox);
        assert!(poll_result(&oneshot).is_pending());
        client_requests.expire(&mut call, at(15), &mut outbox);
        let result = poll_result(&oneshot);
        assert!(matches!(result, Poll::Ready(Err(ClientRequestError::Timeout))));
    }

    #[test]
    fn cancelled_client_request_never_times_out() {
        let (mut client_requests, oneshot) = (client_requests(), Rc::<Oneshot>::default());
        open(&mut client_requests, 0, &oneshot);
        open(&mut client_requests, 1, &oneshot);
        assert_eq!(client_requests.numbers(), [0, 1]);
        assert!(client_requests.take(0).is_some());
        assert!(client_requests.take(0).is_none());
        assert_eq!(client_requests.numbers(), [1]);
        assert_eq!(client_requests.pop_overdue(at(10)).unwrap().0, 1);
        assert!(client_requests.pop_overdue(at(10)).is_none());
    }
}
