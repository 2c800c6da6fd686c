//! What a local handler holds while it runs: the way back to its caller.
//!
//! A local handler is a future on the shard that received the call. [`Live`] is its handle to that
//! shard: it tells progress, hears of cancellation, waits, and asks the client. The shard stands
//! behind [`LiveHost`], so that this room knows neither clock nor executor and a test can stand in
//! for the server.
//!
//! # Questions in every era
//!
//! A handler asks with [`Live::elicit`], [`Live::sample`] and [`Live::roots`] and is written once.
//! Before 2026-07-28 a question is a request to the client, and the handler waits for its answer.
//! From 2026-07-28 on the round ends with the open questions; the client asks again with the
//! answers, and **the handler runs again from its start**, where the questions that were answered
//! are answered at once. So each question has a key that is the same in every run, questions come
//! in the same order for the same answers, and side effects come after the last question.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;

use crate::protocol::era::LogLevel;
use crate::protocol::error::Error;
use crate::protocol::message::{
    Elicitation, Elicited, InputRequest, InputResponse, Root, Sampled, Sampling,
};
use crate::service::client::Client;
use crate::service::outcome::{AskError, Cancelled, HandlerError};
use crate::service::problem::CatalogError;
// The one knot of this room: a handler may change the catalog that holds it.
use crate::service::{CatalogBuilder, Edit};

/// A future that the host of a handler lends.
pub type HostFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// What the server gives to one running local handler.
pub trait LiveHost {
    /// Tells the caller how far the work is; see [`Live::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Whether the request was cancelled.
    fn is_cancelled(&self) -> bool;

    /// Resolves when the request is cancelled, at once where it already is.
    fn cancelled(&self) -> HostFuture<()>;

    /// Resolves after `span` on the shard's clock.
    fn sleep(&self, span: Duration) -> HostFuture<()>;

    /// Who asked.
    fn client(&self) -> Client;

    /// Asks the client; `key` names the question among those of this request. The client can
    /// answer it: [`Live`] has looked at what it declared.
    fn ask(&self, key: &str, request: InputRequest) -> HostFuture<Result<InputResponse, AskError>>;

    /// Ends the stream that carries the request; see [`Live::close_stream`].
    fn close_stream(&self);

    /// Has the call become a task, where it may; see [`Live::begin_task`].
    fn begin_task(&self) -> HostFuture<Result<(), HandlerError>>;

    /// Sends a log message to the client, where it wants to hear of `level`.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: serde_json::Value);

    /// Tells everybody who subscribed to the resource `uri` that it changed.
    fn updated(&self, uri: &str);

    /// Has the catalog changed; resolves when the next edition has been built.
    fn change(&self, edit: Edit) -> HostFuture<Result<(), CatalogError>>;
}

/// A local handler's handle to its request. Cheap to clone; stays on its shard.
///
/// When the caller cancels, [`Live::sleep`] and [`Live::run`] return [`Cancelled`], which `?` turns
/// into the end of the handler. A handler that waits for something else should wait through
/// [`Live::run`], or it is dropped only when it comes to an end by itself.
#[derive(Clone)]
pub struct Live {
    host: Rc<dyn LiveHost>,
}

impl Live {
    /// A handle over what the server lends.
    pub fn new(host: Rc<dyn LiveHost>) -> Self {
        Self { host }
    }

    /// Sends `notifications/progress` where the caller asked for it with a progress token, and does
    /// nothing otherwise. `progress` must grow from call to call; `total` and `message` are shown
    /// as they are, the message by revisions from 2025-03-26 on.
    ///
    /// Source: 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Ends the event stream that carries this request, so that nothing is held open while the
    /// handler works on: what it says from here on is kept, and the client comes back for it. Does
    /// nothing where a client cannot come back: everywhere but in a session over HTTP.
    ///
    /// Source: 2025-11-25, basic/transports, "Sending Messages to the Server" (SEP-1699).
    pub fn close_stream(&self) {
        self.host.close_stream();
    }

    /// Whether the request was cancelled; nothing that the handler still says will be sent.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Who asked: its revision, and what it can do.
    pub fn client(&self) -> Client {
        self.host.client()
    }

    /// Asks the user behind the client, with a form or by an address to open. `key` names the
    /// question among those of this request, the same in every run (see the top of this module).
    ///
    /// Fails where the client cannot ask its user ([`AskError::Unsupported`]), nobody answers in
    /// time, or the request is cancelled. A user who declines has answered: [`Elicited::action`].
    ///
    /// The client is never asked to answer by a task of its own, which 2025-11-25 lets it offer
    /// (`tasks.requests.elicitation`, experimental, and gone with 2026-07-28): the handler waits
    /// for the answer either way, the client has its whole time for it
    /// (`limits.question_ms_max`, and anew with each progress that it tells), and a question that
    /// had to be asked for again and again would cost both sides more.
    ///
    /// ```
    /// use corelane::protocol::message::{Elicitation, Field, Form};
    /// use corelane::service::{Live, NoArguments, Outcome, Tool};
    ///
    /// let tool = Tool::new("rename").local(|_: NoArguments, live: Live| async move {
    ///     let form = Form::new().field(Field::text("name").title("New name").required());
    ///     let answer = live.elicit("name", Elicitation::form("What shall it be?", form)).await?;
    ///     Ok(Outcome::text(format!("{:?}", answer.content.get("name"))))
    /// });
    /// # drop(tool);
    /// ```
    ///
    /// Source: 2025-06-18 and later, client/elicitation; 2026-07-28, basic/patterns/mrtr.
    pub fn elicit(
        &self,
        key: &str,
        elicitation: Elicitation,
    ) -> impl Future<Output = Result<Elicited, AskError>> + use<> {
        self.ask(key, InputRequest::Elicit(elicitation), |response| match response {
            InputResponse::Elicited(elicited) => Some(elicited),
            _ => None,
        })
    }

    /// Asks the client's model to go on with a conversation. `key` as for [`Live::elicit`], and
    /// like there the client is not asked to answer by a task (`tasks.requests.sampling`).
    ///
    /// Source: all revisions, client/sampling (deprecated in 2026-07-28).
    pub fn sample(
        &self,
        key: &str,
        sampling: Sampling,
    ) -> impl Future<Output = Result<Sampled, AskError>> + use<> {
        self.ask(key, InputRequest::Sample(Box::new(sampling)), |response| match response {
            InputResponse::Sampled(sampled) => Some(sampled),
            _ => None,
        })
    }

    /// Asks the client which directories the user works in. `key` as for [`Live::elicit`].
    ///
    /// Source: all revisions, client/roots (deprecated in 2026-07-28).
    pub fn roots(&self, key: &str) -> impl Future<Output = Result<Vec<Root>, AskError>> + use<> {
        self.ask(key, InputRequest::Roots, |response| match response {
            InputResponse::Roots(roots) => Some(roots),
            _ => None,
        })
    }

    /// Goes on as a task. In a call of a tool that
    /// [asks before its task](crate::service::ToolBuilder::asks_before_task), of a client that gets
    /// a task, this answers the call with the name of one and resolves when that has happened: the
    /// handler goes on where it is, and from here on its questions, its progress and its end are
    /// the task's. In a task, and in a call that becomes none, it resolves at once and changes
    /// nothing. What must be asked before there is a task comes before it.
    ///
    /// A handler that ends without it has answered the call itself; only a client of 2025-11-25,
    /// which asked for a task, gets one all the same, with the end in it.
    ///
    /// Fails where the server keeps as many tasks as it may ([`HandlerError::Refused`]) or the call
    /// was cancelled; `?` ends the call with that.
    ///
    /// Source: Tasks extension 2026-07-28 (SEP-2663), "Task Creation".
    pub fn begin_task(&self) -> impl Future<Output = Result<(), HandlerError>> + use<> {
        self.host.begin_task()
    }

    /// Sends a log message to the client. It arrives where the client wants to hear of `level`: by
    /// `logging/setLevel` up to 2025-11-25, by the log level of the request from 2026-07-28 on.
    /// `data` is any JSON; what does not serialize is told as the reason why. A task up to
    /// 2025-11-25 sends its messages under its name; one of 2026-07-28 sends none, because the
    /// extension has nothing sent for a task but its state.
    ///
    /// Source: server/utilities/logging of each revision; 2025-11-25, basic/utilities/tasks,
    /// "Associating Task-Related Messages"; Tasks extension 2026-07-28, "Notifications".
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_else(|error| error.to_string().into());
        self.host.log(level, logger, data);
    }

    /// Tells everybody who subscribed to the resource `uri` that it changed.
    ///
    /// Source: `notifications/resources/updated` of each revision.
    pub fn updated(&self, uri: &str) {
        self.host.updated(uri);
    }

    /// Changes the catalog, on every shard and for every client: `edit` gets a builder that holds
    /// all there is. Resolves when the next edition has been built; shards begin to offer it soon
    /// after, and calls in flight end with the definition that they began with. Edits are applied
    /// one after the other, in no promised order.
    ///
    /// Fails where the edition would be none, and changes nothing then.
    ///
    /// ```
    /// use corelane::service::{HandlerError, Live, NoArguments, Outcome, Tool};
    ///
    /// let tool = Tool::new("unlock").local(|_: NoArguments, live: Live| async move {
    ///     let secret = Tool::new("secret").inline(|_: NoArguments, answer| {
    ///         answer.text("42");
    ///         Ok(())
    ///     });
    ///     live.change(|catalog| catalog.tool(secret)).await.map_err(HandlerError::failed)?;
    ///     Ok(Outcome::text("There is one tool more."))
    /// });
    /// # drop(tool);
    /// ```
    pub fn change(
        &self,
        edit: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send + 'static,
    ) -> HostFuture<Result<(), CatalogError>> {
        self.host.change(Box::new(edit))
    }

    /// Waits until the request is cancelled; forever where that never happens.
    pub fn cancelled(&self) -> HostFuture<()> {
        self.host.cancelled()
    }

    /// Waits for `span`, or less where the request is cancelled meanwhile. Costs one timer.
    pub fn sleep(&self, span: Duration) -> impl Future<Output = Result<(), Cancelled>> + use<> {
        self.run(self.host.sleep(span))
    }

    /// Runs `work` to its end, or drops it as soon as the request is cancelled.
    pub fn run<F: Future>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, Cancelled>> + use<F> {
        let mut cancelled = self.host.cancelled();
        async move {
            let mut work = pin!(work);
            poll_fn(|context| {
                // Cancellation first: a caller that has gone must not cost another step of work.
                if cancelled.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(Cancelled));
                }
                work.as_mut().poll(context).map(Ok)
            })
            .await
        }
    }

    /// Asks, where the client can answer, and takes the answer apart.
    fn ask<T, F>(
        &self,
        key: &str,
        request: InputRequest,
        take: F,
    ) -> impl Future<Output = Result<T, AskError>> + use<T, F>
    where
        F: FnOnce(InputResponse) -> Option<T>,
    {
        let needed = request.needs();
        let missing = needed.without(self.client().capabilities);
        let asked = missing.is_empty().then(|| self.host.ask(key, request));
        let key = Box::<str>::from(key);
        async move {
            let Some(asked) = asked else { return Err(AskError::Unsupported(missing)) };
            let response = asked.await.map_err(|error| error.about(&key))?;
            let wrong = || AskError::Malformed(Error::internal("an answer to another question"));
            take(response).ok_or_else(wrong)
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Live").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;
    use crate::protocol::era::ClientCapabilities;
    use crate::protocol::revision::Revision;

    /// A host whose timers end at once or never, and whose request may be cancelled.
    #[derive(Default)]
    struct Still {
        cancelled: Cell<bool>,
        timers_stand: Cell<bool>,
        capabilities: Cell<ClientCapabilities>,
    }

    impl LiveHost for Still {
        fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

        fn is_cancelled(&self) -> bool {
            self.cancelled.get()
        }

        fn cancelled(&self) -> HostFuture<()> {
            if self.cancelled.get() { Box::pin(ready(())) } else { Box::pin(pending()) }
        }

        fn sleep(&self, _: Duration) -> HostFuture<()> {
            if self.timers_stand.get() { Box::pin(pending()) } else { Box::pin(ready(())) }
        }

        fn client(&self) -> Client {
            let capabilities = self.capabilities.get();
            Client { revision: Revision::LATEST, capabilities }
        }

        fn ask(
            &self,
            _: &str,
            request: InputRequest,
        ) -> HostFuture<Result<InputResponse, AskError>> {
            assert!(matches!(request, InputRequest::Roots));
            Box::pin(ready(Ok(InputResponse::Roots(Vec::new()))))
        }

        fn close_stream(&self) {}

        fn begin_task(&self) -> HostFuture<Result<(), HandlerError>> {
            Box::pin(ready(Ok(())))
        }

        fn log(&self, _: LogLevel, _: Option<&str>, _: serde_json::Value) {}

        fn updated(&self, _: &str) {}

        fn change(&self, _: Edit) -> HostFuture<Result<(), CatalogError>> {
            Box::pin(ready(Err(CatalogError::Fixed)))
        }
    }

    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_sleep_ends_when_its_timer_does() {
        let live = Live::new(Rc::new(Still::default()));
        assert_eq!(poll_once(live.sleep(Duration::from_secs(1))), Poll::Ready(Ok(())));
    }

    #[test]
    fn cancellation_ends_a_wait_that_would_go_on() {
        let host = Rc::new(Still::default());
        host.timers_stand.set(true);
        let live = Live::new(Rc::<Still>::clone(&host));
        assert_eq!(poll_once(live.sleep(Duration::from_secs(1))), Poll::Pending);
        host.cancelled.set(true);
        assert!(live.is_cancelled());
        assert_eq!(poll_once(live.sleep(Duration::from_secs(1))), Poll::Ready(Err(Cancelled)));
        assert_eq!(poll_once(live.run(pending::<()>())), Poll::Ready(Err(Cancelled)));
        assert_eq!(poll_once(live.cancelled()), Poll::Ready(()));
    }

    #[test]
    fn work_that_is_done_hands_its_value_back() {
        let live = Live::new(Rc::new(Still::default()));
        assert_eq!(poll_once(live.run(ready(7))), Poll::Ready(Ok(7)));
        assert_eq!(poll_once(live.run(pending::<()>())), Poll::Pending);
    }

    #[test]
    fn a_client_is_asked_only_for_what_it_declared() {
        let host = Rc::new(Still::default());
        let live = Live::new(Rc::<Still>::clone(&host));
        let refused = poll_once(live.roots("roots"));
        let Poll::Ready(Err(AskError::Unsupported(missing))) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(missing, ClientCapabilities::ROOTS);
        host.capabilities.set(ClientCapabilities::ROOTS);
        assert!(matches!(poll_once(live.roots("roots")), Poll::Ready(Ok(_))));
    }
}
