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

pub(super) use self::admission::Asked;
use self::admission::{Admitted, admit};
pub(super) use self::task_requests::unknown_task;
use super::calls::{Calls, Work};
use super::desk::Desk;
use super::editor::{Drafts, Editor};
use super::letter::Letter;
use super::party::{Outlet, Said};
use super::questions::Questions;
use super::questions::rounds::Rounds;
use super::session::Peer;
use super::subscriptions::Subscriptions;
use super::tasks::Tasks;
use crate::base::time::{Calendar, Moment};
use crate::engine::blocking::BlockingPool;
use crate::engine::host::Host;
use crate::engine::mesh::{Post, ShardId};
use crate::observe::counters::{Counters, Requests};
use crate::protocol::era::{Initialize, Method, Notice};
use crate::protocol::error::{Error, Kind};
use crate::protocol::json::{Array, Value};
use crate::protocol::message;
use crate::protocol::params::{CallParams, SetLevel};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Envelope, Id};
use crate::service::Catalog;

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
    /// Where answers of calls would have gone that nobody wants any more.
    pub(super) unanswered: Vec<Outlet>,
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
    /// Whose it is, and where answers to it go.
    pub(super) outlet: Outlet,
    /// The moment of the turn.
    pub(super) now: Moment,
    /// Whether it is one message of a batch.
    pub(super) in_batch: bool,
    /// Whether its carrier has said already that it is modern: then it must be.
    pub(super) is_modern: bool,
}

impl Road {
    /// Carries one parsed text: a message, or a batch of them where the revision has batches.
    /// What is said at once is appended to what the peer has outgoing.
    #[inline]
    pub(super) fn carry(&mut self, passage: Passage, peer: &mut Peer<'_>, root: Value<'_>) -> Said {
        self.counters.traffic.messages_in += 1;
        let said = match root.as_array() {
            None => self.message(passage, peer, root),
            Some(batch) => self.batch(passage, peer, batch),
        };
        self.count_said(said);
        said
    }

    /// Counts a text that was said.
    #[inline]
    pub(super) const fn count_said(&mut self, said: Said) {
        self.counters.traffic.messages_out += !matches!(said, Said::Nothing) as u64;
    }

    /// Answers a text that is none: not JSON, not UTF-8, too long.
    pub(super) fn refuse(
        &mut self,
        peer: &mut Peer<'_>,
        id: Option<Id<'_>>,
        error: &Error,
    ) -> Said {
        let said = self.say_error(peer, id, error, peer.session.lifecycle.revision());
        self.count_said(said);
        said
    }

    /// One message.
    #[inline]
    fn message(&mut self, passage: Passage, peer: &mut Peer<'_>, value: Value<'_>) -> Said {
        match Envelope::read(value) {
            Ok(Envelope::Request { id, method, params }) => {
                let members = &CallParams::read(params);
                let meta = &members.meta();
                self.request(passage, peer, &Asked { id, method, params, members, meta })
            }
            Ok(Envelope::Notification { method, params }) => {
                self.counters.requests.notifications += 1;
                self.notification(passage, peer, method, params);
                Said::Nothing
            }
            Ok(Envelope::Response { id, outcome }) => {
                self.response(passage, id, outcome);
                Said::Nothing
            }
            Err(refused) => {
                let revision = peer.session.lifecycle.revision();
                self.say_error(peer, refused.id, &refused.error, revision)
            }
        }
    }

    /// A batch: its answers in one array, those that come later by themselves (2025-03-26,
    /// basic/index, "Batching").
    fn batch(&mut self, passage: Passage, peer: &mut Peer<'_>, batch: Array<'_>) -> Said {
        self.counters.requests.batches += 1;
        let revision = peer.session.lifecycle.revision();
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
            return self.say_error(peer, None, &Error::invalid_request(refusal), revision);
        }
        let start = peer.outgoing.len();
        peer.outgoing.push(b'[');
        let passage = Passage { in_batch: true, ..passage };
        for value in batch {
            if self.message(passage, peer, value) != Said::Nothing {
                peer.outgoing.push(b',');
            }
        }
        if peer.outgoing.len() == start + 1 {
            peer.outgoing.truncate(start);
            return Said::Nothing;
        }
        peer.outgoing.pop();
        peer.outgoing.push(b']');
        Said::Answer
    }

    /// A request: its era admits it or says why not.
    #[inline]
    pub(super) fn request(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        asked: &Asked<'_>,
    ) -> Said {
        let session = &*peer.session;
        let admitted = match admit(passage, asked, session.lifecycle, &session.in_flight) {
            Ok(admitted) => admitted,
            Err(error) => {
                let revision = session.lifecycle.revision();
                count(&mut self.counters.requests, Method::parse(asked.method));
                return self.say_error(peer, Some(asked.id), &error, revision);
            }
        };
        count(&mut self.counters.requests, Some(admitted.method));
        if let Err(error) = self.catalog.serves(admitted.method) {
            return self.refuse_admitted(peer, &admitted, &error);
        }
        match admitted.method {
            Method::ToolsCall
            | Method::PromptsGet
            | Method::ResourcesRead
            | Method::CompletionComplete => self.call(passage, peer, &admitted),
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourcesTemplatesList => self.list(peer, &admitted),
            Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel => self.tasks_request(passage, peer, &admitted),
            Method::LoggingSetLevel => self.set_level(peer, &admitted),
            Method::Ping => say_result(peer, &admitted, b"{}"),
            Method::Discover => say_result(peer, &admitted, self.catalog.discover_body()),
            Method::Initialize => self.initialize(peer, &admitted),
            Method::SubscriptionsListen => self.listen(passage, peer, &admitted),
            Method::ResourcesSubscribe => self.subscribe(passage, peer, &admitted),
            Method::ResourcesUnsubscribe => self.unsubscribe(peer, &admitted),
        }
    }

    fn initialize(&mut self, peer: &mut Peer<'_>, admitted: &Admitted<'_>) -> Said {
        let lifecycle = &mut peer.session.lifecycle;
        let agreed =
            Initialize::read(admitted.params).and_then(|asked| lifecycle.initialize(&asked));
        match agreed {
            Ok(revision) => say_result(peer, admitted, self.catalog.initialize_body(revision)),
            Err(error) => self.refuse_admitted(peer, admitted, &error),
        }
    }

    /// A notification: it changes something or is passed over, and never gets an answer.
    fn notification(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        method: &str,
        params: Option<Value<'_>>,
    ) {
        match Notice::parse(method) {
            Some(Notice::Initialized) => {
                peer.session.lifecycle.confirm();
            }
            Some(Notice::Cancelled) => self.cancel(peer, params),
            Some(Notice::Progress) => self.hear_progress(passage, params),
            // Roots are asked for anew whenever a handler wants them, and no client runs a task
            // for us.
            Some(Notice::RootsListChanged | Notice::TaskStatus) | None => {}
        }
    }

    /// `logging/setLevel`: what is told from here on; a call in flight keeps to it, too.
    fn set_level(&mut self, peer: &mut Peer<'_>, admitted: &Admitted<'_>) -> Said {
        match SetLevel::read(admitted.params) {
            Ok(SetLevel { level }) => {
                peer.session.log_level = level;
                say_result(peer, admitted, b"{}")
            }
            Err(error) => self.refuse_admitted(peer, admitted, &error),
        }
    }

    /// Answers a request with an error.
    fn refuse_admitted(
        &mut self,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
        error: &Error,
    ) -> Said {
        self.say_error(peer, Some(admitted.id), error, Some(admitted.revision))
    }

    /// Appends an error and counts it.
    fn say_error(
        &mut self,
        peer: &mut Peer<'_>,
        id: Option<Id<'_>>,
        error: &Error,
        revision: Option<Revision>,
    ) -> Said {
        self.count_error(error);
        message::error(peer.outgoing, id, error, revision);
        Said::Refusal(error.kind)
    }

    /// Counts an error by its code.
    pub(super) fn count_error(&mut self, error: &Error) {
        self.counters.errors.count(error.code);
        self.counters.requests.handlers_panicked += u64::from(error.kind == Kind::Crashed);
    }
}

/// Answers a request with a body that is there already.
#[inline]
fn say_result(peer: &mut Peer<'_>, admitted: &Admitted<'_>, body: &[u8]) -> Said {
    message::result(peer.outgoing, admitted.id, body);
    Said::Answer
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
