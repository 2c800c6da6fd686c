//! What a running task of 2026-07-28 asks its client, and what came back by `tasks/update`.
//!
//! What tasks of 2025-11-25 ask goes the way of all questions by requests:
//! [`crate::server::questions`].
//!
//! What it keeps true: no more questions are open than a call may ask at once; a key names one
//! question for the whole life of a task; asked again it means the same question and gets the same
//! answer, whether that is there already or still to come. When the task ends, whoever still waits
//! hears that nobody will answer.
//!
//! A handler holds one end (through its [`Inquiries`]), the table of tasks the other; both live on
//! the same shard: cells, no locks.
//!
//! Source: Tasks extension 2026-07-28, "Task Update Requests".

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use serde_json::{Map, Value};

use crate::protocol::error::Error;
use crate::protocol::message::{InputRequest, InputResponse};
use crate::server::questions::{QUESTIONS_MAX, too_many};
use crate::service::AskError;

/// The questions of one task.
#[derive(Debug, Default)]
pub(in crate::server) struct Inquiries {
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Questions without an answer, in the order in which they were asked.
    open: Vec<(String, InputRequest)>,
    /// Every question there ever was.
    questions: Vec<Question>,
}

#[derive(Debug)]
struct Question {
    key: Box<str>,
    answer: Option<Result<InputResponse, AskError>>,
    wakers: Vec<Waker>,
}

impl State {
    /// The open question at `place` has this answer.
    fn settle(&mut self, place: usize, answer: Result<InputResponse, AskError>) {
        let (key, _) = self.open.remove(place);
        let question = self.questions.iter_mut().find(|question| *question.key == key);
        if let Some(question) = question {
            question.answer = Some(answer);
            question.wakers.drain(..).for_each(Waker::wake);
        }
    }
}

impl Inquiries {
    /// Asks `request` under `key`; `true` where that is a question that nobody has asked yet.
    ///
    /// # Errors
    ///
    /// Where as many questions as may be have no answer yet.
    pub(in crate::server) fn ask(
        &self,
        key: &str,
        request: InputRequest,
    ) -> Result<bool, AskError> {
        let State { open, questions, .. } = &mut *self.state.borrow_mut();
        if questions.iter().any(|question| &*question.key == key) {
            return Ok(false);
        }
        if open.len() >= QUESTIONS_MAX {
            return Err(too_many());
        }
        questions.push(Question { key: key.into(), answer: None, wakers: Vec::new() });
        open.push((key.to_owned(), request));
        Ok(true)
    }

    /// Waits for the answer to the question `key`.
    pub(in crate::server) fn answer_to(self: &Rc<Self>, key: &str) -> Awaited {
        Awaited { inquiries: Rc::clone(self), key: key.into() }
    }

    /// Whether a question has no answer yet.
    pub(in crate::server) fn is_open(&self) -> bool {
        !self.state.borrow().open.is_empty()
    }

    /// Hands the questions without an answer to `tell`, in the order in which they were asked.
    pub(in crate::server) fn tell_open<T>(
        &self,
        tell: impl FnOnce(&[(String, InputRequest)]) -> T,
    ) -> T {
        tell(&self.state.borrow().open)
    }

    /// Takes the answers of one `tasks/update`: all of them, or none where one is not what was
    /// asked for. Answers to questions that are not open are passed over.
    pub(in crate::server) fn update(&self, responses: &Map<String, Value>) -> Result<(), Error> {
        let state = &mut *self.state.borrow_mut();
        let answers = state.open.iter().map(|(key, request)| {
            responses.get(key).map(|response| request.read_response(response)).transpose()
        });
        let answers: Vec<Option<InputResponse>> = answers.collect::<Result<_, _>>()?;
        // From the last on, so that the places of the others stay.
        for (place, answer) in answers.into_iter().enumerate().rev() {
            if let Some(answer) = answer {
                state.settle(place, Ok(answer));
            }
        }
        Ok(())
    }

    /// Nobody needs an answer any more: the task has ended.
    pub(in crate::server) fn close(&self) {
        let state = &mut *self.state.borrow_mut();
        for place in (0..state.open.len()).rev() {
            state.settle(place, Err(AskError::Cancelled));
        }
    }
}

/// Resolves with the answer to a question.
#[derive(Debug)]
pub(in crate::server) struct Awaited {
    inquiries: Rc<Inquiries>,
    key: Box<str>,
}

impl Future for Awaited {
    type Output = Result<InputResponse, AskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let state = &mut *self.inquiries.state.borrow_mut();
        let question = state.questions.iter_mut().find(|question| question.key == self.key);
        let Some(question) = question else { return Poll::Ready(Err(AskError::Cancelled)) };
        if let Some(answer) = &question.answer {
            return Poll::Ready(answer.clone());
        }
        if !question.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            question.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
