//! Input requests of a multi-round-trip call (2026-07-28).
//!
//! Invariants: an input that the client has given is there at once; one that it has not given ends
//! the round trip, so its future never resolves.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::model::InputRequest;

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
        Self { state: request_state, digest, open: RefCell::default(), next_number: Cell::new(0) }
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
        if let Some(answer) = self.state.response(key) {
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
