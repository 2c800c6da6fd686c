//! Input requests of a running task of 2026-07-28, and the responses from `tasks/update`.
//!
//! Tasks of 2025-11-25 send requests instead: [`crate::server::client_requests`].
//!
//! Invariants: a task has no more open input requests than a call; a key names one request for the
//! whole life of the task; the same request under it gets the same response, before and after that
//! arrives. When the task ends, waiting handlers get an error.
//!
//! A handler and the task table share one [`TaskInputs`] on the same shard: cells, no locks.
//!
//! Source: Tasks extension 2026-07-28, "Task Update Requests".

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use serde_json::{Map, Value};

use crate::protocol::error::Error;
use crate::protocol::model::{InputRequest, InputResponse};
use crate::server::client_requests::{CLIENT_REQUESTS_MAX, too_many_requests};
use crate::service::ClientRequestError;

/// The input requests of one task.
#[derive(Debug, Default)]
pub(in crate::server) struct TaskInputs {
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
    response: Option<Result<InputResponse, ClientRequestError>>,
    wakers: Vec<Waker>,
}

impl InputState {
    /// Resolves the open request at `place`.
    fn resolve(&mut self, place: usize, answer: Result<InputResponse, ClientRequestError>) {
        let (key, _) = self.open.remove(place);
        let question = self.inputs.iter_mut().find(|question| *question.key == key);
        if let Some(question) = question {
            question.response = Some(answer);
            question.wakers.drain(..).for_each(Waker::wake);
        }
    }
}

impl TaskInputs {
    /// Adds `request` under `key`; returns `false` if the key is in use already.
    ///
    /// # Errors
    ///
    /// The limit of open requests is reached.
    pub(in crate::server) fn request(
        &self,
        key: &str,
        request: InputRequest,
    ) -> Result<bool, ClientRequestError> {
        let InputState { open, inputs: questions, .. } = &mut *self.state.borrow_mut();
        if questions.iter().any(|question| &*question.key == key) {
            return Ok(false);
        }
        if open.len() >= CLIENT_REQUESTS_MAX {
            return Err(too_many_requests());
        }
        questions.push(Input { key: key.into(), response: None, wakers: Vec::new() });
        open.push((key.to_owned(), request));
        Ok(true)
    }

    /// Returns a future of the response to the request `key`.
    pub(in crate::server) fn response_to(self: &Rc<Self>, key: &str) -> ResponseFuture {
        ResponseFuture { inputs: Rc::clone(self), key: key.into() }
    }

    /// Returns whether a request has no response yet.
    pub(in crate::server) fn is_open(&self) -> bool {
        !self.state.borrow().open.is_empty()
    }

    /// Calls `tell` with the open requests, in the order in which they were made.
    pub(in crate::server) fn with_open<T>(
        &self,
        tell: impl FnOnce(&[(String, InputRequest)]) -> T,
    ) -> T {
        tell(&self.state.borrow().open)
    }

    /// Applies the responses of one `tasks/update`: all of them, or none if one does not match its
    /// request. Responses to requests that are not open are ignored.
    pub(in crate::server) fn update(&self, responses: &Map<String, Value>) -> Result<(), Error> {
        let state = &mut *self.state.borrow_mut();
        let answers = state.open.iter().map(|(key, request)| {
            responses.get(key).map(|response| request.read_response(response)).transpose()
        });
        let answers: Vec<Option<InputResponse>> = answers.collect::<Result<_, _>>()?;
        // In reverse order, so that the indexes of the others stay valid.
        for (place, answer) in answers.into_iter().enumerate().rev() {
            if let Some(answer) = answer {
                state.resolve(place, Ok(answer));
            }
        }
        Ok(())
    }

    /// Cancels the open requests: the task has ended.
    pub(in crate::server) fn close(&self) {
        let state = &mut *self.state.borrow_mut();
        for place in (0..state.open.len()).rev() {
            state.resolve(place, Err(ClientRequestError::Cancelled));
        }
    }
}

/// Resolves with the response to an input request.
#[derive(Debug)]
pub(in crate::server) struct ResponseFuture {
    inputs: Rc<TaskInputs>,
    key: Box<str>,
}

impl Future for ResponseFuture {
    type Output = Result<InputResponse, ClientRequestError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let state = &mut *self.inputs.state.borrow_mut();
        let question = state.inputs.iter_mut().find(|question| question.key == self.key);
        let Some(question) = question else {
            return Poll::Ready(Err(ClientRequestError::Cancelled));
        };
        if let Some(answer) = &question.response {
            return Poll::Ready(answer.clone());
        }
        if !question.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            question.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
