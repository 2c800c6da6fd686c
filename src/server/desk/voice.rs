//! The voice of a local handler: its way to the shard, and through it to its client.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::draft::{Awaited, Draft};
use super::{Desk, LogMessage, Note, Progress};
use crate::base::slab::Key;
use crate::protocol::era::LogLevel;
use crate::protocol::message::InputRequest;
use crate::server::questions::{Posed, Reply, Slot};
use crate::service::{CatalogError, Client, Edit, HostFuture, LiveHost};

/// The way from one local handler to its shard.
#[derive(Debug)]
pub(in crate::server) struct LocalVoice {
    pub(in crate::server) desk: Rc<Desk>,
    pub(in crate::server) ticket: Key,
    pub(in crate::server) flag: Rc<Flag>,
    pub(in crate::server) client: Client,
    pub(in crate::server) logs: Logs,
    pub(in crate::server) asking: Asking,
}

/// How a handler asks its client.
#[derive(Debug)]
pub(in crate::server) enum Asking {
    /// By a request of the server's own (up to 2025-11-25).
    Requests,
    /// By the end of the round (2026-07-28).
    Rounds(Rc<Posed>),
}

/// Which log messages a client wants to hear, as far as that is known when its call begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum Logs {
    /// None: the request has no log level, or log messages are not offered.
    Never,
    /// Those from this level on: what the request says (2026-07-28).
    From(LogLevel),
    /// Those that its session says when they are told (up to 2025-11-25).
    BySession,
}

impl Logs {
    /// Whether a message of `level` is to be passed on.
    pub(in crate::server) fn wants(self, level: LogLevel) -> bool {
        match self {
            Self::Never => false,
            Self::From(least) => level >= least,
            Self::BySession => true,
        }
    }
}

impl LiveHost for LocalVoice {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if !self.flag.is_raised() {
            let message = message.map(str::to_owned);
            let ticket = self.ticket;
            self.desk.leave(Note::Progress(Progress { ticket, done: progress, total, message }));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.flag.is_raised()
    }

    fn cancelled(&self) -> HostFuture<()> {
        Box::pin(Raised { flag: Rc::clone(&self.flag) })
    }

    fn sleep(&self, span: Duration) -> HostFuture<()> {
        Box::pin(self.desk.sleep(span))
    }

    fn client(&self) -> Client {
        self.client
    }

    fn ask(&self, key: &str, request: InputRequest) -> HostFuture<Reply> {
        match &self.asking {
            Asking::Requests => Box::pin(Asked {
                desk: Rc::clone(&self.desk),
                ticket: self.ticket,
                state: State::Unasked(Some(request)),
            }),
            Asking::Rounds(posed) => posed.ask(key, request),
        }
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.logs.wants(level) && !self.flag.is_raised() {
            let logger = logger.map(str::to_owned);
            let message = LogMessage { ticket: self.ticket, level, logger, data };
            self.desk.leave(Note::Log(message));
        }
    }

    fn updated(&self, uri: &str) {
        self.desk.note_update(uri);
    }

    fn change(&self, edit: Edit) -> HostFuture<Result<(), CatalogError>> {
        let (desk, draft) = (Rc::clone(&self.desk), Draft::new(edit));
        Box::pin(async move {
            desk.leave(Note::Change(Rc::clone(&draft)));
            Awaited(draft).await
        })
    }
}

/// Whether one call was cancelled, and who wants to know.
#[derive(Debug, Default)]
pub(in crate::server) struct Flag {
    raised: Cell<bool>,
    wakers: RefCell<Vec<std::task::Waker>>,
}

impl Flag {
    /// Cancels; wakes everybody who waits for it.
    pub(in crate::server) fn raise(&self) {
        self.raised.set(true);
        for waker in self.wakers.take() {
            waker.wake();
        }
    }

    /// Whether it was cancelled.
    pub(in crate::server) const fn is_raised(&self) -> bool {
        self.raised.get()
    }
}

/// Resolves when its flag is raised.
struct Raised {
    flag: Rc<Flag>,
}

impl Future for Raised {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.flag.is_raised() {
            return Poll::Ready(());
        }
        let mut wakers = self.flag.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// A question by a request: asked when it is first waited for, taken back when it is not waited
/// for any more.
struct Asked {
    desk: Rc<Desk>,
    ticket: Key,
    state: State,
}

enum State {
    Unasked(Option<InputRequest>),
    Open { number: u64, slot: Rc<Slot> },
    Over,
}

impl Future for Asked {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        if let State::Unasked(request) = &mut self.state
            && let Some(request) = request.take()
        {
            let (number, slot) = (self.desk.number(), Rc::<Slot>::default());
            let ticket = self.ticket;
            self.desk.leave(Note::Ask { ticket, number, request, slot: Rc::clone(&slot) });
            self.state = State::Open { number, slot };
        }
        let State::Open { slot, .. } = &self.state else { return Poll::Pending };
        let reply = slot.poll(context);
        if reply.is_ready() {
            self.state = State::Over;
        }
        reply
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let State::Open { number, .. } = self.state {
            self.desk.leave(Note::Withdraw { ticket: self.ticket, number });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::engine::ring::Waker;
    use crate::protocol::era::ClientCapabilities;
    use crate::protocol::message::InputResponse;
    use crate::protocol::revision::Revision;

    fn voice() -> LocalVoice {
        let capabilities = ClientCapabilities::default();
        LocalVoice {
            desk: Rc::new(Desk::new(Waker::new(|| {}), 4)),
            ticket: Key::from_bits(7),
            flag: Rc::default(),
            client: Client { revision: Revision::LATEST_LEGACY, capabilities },
            logs: Logs::From(LogLevel::Warning),
            asking: Asking::Requests,
        }
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn notes(voice: &LocalVoice) -> Vec<Note> {
        let mut notes = Vec::new();
        voice.desk.take_notes(&mut notes);
        notes
    }

    #[test]
    fn a_cancelled_handler_says_nothing_more() {
        let voice = voice();
        let mut cancelled = voice.cancelled();
        assert_eq!(poll(&mut cancelled), Poll::Pending);
        voice.progress(1.0, None, Some("half"));
        voice.flag.raise();
        voice.progress(2.0, None, None);
        voice.log(LogLevel::Error, None, serde_json::Value::Null);
        assert_eq!(poll(&mut cancelled), Poll::Ready(()));
        assert_eq!(notes(&voice).len(), 1);
    }

    #[test]
    fn a_resource_that_changed_often_is_noted_once() {
        let voice = voice();
        for _ in 0..3 {
            voice.updated("test://one");
            voice.updated("test://two");
        }
        assert!(voice.desk.has_notes());
        assert_eq!(voice.desk.take_updates().len(), 2);
        assert!(!voice.desk.has_notes());
    }

    #[test]
    fn messages_below_the_level_of_the_request_are_not_passed_on() {
        let voice = voice();
        voice.log(LogLevel::Notice, None, serde_json::Value::Null);
        voice.log(LogLevel::Warning, Some("here"), serde_json::Value::Null);
        let notes = notes(&voice);
        assert!(matches!(&notes[..], [Note::Log(message)] if message.level == LogLevel::Warning));
    }

    #[test]
    fn a_question_is_asked_when_it_is_waited_for_and_answered_once() {
        let voice = voice();
        drop(voice.ask("never", InputRequest::Roots));
        assert!(notes(&voice).is_empty());
        let mut question = voice.ask("roots", InputRequest::Roots);
        assert!(poll(&mut question).is_pending());
        let asked = notes(&voice);
        let [Note::Ask { slot, .. }] = &asked[..] else { panic!("{asked:?}") };
        slot.put(Ok(InputResponse::Roots(Vec::new())));
        assert!(matches!(poll(&mut question), Poll::Ready(Ok(InputResponse::Roots(_)))));
        drop(question);
        assert!(notes(&voice).is_empty());
    }

    #[test]
    fn a_question_that_nobody_waits_for_any_more_is_taken_back() {
        let voice = voice();
        let mut question = voice.ask("roots", InputRequest::Roots);
        assert!(poll(&mut question).is_pending());
        drop(question);
        let notes = notes(&voice);
        let [Note::Ask { number, .. }, Note::Withdraw { number: taken, .. }] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert_eq!(number, taken);
    }
}
