//! Input requests (2026-07-28) of a multi-round-trip call ([`PendingInputs`]), and of a running
//! task with the responses from `tasks/update` ([`TaskInputs`]).
//!
//! Tasks of 2025-11-25 send requests instead: [`crate::server::client_requests`].
//!
//! Invariants of calls: an input that the client has given is there at once; one that it has not
//! given ends the round trip, so its future never resolves.
//!
//! Invariants of tasks: a task has no more open input requests than a call; a key names one request
//! for the whole life of the task; the same request under it gets the same response, before and
//! after that arrives. When the task ends, waiting handlers get an error and nothing is stored any
//! more. Requests and responses are charged to the handler while they are stored.
//!
//! A handler and the task table share one [`TaskInputs`] on the same shard: cells, no locks.
//!
//! Source: Tasks extension 2026-07-28, "Task Update Requests".

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::error::Error;
use corelane_protocol::model::{InputRequest, InputResponse};
use serde_json::{Map, Value};

use super::request_state::{RequestDigest, RequestState};
use super::{CLIENT_REQUESTS_MAX, InputResult, too_many_requests};
use crate::server::memory::handler_memory::{RequestAccount, RequestCharge};
use crate::service::{ClientRequestError, HostFuture};

/// The input requests of one round trip: answered from the `inputResponses` of the call, or open
/// when the handler cannot continue.
#[derive(Debug)]
pub struct PendingInputs {
    /// The responses so far.
    pub state: RequestState,
    /// Identifies the request that the next state belongs to.
    pub digest: RequestDigest,
    /// What the handler keeps for its next round trip, instead of the responses so far.
    kept: RefCell<Option<Box<str>>>,
    open: RefCell<Vec<PendingInput>>,
    next_number: Cell<u64>,
}

/// One open input request.
#[derive(Debug)]
pub struct PendingInput {
    number: u64,
    /// Its key in `inputRequests`.
    pub key: Box<str>,
    pub request: InputRequest,
    #[expect(dead_code, reason = "released when the round trip ends")]
    charge: RequestCharge,
}

impl PendingInputs {
    /// Returns the inputs of a handler that runs for the request `digest`, with `request_state`.
    pub fn new(request_state: RequestState, digest: RequestDigest) -> Self {
        Self {
            state: request_state,
            digest,
            kept: RefCell::default(),
            open: RefCell::default(),
            next_number: Cell::new(0),
        }
    }

    /// Keeps `kept` for the next round trip of the handler. The responses so far are none of it:
    /// inputs that are requested from now on are open.
    pub fn keep(&self, kept: Box<str>) {
        self.kept.replace(Some(kept));
    }

    /// Returns the state to encrypt for the next round trip.
    pub fn next_state(&self) -> Cow<'_, RequestState> {
        match &*self.kept.borrow() {
            Some(kept) => Cow::Owned(self.state.restarted(kept.clone())),
            None => Cow::Borrowed(&self.state),
        }
    }

    /// Requests an input. Ready at once if the client has answered; otherwise never, because the
    /// round trip ends with the handler.
    ///
    /// # Errors
    ///
    /// The limit of open requests is reached, or `account` has no memory for the request.
    pub fn request(
        self: &Rc<Self>,
        key: &str,
        request: InputRequest,
        account: &RequestAccount,
    ) -> Result<HostFuture<InputResult>, ClientRequestError> {
        if self.kept.borrow().is_none()
            && let Some(answer) = self.state.response(key)
        {
            return Ok(Box::pin(ready(
                request.read_response(&answer).map_err(ClientRequestError::InvalidResponse),
            )));
        }
        let mut open = self.open.borrow_mut();
        if open.len() >= CLIENT_REQUESTS_MAX {
            return Err(too_many_requests());
        }
        let bytes = key.heap_bytes() + request.heap_bytes();
        let charge = account.charge(bytes).map_err(ClientRequestError::Refused)?;
        let number = self.next_number.replace(self.next_number.get() + 1);
        open.push(PendingInput { number, key: key.into(), request, charge });
        Ok(Box::pin(PendingInputFuture { inputs: Rc::clone(self), number }))
    }

    /// Returns whether the handler waits for an input.
    pub fn is_open(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Takes the open input requests, one per key.
    pub fn take(&self) -> Vec<PendingInput> {
        let mut open = self.open.take();
        let mut from = 0;
        while from < open.len() {
            let (before, rest) = open.split_at(from);
            if before.iter().any(|input| input.key == rest[0].key) {
                open.remove(from);
            } else {
                from += 1;
            }
        }
        open
    }
}

/// An input without a response: open until it is dropped.
struct PendingInputFuture {
    inputs: Rc<PendingInputs>,
    number: u64,
}

impl Future for PendingInputFuture {
    type Output = InputResult;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<InputResult> {
        Poll::Pending
    }
}

impl Drop for PendingInputFuture {
    fn drop(&mut self) {
        self.inputs.open.borrow_mut().retain(|input| input.number != self.number);
    }
}

/// The input requests of one task.
#[derive(Debug, Default)]
pub struct TaskInputs {
    state: RefCell<InputState>,
}

#[derive(Debug, Default)]
struct InputState {
    /// Requests without a response, in the order in which they were made.
    open: Vec<(String, InputRequest)>,
    /// All requests of the task.
    inputs: Vec<Input>,
}

#[derive(Debug)]
struct Input {
    key: Box<str>,
    response: Option<InputResponse>,
    wakers: Vec<Waker>,
    /// For the request, and then for the response.
    charge: RequestCharge,
}

/// A response to the open request at `place`.
struct ValidResponse {
    place: usize,
    response: InputResponse,
    charge: RequestCharge,
}

impl InputState {
    fn find(&mut self, key: &str) -> Option<&mut Input> {
        self.inputs.iter_mut().find(|input| *input.key == *key)
    }

    /// Validates and charges the response to the open request at `place`.
    fn validate(&mut self, place: usize, response: &Value) -> Result<ValidResponse, Error> {
        let (key, request) = &self.open[place];
        let response = request.read_response(response)?;
        let bytes = input_bytes(key, &response);
        let input = self.inputs.iter().find(|input| *input.key == **key);
        let input = input.ok_or_else(|| Error::internal("the input request is unknown"))?;
        Ok(ValidResponse { place, response, charge: input.charge.account().charge(bytes)? })
    }

    /// Resolves an open request.
    fn resolve(&mut self, ValidResponse { place, response, charge }: ValidResponse) {
        let (key, _) = self.open.remove(place);
        if let Some(input) = self.find(&key) {
            (input.response, input.charge) = (Some(response), charge);
            input.wakers.drain(..).for_each(Waker::wake);
        }
    }
}

/// Returns the bytes that count for an input request or its response.
fn input_bytes(key: &str, value: &impl HeapBytes) -> usize {
    size_of::<Input>() + key.heap_bytes() + value.heap_bytes()
}

impl TaskInputs {
    /// Adds `request` under `key`; returns `false` if the key is in use already.
    ///
    /// # Errors
    ///
    /// The limit of open requests is reached, or `account` has no memory for the request.
    pub fn request(
        &self,
        key: &str,
        request: InputRequest,
        account: &RequestAccount,
    ) -> Result<bool, ClientRequestError> {
        let state = &mut *self.state.borrow_mut();
        if state.find(key).is_some() {
            return Ok(false);
        }
        if state.open.len() >= CLIENT_REQUESTS_MAX {
            return Err(too_many_requests());
        }
        let charge = account.charge(input_bytes(key, &request));
        let charge = charge.map_err(ClientRequestError::Refused)?;
        let input = Input { key: key.into(), response: None, wakers: Vec::new(), charge };
        state.inputs.push(input);
        state.open.push((key.to_owned(), request));
        Ok(true)
    }

    /// Returns the bytes that count for all requests and responses, from what is stored.
    pub fn recount_bytes(&self) -> usize {
        let InputState { open, inputs } = &*self.state.borrow();
        let requests = open.iter().map(|(key, request)| input_bytes(key, request));
        let responses = inputs.iter().filter_map(|input| {
            input.response.as_ref().map(|response| input_bytes(&input.key, response))
        });
        requests.chain(responses).sum()
    }

    /// Returns a future of the response to the request `key`.
    pub fn response_to(self: &Rc<Self>, key: &str) -> ResponseFuture {
        ResponseFuture { inputs: Rc::clone(self), key: key.into() }
    }

    /// Returns whether a request has no response yet.
    pub fn is_open(&self) -> bool {
        !self.state.borrow().open.is_empty()
    }

    /// Calls `tell` with the open requests, in the order in which they were made.
    pub fn with_open<T>(&self, tell: impl FnOnce(&[(String, InputRequest)]) -> T) -> T {
        tell(&self.state.borrow().open)
    }

    /// Applies the responses of one `tasks/update`: all of them, or none if one does not match its
    /// request. Responses to requests that are not open are ignored.
    ///
    /// # Errors
    ///
    /// A response is invalid, or the server is short of memory.
    pub fn update(&self, responses: &Map<String, Value>) -> Result<(), Error> {
        let state = &mut *self.state.borrow_mut();
        let mut valid = Vec::new();
        for place in 0..state.open.len() {
            if let Some(response) = responses.get(&state.open[place].0) {
                valid.push(state.validate(place, response)?);
            }
        }
        // In reverse order, so that the indexes of the others stay valid.
        for response in valid.into_iter().rev() {
            state.resolve(response);
        }
        Ok(())
    }

    /// Cancels the open requests and drops the responses: the task has ended.
    pub fn close(&self) {
        let InputState { open, inputs } = &mut *self.state.borrow_mut();
        open.clear();
        inputs.drain(..).flat_map(|input| input.wakers).for_each(Waker::wake);
    }
}

/// Resolves with the response to an input request.
#[derive(Debug)]
pub struct ResponseFuture {
    inputs: Rc<TaskInputs>,
    key: Box<str>,
}

impl Future for ResponseFuture {
    type Output = Result<InputResponse, ClientRequestError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let state = &mut *self.inputs.state.borrow_mut();
        let Some(input) = state.find(&self.key) else {
            return Poll::Ready(Err(ClientRequestError::Cancelled));
        };
        if let Some(response) = &input.response {
            return Poll::Ready(Ok(response.clone()));
        }
        if !input.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            input.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use corelane_protocol::model::ElicitRequest;

    use super::*;
    use crate::server::memory::MemoryLimit;
    use crate::server::memory::handler_memory::HandlerMemory;

    fn pending_inputs() -> Rc<PendingInputs> {
        Rc::new(PendingInputs::new(RequestState::default(), RequestDigest::default()))
    }

    fn memory() -> Rc<HandlerMemory> {
        Rc::new(HandlerMemory::new(MemoryLimit::new(64 << 10)))
    }

    #[test]
    fn pending_inputs_are_deduplicated_by_key() {
        let (inputs, account) = (pending_inputs(), RequestAccount::new(&memory()));
        let ask = |key| inputs.request(key, InputRequest::ListRoots, &account).ok().unwrap();
        assert!(!inputs.is_open());
        let [a, b, again, c] = [ask("a"), ask("b"), ask("a"), ask("c")];
        drop(c);
        let keys: Vec<_> = inputs.take().into_iter().map(|input| input.key).collect();
        assert_eq!(keys, ["a".into(), "b".into()]);
        drop((a, b, again));
        assert!(!inputs.is_open());
    }

    #[test]
    fn too_many_input_requests_are_rejected() {
        let (inputs, account) = (pending_inputs(), RequestAccount::new(&memory()));
        let ask = |key: usize| inputs.request(&key.to_string(), InputRequest::ListRoots, &account);
        let futures: Vec<_> = (0..CLIENT_REQUESTS_MAX).map(|key| ask(key).ok().unwrap()).collect();
        assert!(matches!(ask(CLIENT_REQUESTS_MAX), Err(ClientRequestError::Refused(_))));
        drop(futures);
        assert!(ask(CLIENT_REQUESTS_MAX).is_ok());
    }

    #[test]
    fn pending_inputs_are_charged_while_they_are_open() {
        let (inputs, memory) = (pending_inputs(), memory());
        let account = RequestAccount::new(&memory);
        let ask = |key, bytes| {
            let request = ElicitRequest::url("x".repeat(bytes), "https://example.com");
            inputs.request(key, InputRequest::Elicit(request), &account)
        };
        let future = ask("a", 10 << 10).ok().unwrap();
        assert!((10 << 10..11 << 10).contains(&memory.held_bytes()));
        assert!(matches!(ask("b", 10 << 10), Err(ClientRequestError::Refused(_))));
        let taken = inputs.take();
        drop(future);
        assert!(memory.held_bytes() > 0);
        drop(taken);
        assert_eq!(memory.held_bytes(), 0);
        drop(ask("b", 10 << 10).ok().unwrap());
        assert_eq!(memory.held_bytes(), 0);
    }
}
