//! The voice of a local handler: its way to the shard, and through it to its client.
//!
//! What it keeps true: a call or a task that was cancelled says nothing more. What depends on which
//! of the two a handler runs as is asked of its [`Role`] each time, because it may change.

use std::rc::Rc;
use std::time::Duration;

use super::draft::{Awaited, Draft};
use super::role::Role;
use super::{LogMessage, Note, Progress};
use crate::protocol::era::LogLevel;
use crate::protocol::message::InputRequest;
use crate::server::questions::{Asker, Reply};
use crate::server::tasks::TaskNote;
use crate::service::{CatalogError, Client, Edit, HandlerError, HostFuture, LiveHost};

/// The way from one local handler to its shard.
#[derive(Debug)]
pub(in crate::server) struct LocalVoice {
    pub(in crate::server) role: Rc<Role>,
    pub(in crate::server) logs: Logs,
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
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if self.is_cancelled() {
            return;
        }
        let message = message.map(str::to_owned);
        self.role.desk.leave(match self.role.asker() {
            Asker::Call(ticket) => Note::Progress(Progress { ticket, done, total, message }),
            Asker::Task(task) => {
                Note::Task { task, note: TaskNote::Progress { done, total, message } }
            }
        });
    }

    fn is_cancelled(&self) -> bool {
        self.role.flag.is_raised()
    }

    fn cancelled(&self) -> HostFuture<()> {
        Box::pin(self.role.cancelled())
    }

    fn sleep(&self, span: Duration) -> HostFuture<()> {
        Box::pin(self.role.desk.sleep(span))
    }

    fn client(&self) -> Client {
        self.role.client
    }

    fn ask(&self, key: &str, request: InputRequest) -> HostFuture<Reply> {
        Box::pin(self.role.ask(key, request))
    }

    fn close_stream(&self) {
        if let (Asker::Call(ticket), false) = (self.role.asker(), self.is_cancelled()) {
            self.role.desk.leave(Note::CloseStream { ticket });
        }
    }

    fn begin_task(&self) -> HostFuture<Result<(), HandlerError>> {
        Box::pin(self.role.begin_task())
    }

    /// Modern tasks have no log: the extension says that nothing is sent for them but their state.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: serde_json::Value) {
        let from = self.role.asker();
        let has_log = matches!(from, Asker::Call(_)) || !self.role.client.revision.is_modern();
        if has_log && self.logs.wants(level) && !self.is_cancelled() {
            let logger = logger.map(str::to_owned);
            self.role.desk.leave(Note::Log(LogMessage { from, level, logger, data }));
        }
    }

    fn updated(&self, uri: &str) {
        self.role.desk.note_update(uri);
    }

    fn change(&self, edit: Edit) -> HostFuture<Result<(), CatalogError>> {
        let (desk, draft) = (Rc::clone(&self.role.desk), Draft::new(edit));
        Box::pin(async move {
            desk.leave(Note::Change(Rc::clone(&draft)));
            Awaited(draft).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use std::task::{Context, Poll};

    use super::*;
    use crate::base::slab::Key;
    use crate::engine::ring::Waker;
    use crate::protocol::era::ClientCapabilities;
    use crate::protocol::message::InputResponse;
    use crate::protocol::revision::Revision;
    use crate::server::desk::Desk;
    use crate::server::desk::role::{Asking, Turn};

    fn voice() -> LocalVoice {
        let capabilities = ClientCapabilities::default();
        let client = Client { revision: Revision::LATEST_LEGACY, capabilities };
        let desk = Rc::new(Desk::new(Waker::new(|| {}), 4));
        let asker = Asker::Call(Key::from_bits(7));
        let turn = Turn::Possible(None);
        let role = Role::new(&desk, (client, Rc::default()), (asker, Asking::Requests), turn);
        LocalVoice { role: Rc::new(role), logs: Logs::From(LogLevel::Warning) }
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn notes(voice: &LocalVoice) -> Vec<Note> {
        let mut notes = Vec::new();
        voice.role.desk.take_notes(&mut notes);
        notes
    }

    #[test]
    fn a_cancelled_handler_says_nothing_more() {
        let voice = voice();
        let mut cancelled = voice.cancelled();
        assert_eq!(poll(&mut cancelled), Poll::Pending);
        voice.progress(1.0, None, Some("half"));
        voice.role.flag.raise();
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
        assert!(voice.role.desk.has_notes());
        assert_eq!(voice.role.desk.take_updates().len(), 2);
        assert!(!voice.role.desk.has_notes());
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
        let [Note::Ask { number, .. }, Note::Withdraw { number: taken }] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert_eq!(number, taken);
    }

    #[test]
    fn a_call_that_became_a_task_says_the_rest_as_one() {
        let voice = voice();
        let mut begun = voice.begin_task();
        assert!(poll(&mut begun).is_pending());
        let role = notes(&voice);
        let [Note::Begin(role)] = &role[..] else { panic!("{role:?}") };
        let (ticket, ttl) = role.wish().expect("a wish to be a task");
        assert_eq!((ticket, ttl), (Key::from_bits(7), None));
        role.become_task(Key::from_bits(8), Asking::Requests);
        assert!(matches!(poll(&mut begun), Poll::Ready(Ok(()))));
        assert!(matches!(poll(&mut voice.begin_task()), Poll::Ready(Ok(()))), "it is one already");
        voice.log(LogLevel::Error, None, serde_json::Value::Null);
        voice.progress(1.0, None, None);
        let notes = notes(&voice);
        let [Note::Log(LogMessage { from, .. }), Note::Task { task, .. }] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert_eq!((*from, *task), (Asker::Task(Key::from_bits(8)), Key::from_bits(8)));
    }

    #[test]
    fn a_task_that_cannot_begin_is_an_error_each_time() {
        let voice = voice();
        let mut begun = voice.begin_task();
        assert!(poll(&mut begun).is_pending());
        voice.role.refuse_task(HandlerError::Cancelled);
        for mut begun in [begun, voice.begin_task()] {
            assert!(matches!(poll(&mut begun), Poll::Ready(Err(HandlerError::Cancelled))));
        }
    }
}
