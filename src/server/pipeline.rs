//! The road, read from top to bottom: one frame in, what must be said out.
//!
//! ```text
//! text ─ parse ─▶ document ─ envelope ─▶ request ─ era ─▶ admitted ─ catalog ─▶ reply ─ message ─▶ outgoing
//! ```
//!
//! Nothing here waits: a handler that needs time is handed over and answers later by ticket. What
//! arrived together is answered together, because everything goes to the same corked buffer.
//!
//! What it keeps true: every request that was read is answered exactly once, now or by ticket; a
//! notification never is; a text that is no message gets one error and harms nothing else. However
//! many calls are in flight, reading goes on: one call more is refused, while answers to questions
//! of ours and cancellations come through.

mod admission;

mod answering;
mod calling;
mod listing;

mod task_voice;

mod tasking;

mod subscribing;
mod task_requests;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use self::admission::{Admitted, Asked, admit};
pub(super) use self::task_requests::unknown_task;
use super::calls::{Calls, Work};
use super::desk::Desk;
use super::editor::{Drafts, Editor};
use super::letter::Letter;
use super::questions::Questions;
use super::questions::rounds::Rounds;
use super::session::Session;
use super::subscriptions::Subscriptions;
use super::tasks::Tasks;
use crate::base::slab::Key;
use crate::base::time::{Calendar, Moment};
use crate::engine::blocking::BlockingPool;
use crate::engine::host::Host;
use crate::engine::mesh::{Post, ShardId};
use crate::link::Connection;
use crate::observe::counters::{Counters, Requests};
use crate::protocol::era::{Initialize, Method, Notice};
use crate::protocol::error::{Error, Kind};
use crate::protocol::json::{Array, Value};
use crate::protocol::message;
use crate::protocol::params::{CallParams, SetLevel};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Envelope, Id};
use crate::service::Catalog;
use crate::transport::ndjson;

/// Everything a request can need between its text and its answer, but for its connection.
pub(super) struct Road {
    /// What is offered at present.
    pub(super) catalog: Arc<Catalog>,
    /// The calls that answer later.
    pub(super) calls: Calls,
    /// The streams of notifications.
    pub(super) subscriptions: Subscriptions,
    /// Where local handlers leave their notes.
    pub(super) desk: Rc<Desk>,
    /// The one writer of the catalog, and the changes that local handlers wait for.
    pub(super) editor: Arc<Editor>,
    pub(super) drafts: Drafts,
    /// What runs local handlers.
    pub(super) host: Rc<dyn Host>,
    /// What runs blocking handlers.
    pub(super) blocking: Arc<BlockingPool>,
    /// This shard, and how blocking handlers write to it.
    pub(super) shard: ShardId,
    pub(super) post: Post<Letter>,
    /// How long a call may take.
    pub(super) request_max: Duration,
    /// How many calls a connection may wait for, and so how many messages a batch may hold.
    pub(super) requests_in_flight_max: usize,
    /// What handlers wait to hear from their clients.
    pub(super) questions: Questions,
    /// The states that clients carry between the rounds of a call.
    pub(super) rounds: Rounds,
    /// Where moments stand in the calendar.
    pub(super) calendar: Calendar,
    /// The tasks that this shard keeps, and how many shards share all of them.
    pub(super) tasks: Tasks<Work>,
    pub(super) shards: u16,
    /// Letters to other shards, which leave at the end of the turn.
    pub(super) letters: Vec<(ShardId, Letter)>,
    /// Shards to which so many letters wait to leave that no request adds another.
    pub(super) slow_shards: Vec<ShardId>,
    /// How many those are.
    pub(super) letters_waiting_max: usize,
    /// What has happened.
    pub(super) counters: Counters,
}

/// One text on its way: whose it is and when it came.
#[derive(Clone, Copy)]
pub(super) struct Passage {
    /// The connection.
    pub(super) key: Key,
    /// The moment of the turn.
    pub(super) now: Moment,
    /// Whether it is one message of a batch.
    pub(super) in_batch: bool,
}

impl Road {
    /// Carries one parsed text: a message, or a batch of them where the revision has batches.
    #[inline]
    pub(super) fn carry(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        root: Value<'_>,
    ) {
        self.counters.traffic.messages_in += 1;
        let said = match root.as_array() {
            None => self.message(passage, connection, root),
            Some(batch) => self.batch(passage, connection, batch),
        };
        if said {
            self.end_text(&mut connection.outgoing);
        }
    }

    /// Answers a text that is none: not JSON, not UTF-8, too long.
    pub(super) fn refuse(
        &mut self,
        connection: &mut Connection<Session>,
        id: Option<Id<'_>>,
        error: &Error,
    ) {
        let revision = connection.session.lifecycle.revision();
        self.say_error(connection, id, error, revision);
        self.end_text(&mut connection.outgoing);
    }

    /// One message; `true` where something was said.
    #[inline]
    fn message(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        value: Value<'_>,
    ) -> bool {
        match Envelope::read(value) {
            Ok(Envelope::Request { id, method, params }) => {
                let Passage { in_batch, .. } = passage;
                let members = &CallParams::read(params);
                let asked = Asked { id, method, params, members, in_batch };
                self.request(passage, connection, &asked)
            }
            Ok(Envelope::Notification { method, params }) => {
                self.counters.requests.notifications += 1;
                self.notification(passage, connection, method, params);
                false
            }
            Ok(Envelope::Response { id, outcome }) => {
                self.response(passage, id, outcome);
                false
            }
            Err(refused) => {
                let revision = connection.session.lifecycle.revision();
                self.say_error(connection, refused.id, &refused.error, revision);
                true
            }
        }
    }

    /// A batch: its answers in one array, those that come later by themselves (2025-03-26,
    /// basic/index, "Batching").
    fn batch(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        batch: Array<'_>,
    ) -> bool {
        self.counters.requests.batches += 1;
        let revision = connection.session.lifecycle.revision();
        let messages_max = self.requests_in_flight_max;
        let refusal = if !revision.is_some_and(|revision| revision.dialect().batches) {
            Some("a batch is a message of revision 2025-03-26 only, after its handshake".into())
        } else if batch.is_empty() {
            Some(Cow::Borrowed("a batch holds at least one message"))
        } else if batch.len() > messages_max {
            // Its answers leave together: without a bound a few bytes each would ask for gigabytes.
            Some(format!("a batch holds at most {messages_max} messages").into())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let error = Error::invalid_request(refusal);
            self.say_error(connection, None, &error, revision);
            return true;
        }
        let start = connection.outgoing.len();
        connection.outgoing.push(b'[');
        let passage = Passage { in_batch: true, ..passage };
        for value in batch {
            if self.message(passage, connection, value) {
                connection.outgoing.push(b',');
            }
        }
        if connection.outgoing.len() == start + 1 {
            connection.outgoing.truncate(start);
            return false;
        }
        connection.outgoing.pop();
        connection.outgoing.push(b']');
        true
    }

    /// A request: its era admits it or says why not; `true` where it was answered at once.
    #[inline]
    fn request(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        asked: &Asked<'_>,
    ) -> bool {
        let session = &mut connection.session;
        let admitted = match admit(asked, session.lifecycle, &session.in_flight) {
            Ok(admitted) => admitted,
            Err(error) => {
                let revision = session.lifecycle.revision();
                count(&mut self.counters.requests, Method::parse(asked.method));
                self.say_error(connection, Some(asked.id), &error, revision);
                return true;
            }
        };
        count(&mut self.counters.requests, Some(admitted.method));
        if let Err(error) = self.catalog.serves(admitted.method) {
            self.say_error(connection, Some(admitted.id), &error, Some(admitted.revision));
            return true;
        }
        match admitted.method {
            Method::ToolsCall
            | Method::PromptsGet
            | Method::ResourcesRead
            | Method::CompletionComplete => return self.call(passage, connection, &admitted),
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourcesTemplatesList => self.list(connection, &admitted),
            Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel => return self.tasks_request(passage, connection, &admitted),
            Method::LoggingSetLevel => self.set_level(connection, &admitted),
            Method::Ping => {
                message::result(&mut connection.outgoing, admitted.id, b"{}");
            }
            Method::Discover => {
                let body = self.catalog.discover_body();
                message::result(&mut connection.outgoing, admitted.id, body);
            }
            Method::Initialize => self.initialize(connection, &admitted),
            Method::SubscriptionsListen => self.listen(passage, connection, &admitted),
            Method::ResourcesSubscribe => self.subscribe(passage, connection, &admitted),
            Method::ResourcesUnsubscribe => self.unsubscribe(connection, &admitted),
        }
        true
    }

    fn initialize(&mut self, connection: &mut Connection<Session>, admitted: &Admitted<'_>) {
        let lifecycle = &mut connection.session.lifecycle;
        let agreed =
            Initialize::read(admitted.params).and_then(|asked| lifecycle.initialize(&asked));
        match agreed {
            Ok(revision) => {
                let body = self.catalog.initialize_body(revision);
                message::result(&mut connection.outgoing, admitted.id, body);
            }
            Err(error) => {
                let id = Some(admitted.id);
                self.say_error(connection, id, &error, Some(admitted.revision));
            }
        }
    }

    /// A notification: it changes something or is passed over, and never gets an answer.
    fn notification(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        method: &str,
        params: Option<Value<'_>>,
    ) {
        match Notice::parse(method) {
            Some(Notice::Initialized) => {
                connection.session.lifecycle.confirm();
            }
            Some(Notice::Cancelled) => self.cancel(connection, params),
            Some(Notice::Progress) => self.hear_progress(passage, params),
            // Roots are asked for anew whenever a handler wants them, and no client runs a task
            // for us.
            Some(Notice::RootsListChanged | Notice::TaskStatus) | None => {}
        }
    }

    /// `logging/setLevel`: what is told from here on; a call in flight keeps to it, too.
    fn set_level(&mut self, connection: &mut Connection<Session>, admitted: &Admitted<'_>) {
        match SetLevel::read(admitted.params) {
            Ok(SetLevel { level }) => {
                connection.session.log_level = level;
                message::result(&mut connection.outgoing, admitted.id, b"{}");
            }
            Err(error) => {
                let revision = Some(admitted.revision);
                self.say_error(connection, Some(admitted.id), &error, revision);
            }
        }
    }

    /// Appends an error and counts it.
    fn say_error(
        &mut self,
        connection: &mut Connection<Session>,
        id: Option<Id<'_>>,
        error: &Error,
        revision: Option<Revision>,
    ) {
        self.count_error(error);
        message::error(&mut connection.outgoing, id, error, revision);
    }

    /// Counts an error by its code.
    pub(super) fn count_error(&mut self, error: &Error) {
        self.counters.errors.count(error.code);
        self.counters.requests.handlers_panicked += u64::from(error.kind == Kind::Crashed);
    }

    /// Ends one text for a peer.
    #[inline]
    pub(super) fn end_text(&mut self, out: &mut Vec<u8>) {
        ndjson::end_line(out);
        self.counters.traffic.messages_out += 1;
    }
}

/// Counts a request by its method.
#[inline]
fn count(requests: &mut Requests, method: Option<Method>) {
    let counter = match method {
        Some(Method::ToolsCall) => &mut requests.tools_call,
        Some(Method::ToolsList) => &mut requests.tools_list,
        Some(Method::Ping) => &mut requests.ping,
        Some(Method::Discover) => &mut requests.discover,
        Some(Method::Initialize) => &mut requests.initialize,
        Some(_) | None => &mut requests.other,
    };
    *counter += 1;
}
