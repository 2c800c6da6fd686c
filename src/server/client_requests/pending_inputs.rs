//! Input requests of a multi-round-trip call (2026-07-28).
//!
//! Invariants: an input that the client has given is there at once; one that it has not given ends
//! the round trip, so its future never resolves.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::request_state::{RequestDigest, RequestState};
use super::{CLIENT_REQUESTS_MAX, InputResult, too_many_requests};
use crate::protocol::model::InputRequest;
use crate::service::{ClientRequestError, HostFuture};

/// The input requests of one round trip: answered from the `inputResponses` of the call, or open
/// when the handler cannot continue.
#[derive(Debug)]
pub(in crate::server) struct PendingInputs {
    /// The responses so far.
    pub(in crate::server) state: RequestState,
    /// Identifies the request that the next state belongs to.
    pub(in crate::server) digest: RequestDigest,
    open: RefCell<Vec<PendingInput>>,
    next_number: Cell<u64>,
}

/// One open input request.
#[derive(Debug)]
pub(in crate::server) struct PendingInput {
    number: u64,
    /// Its key in `inputRequests`.
    pub(in crate::server) key: Box<str>,
    pub(in crate::server) request: InputRequest,
}

impl PendingInputs {
    /// Returns the inputs of a handler that runs for the request `digest`, with `request_state`.
    pub(in crate::server) fn new(request_state: RequestState, digest: RequestDigest) -> Self {
        Self { state: request_state, digest, open: RefCell::default(), next_number: Cell::new(0) }
    }

    /// Requests an input. Ready at once if the client has answered; otherwise never, because the
    /// round trip ends with the handler.
    pub(in crate::server) fn request(
        self: &Rc<Self>,
        key: &str,
        request: InputRequest,
    ) -> HostFuture<InputResult> {
        if let Some(answer) = self.state.response(key) {
            return Box::pin(ready(
                request.read_response(&answer).map_err(ClientRequestError::InvalidResponse),
            ));
        }
        Box::pin(PendingInputFuture {
            inputs: Rc::clone(self),
            request: Some((key.into(), request)),
            number: None,
        })
    }

    /// Returns whether the handler waits for an input.
    pub(in crate::server) fn is_open(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Takes the open input requests, one per key.
    pub(in crate::server) fn take(&self) -> Vec<PendingInput> {
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

/// Open from its first poll until it is dropped.
struct PendingInputFuture {
    inputs: Rc<PendingInputs>,
    request: Option<(Box<str>, InputRequest)>,
    number: Option<u64>,
}

impl Future for PendingInputFuture {
    type Output = InputResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<InputResult> {
        let Some((key, request)) = self.request.take() else { return Poll::Pending };
        let inputs = Rc::clone(&self.inputs);
        let mut open = inputs.open.borrow_mut();
        if open.len() >= CLIENT_REQUESTS_MAX {
            return Poll::Ready(Err(too_many_requests()));
        }
        let number = inputs.next_number.get();
        inputs.next_number.set(number + 1);
        open.push(PendingInput { number, key, request });
        drop(open);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for PendingInputFuture {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.inputs.open.borrow_mut().retain(|input| input.number != number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn pending_inputs_are_deduplicated_by_key() {
        let inputs = Rc::new(PendingInputs::new(RequestState::default(), RequestDigest::default()));
        let ask = |key| inputs.request(key, InputRequest::ListRoots);
        let mut futures = [ask("a"), ask("b"), ask("a"), ask("c")];
        assert!(!inputs.is_open());
        for future in &mut futures {
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let [a, b, again, c] = futures;
        drop(c);
        let keys: Vec<_> = inputs.take().into_iter().map(|input| input.key).collect();
        assert_eq!(keys, ["a".into(), "b".into()]);
        drop((a, b, again));
        assert!(!inputs.is_open());
    }

    #[test]
    fn too_many_input_requests_are_rejected() {
        let inputs = Rc::new(PendingInputs::new(RequestState::default(), RequestDigest::default()));
        let mut futures: Vec<_> = (0..=CLIENT_REQUESTS_MAX)
            .map(|key| inputs.request(&key.to_string(), InputRequest::ListRoots))
            .collect();
        let mut poll =
            |index: usize| futures[index].as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!((0..CLIENT_REQUESTS_MAX).all(|index| poll(index).is_pending()));
        assert!(matches!(
            poll(CLIENT_REQUESTS_MAX),
            Poll::Ready(Err(ClientRequestError::ErrorResponse(_)))
        ));
    }
}
