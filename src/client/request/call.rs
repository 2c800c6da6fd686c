//! One call, as it is sent to the I/O thread, and the memory of calls that have ended, for the next
//! ones of the same thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use corelane_protocol::eras::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cache::{CacheLookup, CacheTicket};
use crate::error::{ClientError, ClientErrorKind};
use crate::io::{CallCallbacks, CallOutcome, CallSlot, PeerRef};
use crate::results::{TaskSupport, ToolInfo};
use crate::session::{CallRequest, ReceivedMessage};

/// A call that was sent. Dropping it cancels the call.
pub(super) struct CallFuture {
    peer: Option<Arc<PeerRef>>,
    /// `None` if it was not sent, or its outcome is taken.
    slot: Option<Arc<CallSlot>>,
    /// Why it was not sent.
    failure: Option<ClientError>,
    /// The page of the list of tools that it requests.
    tools_page: Option<ToolsPage>,
    /// Stores the result, if it may be used again.
    ticket: Option<CacheTicket>,
}

/// A page of the list of tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ToolsPage {
    First,
    Later,
}

impl ToolsPage {
    /// Returns the page that a request is for.
    fn of_request(request: &CallRequest) -> Option<Self> {
        if request.method != Method::ToolsList {
            return None;
        }
        let params: Value = serde_json::from_slice(&request.params).unwrap_or_default();
        Some(if params.get("cursor").is_some() { Self::Later } else { Self::First })
    }

    /// Notes the tools of a page.
    fn learn(self, message: &ReceivedMessage, peer: &PeerRef) {
        let revision = message.revision();
        let is_relevant = revision.is_modern() && peer.shared.tools.has_headers();
        // Short of the names, to find out whether the list need be read.
        let has_hints = memchr::memmem::find(message.as_bytes(), b"Hint\"").is_some();
        if !is_relevant && !has_hints && !revision.dialect().core_tasks {
            return;
        }
        let Ok(Value::Object(mut result)) = read_result(message) else { return };
        let Some(Value::Array(tools)) = result.remove("tools") else { return };
        let read = tools.into_iter().filter_map(|tool| serde_json::from_value(tool).ok());
        let tools: Vec<ToolInfo> = read.collect();
        peer.shared.tools.learn(&tools, self == Self::First, revision);
    }
}

impl CallFuture {
    /// Passes a request to the I/O thread.
    pub(super) fn send(
        peer: Arc<PeerRef>,
        mut request: Box<CallRequest>,
        callbacks: CallCallbacks,
    ) -> Self {
        if request.method == Method::ToolsCall
            && let Some(name) = &request.name
        {
            request.parameters = peer.shared.tools.headers_of_call(name, &request.params);
            request.is_idempotent = peer.shared.tools.is_idempotent(name);
        }
        if let Some(error) = task_support_error(&peer, &request) {
            return Self::failed(error);
        }
        let ticket = match peer.shared.cache.look_up(&request) {
            CacheLookup::Hit(message) => return Self::answered(message),
            CacheLookup::Miss(ticket) => Some(ticket),
            CacheLookup::Bypass => None,
        };
        let tools_page = ToolsPage::of_request(&request);
        let slot = take_slot(callbacks);
        let failure = peer.call(request, Arc::clone(&slot)).err();
        Self { peer: Some(peer), slot: Some(slot), failure, tools_page, ticket }
    }

    /// Creates a call whose response is known.
    pub(super) fn answered(message: ReceivedMessage) -> Self {
        let slot = Arc::new(CallSlot::new(CallCallbacks::default()));
        slot.complete(Ok(message));
        Self { peer: None, slot: Some(slot), failure: None, tools_page: None, ticket: None }
    }

    /// Creates a call that was not sent because of `error`.
    pub(super) fn failed(error: ClientError) -> Self {
        Self { peer: None, slot: None, failure: Some(error), tools_page: None, ticket: None }
    }
}

impl Future for CallFuture {
    type Output = Result<ReceivedMessage, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Err(error));
        }
        let Some(slot) = &self.slot else { return Poll::Pending };
        let CallOutcome { result: outcome, spare } = ready!(slot.outcome().poll_take(context));
        self.slot.take().into_iter().for_each(put_slot);
        spare.into_iter().for_each(put_request);
        let (page, ticket) = (self.tools_page, self.ticket.take());
        if let (Ok(message), Some(peer)) = (&outcome, &self.peer) {
            if let Some(page) = page {
                page.learn(message, peer);
            }
            if let Some(ticket) = ticket {
                peer.shared.cache.store(ticket, message);
            }
        }
        Poll::Ready(outcome)
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if let (Some(peer), Some(slot)) = (&self.peer, self.slot.take())
            && slot.outcome().is_pending()
        {
            peer.cancel(slot);
        }
    }
}

/// Returns why a call of a tool must, or must not, be a task, if it is not so.
fn task_support_error(peer: &PeerRef, request: &CallRequest) -> Option<ClientError> {
    let name = request.name.as_deref().filter(|_| request.method == Method::ToolsCall)?;
    let is_task = request.task.creates_task();
    let text = match (peer.shared.tools.task_support(name)?, is_task) {
        (TaskSupport::Forbidden, true) => format!("calls of the tool {name} cannot be tasks"),
        (TaskSupport::Required, false) => format!("calls of the tool {name} must be tasks"),
        _ => return None,
    };
    Some(ClientError::new(ClientErrorKind::Unsupported, text))
}

/// Takes the `result` of a response, and keeps the memory of its text.
pub fn take_result<R: DeserializeOwned + 'static>(
    mut message: ReceivedMessage,
) -> Result<R, ClientError> {
    if let Some(result) = message.take_result() {
        return Ok(result);
    }
    let result = read_result(&message);
    put_text(message.into_bytes());
    result
}

/// Reads the `result` of a response.
pub fn read_result<R: DeserializeOwned>(message: &ReceivedMessage) -> Result<R, ClientError> {
    #[derive(Deserialize)]
    #[serde(bound = "R: DeserializeOwned")]
    struct Response<R> {
        result: R,
    }
    let response: Result<Response<R>, _> = serde_json::from_slice(message.as_bytes());
    response.map(|response| response.result).map_err(|error| {
        let text = format!("the result is invalid: {error}");
        ClientError::with_source(ClientErrorKind::Protocol, text, error)
    })
}

/// Requests and slots that are kept for each thread.
const SPARES_MAX: usize = 64;
/// Bytes of the memory of a request that is kept.
const SPARE_BYTES_MAX: usize = 16 << 10;

/// Requests, each in the box that its next call owns.
type SpareRequests = Vec<Box<CallRequest>>;

thread_local! {
    static REQUESTS: RefCell<SpareRequests> = const { RefCell::new(Vec::new()) };
    static SLOTS: RefCell<Vec<Arc<CallSlot>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a request to be overwritten.
pub fn take_request() -> Box<CallRequest> {
    // The thread-local is gone if the thread is ending.
    let spare = REQUESTS.try_with(|requests| requests.borrow_mut().pop()).ok().flatten();
    spare.unwrap_or_else(|| Box::new(CallRequest::new(Method::Ping)))
}

/// Keeps a request that was answered.
pub fn put_request(request: Box<CallRequest>) {
    let bytes = request.meta.capacity() + request.name.as_ref().map_or(0, String::capacity);
    if bytes <= SPARE_BYTES_MAX {
        put(&REQUESTS, request);
    }
}

/// Keeps the memory of a response, as that of the params of the next request.
pub fn put_text(text: Vec<u8>) {
    if text.capacity() > SPARE_BYTES_MAX {
        return;
    }
    let put = |requests: &RefCell<SpareRequests>| {
        if let Some(request) = requests.borrow_mut().last_mut()
            && request.params.capacity() < text.capacity()
        {
            request.params = text;
        }
    };
    REQUESTS.try_with(put).unwrap_or_default();
}

/// Returns a slot that no other thread holds.
fn take_slot(callbacks: CallCallbacks) -> Arc<CallSlot> {
    let take = |slots: &RefCell<Vec<_>>| slots.borrow_mut().pop();
    let is_plain = callbacks.is_empty();
    // A spare slot is as `put_slot` has left it.
    let spare = if is_plain { SLOTS.try_with(take).ok().flatten() } else { None };
    spare.unwrap_or_else(|| Arc::new(CallSlot::new(callbacks)))
}

/// Keeps the slot of a call that has ended, unless the I/O thread still holds it.
fn put_slot(mut slot: Arc<CallSlot>) {
    if let Some(spare) = Arc::get_mut(&mut slot) {
        // Drops the callbacks.
        *spare = CallSlot::new(CallCallbacks::default());
        put(&SLOTS, slot);
    }
}

fn put<T>(spares: &'static std::thread::LocalKey<RefCell<Vec<T>>>, value: T) {
    let put = |spares: &RefCell<Vec<T>>| {
        let mut spares = spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(value);
        }
    };
    spares.try_with(put).unwrap_or_default();
}
