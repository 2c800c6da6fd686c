//! What an upstream sends for a call before its response: progress, log messages, and requests to
//! the client.
//!
//! The I/O thread of the client pushes, the handler on its shard takes.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};

use corelane_client::{CallInput, ClientError, ClientErrorKind, InputFuture, InputKind, Oneshot};
use corelane_client::{LogMessage, Progress};
use corelane_protocol::model::{ForwardedKind, ForwardedRequest};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Progress notifications that wait; further ones replace the last.
const PROGRESS_MAX: usize = 64;
/// Log messages that wait; further ones are left out.
const LOG_MAX: usize = 64;
/// Requests of one call that wait for responses of the client; further ones get an error.
const CLIENT_REQUESTS_MAX: usize = 64;

/// What comes for one call.
#[derive(Debug, Default)]
pub struct CallEvents(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<CallEvent>,
    waker: Option<Waker>,
    /// Responses that are waited for.
    responses: Vec<Weak<Response>>,
}

/// The place of a response.
type Response = Oneshot<Result<Vec<u8>, ClientError>>;

/// One event of a call.
#[derive(Debug)]
pub enum CallEvent {
    /// Progress.
    Progress(Progress),
    /// A log message.
    Log(LogMessage),
    /// A request to the client to the client.
    ClientRequest(ClientRequest),
}

/// A request to the client of an upstream.
#[derive(Debug)]
pub struct ClientRequest {
    /// What it requires.
    pub request: ForwardedRequest,
    /// Where its response goes.
    pub response: ResponseSlot,
}

/// The right to respond to a request. Dropping it responds with an error.
#[derive(Debug)]
pub struct ResponseSlot(Arc<Response>);

impl ResponseSlot {
    /// Responds with a result, or with the reason why there is none.
    pub fn respond(self, result: Result<Vec<u8>, String>) {
        self.0.set(result.map_err(|text| ClientError::new(ClientErrorKind::Input, text)));
    }
}

impl Drop for ResponseSlot {
    fn drop(&mut self) {
        // Has no effect after a response.
        let text = "the call that sent the request has ended";
        self.0.set(Err(ClientError::new(ClientErrorKind::Input, text)));
    }
}

impl CallEvents {
    /// Adds progress.
    pub fn push_progress(&self, progress: Progress) {
        let mut queue = self.lock();
        if queue.events.len() >= PROGRESS_MAX
            && let Some(CallEvent::Progress(last)) = queue.events.back_mut()
        {
            *last = progress;
        } else {
            queue.events.push_back(CallEvent::Progress(progress));
        }
        wake(queue);
    }

    /// Adds a log message.
    pub fn push_log(&self, message: LogMessage) {
        let mut queue = self.lock();
        if queue.events.len() < LOG_MAX {
            queue.events.push_back(CallEvent::Log(message));
        }
        wake(queue);
    }

    /// Adds a request to the client, and returns the future of its response.
    pub fn push_client_request(&self, input: &CallInput) -> InputFuture {
        let kind = match input.kind {
            InputKind::Elicitation => ForwardedKind::Elicit,
            InputKind::Sampling => ForwardedKind::CreateMessage,
            InputKind::Roots => ForwardedKind::ListRoots,
        };
        let params = match serde_json::from_slice(&input.params) {
            Ok(params) => params,
            Err(error) => {
                let text = format!("the params are invalid: {error}");
                let error = ClientError::new(ClientErrorKind::Protocol, text);
                return Box::pin(std::future::ready(Err(error)));
            }
        };
        let slot = Arc::new(Oneshot::new());
        let request = ForwardedRequest::new(kind, params);
        self.add_client_request(ClientRequest {
            request,
            response: ResponseSlot(Arc::clone(&slot)),
        });
        Box::pin(async move { slot.take().await })
    }

    /// Adds a request to the client that has no response yet.
    pub fn add_client_request(&self, client_request: ClientRequest) {
        let mut queue = self.lock();
        queue.responses.retain(|it| it.upgrade().is_some_and(|it| it.is_pending()));
        if queue.responses.len() >= CLIENT_REQUESTS_MAX {
            drop(queue);
            client_request
                .response
                .respond(Err("too many requests to the client in one call".to_owned()));
            return;
        }
        queue.responses.push(Arc::downgrade(&client_request.response.0));
        queue.events.push_back(CallEvent::ClientRequest(client_request));
        wake(queue);
    }

    /// Takes all events; if there are none, `context` is woken by the next one.
    pub fn poll_take(&self, context: &Context<'_>) -> VecDeque<CallEvent> {
        let mut queue = self.lock();
        if queue.events.is_empty() {
            queue.waker = Some(context.waker().clone());
        }
        std::mem::take(&mut queue.events)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes who waits, after the lock is released.
fn wake(mut queue: MutexGuard<'_, Queue>) {
    let waker = queue.waker.take();
    drop(queue);
    if let Some(waker) = waker {
        waker.wake();
    }
}
