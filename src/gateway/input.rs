//! What an upstream sends for a call before its answer: progress, and questions to the client.
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
/// Questions of one call that wait for answers; further ones are answered with an error.
const QUESTIONS_MAX: usize = 64;

/// What comes for one call.
#[derive(Debug, Default)]
pub struct CallEvents(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<CallEvent>,
    waker: Option<Waker>,
    /// Answers of questions that were asked.
    answers: Vec<Weak<Answer>>,
}

/// The place of an answer.
type Answer = Oneshot<Result<Vec<u8>, ClientError>>;

/// One event of a call.
#[derive(Debug)]
pub enum CallEvent {
    /// Progress.
    Progress(Progress),
    /// A log message.
    Log(LogMessage),
    /// A question to the client.
    Question(Question),
}

/// A question of an upstream.
#[derive(Debug)]
pub struct Question {
    /// What it asks.
    pub request: ForwardedRequest,
    /// Where its answer goes.
    pub answer: AnswerSlot,
}

/// The right to answer a question. Dropping it answers with an error.
#[derive(Debug)]
pub struct AnswerSlot(Arc<Answer>);

impl AnswerSlot {
    /// Answers with a result, or with the reason why there is none.
    pub fn answer(self, result: Result<Vec<u8>, String>) {
        self.0.set(result.map_err(|text| ClientError::new(ClientErrorKind::Input, text)));
    }
}

impl Drop for AnswerSlot {
    fn drop(&mut self) {
        // Has no effect after an answer.
        let text = "the call that asked has ended";
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

    /// Adds a question, and returns the future of its answer.
    pub fn push_question(&self, input: &CallInput) -> InputFuture {
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
        self.add_question(Question { request, answer: AnswerSlot(Arc::clone(&slot)) });
        Box::pin(async move { slot.take().await })
    }

    /// Adds a question that has no answer yet.
    pub fn add_question(&self, question: Question) {
        let mut queue = self.lock();
        queue.answers.retain(|it| it.upgrade().is_some_and(|it| it.is_pending()));
        if queue.answers.len() >= QUESTIONS_MAX {
            drop(queue);
            question.answer.answer(Err("too many questions of one call".to_owned()));
            return;
        }
        queue.answers.push(Arc::downgrade(&question.answer.0));
        queue.events.push_back(CallEvent::Question(question));
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
