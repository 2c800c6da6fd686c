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
//! notification never is; a text that is no message gets one error and harms nothing else.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::calls::{Caller, Calls, Work};
use super::desk::{Desk, Flag, LocalVoice, Note};
use super::letter::{self, Letter, WorkerVoice};
use super::session::Session;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::blocking::BlockingPool;
use crate::engine::host::Host;
use crate::engine::mesh::{Post, ShardId};
use crate::link::Connection;
use crate::observe::counters::Counters;
use crate::protocol::era::{Initialize, Lifecycle, Meta, Method, Notice};
use crate::protocol::error::{Error, Kind};
use crate::protocol::inflight::{Inflight, Rejected, Ticket};
use crate::protocol::json::{Array, Value};
use crate::protocol::message;
use crate::protocol::params::{Cancelled, List};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Envelope, Id, IdBuf};
use crate::service::{BlockingWork, Call, Catalog, Live, LocalWork, Reply, Worker};
use crate::transport::ndjson;

/// Everything a request can need between its text and its answer, but for its connection.
pub(super) struct Road {
    /// What is offered at present.
    pub(super) catalog: Arc<Catalog>,
    /// The calls that answer later.
    pub(super) calls: Calls,
    /// Where local handlers leave their notes.
    pub(super) desk: Rc<Desk>,
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
}

/// A request as it was read.
struct Asked<'a> {
    id: Id<'a>,
    method: &'a str,
    params: Option<Value<'a>>,
}

/// A request whose era has admitted it.
struct Admitted<'a> {
    id: Id<'a>,
    method: Method,
    params: Option<Value<'a>>,
    revision: Revision,
    progress_token: Option<Id<'a>>,
}

/// Asks the era of a request whether it may be served: a request that says its revision in `_meta`
/// stands alone, everything else goes by the handshake of its connection.
#[inline]
fn admit<'a>(
    asked: &Asked<'a>,
    lifecycle: Lifecycle,
    in_flight: &Inflight,
) -> Result<Admitted<'a>, Error> {
    let Asked { id, method: name, params } = *asked;
    if !in_flight.is_empty() && in_flight.find(id).is_some() {
        return Err(Rejected::Duplicate.into());
    }
    let meta = Meta::read(params)?;
    let method = Method::parse(name);
    let discovers = method == Some(Method::Discover) && lifecycle == Lifecycle::NotInitialized;
    let is_modern = meta.is_modern() || discovers;
    let agreed = if is_modern { Some(meta.modern()?.revision) } else { lifecycle.revision() };
    let method = match method {
        Some(method) if !is_modern || method.is_known_to(true) => method,
        // What an unprepared connection may not do is said before what nobody can do.
        None if agreed.is_none() => {
            return Err(lifecycle
                .admit(Method::ToolsList)
                .err()
                .unwrap_or_else(|| Error::method_not_found(name)));
        }
        Some(_) | None => return Err(Error::method_not_found(name)),
    };
    let revision = match agreed {
        Some(revision) if is_modern => revision,
        _ => lifecycle.admit(method)?,
    };
    Ok(Admitted { id, method, params, revision, progress_token: meta.progress_token() })
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
            ndjson::end_line(&mut connection.outgoing);
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
        say_error(&mut self.counters, connection, id, error, revision);
        ndjson::end_line(&mut connection.outgoing);
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
                self.request(passage, connection, &Asked { id, method, params })
            }
            Ok(Envelope::Notification { method, params }) => {
                self.counters.requests.notifications += 1;
                self.notification(connection, method, params);
                false
            }
            Ok(Envelope::Response { .. }) => {
                // We ask nothing yet, so this answers no question of ours.
                self.counters.requests.responses += 1;
                false
            }
            Err(refused) => {
                let revision = connection.session.lifecycle.revision();
                let counters = &mut self.counters;
                say_error(counters, connection, refused.id, &refused.error, revision);
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
            say_error(&mut self.counters, connection, None, &error, revision);
            return true;
        }
        let start = connection.outgoing.len();
        connection.outgoing.push(b'[');
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
                say_error(&mut self.counters, connection, Some(asked.id), &error, revision);
                return true;
            }
        };
        match admitted.method {
            Method::ToolsCall => return self.tools_call(passage, connection, &admitted),
            Method::ToolsList => self.tools_list(connection, &admitted),
            Method::Ping => {
                self.counters.requests.ping += 1;
                message::result(&mut connection.outgoing, admitted.id, b"{}");
            }
            Method::Discover => {
                self.counters.requests.discover += 1;
                let body = self.catalog.discover_body();
                message::result(&mut connection.outgoing, admitted.id, body);
            }
            Method::Initialize => self.initialize(connection, &admitted),
        }
        true
    }

    fn initialize(&mut self, connection: &mut Connection<Session>, admitted: &Admitted<'_>) {
        self.counters.requests.initialize += 1;
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
                say_error(&mut self.counters, connection, id, &error, Some(admitted.revision));
            }
        }
    }

    /// A notification: it changes something or is passed over, and never gets an answer.
    fn notification(
        &mut self,
        connection: &mut Connection<Session>,
        method: &str,
        params: Option<Value<'_>>,
    ) {
        match Notice::parse(method) {
            Some(Notice::Initialized) => {
                connection.session.lifecycle.confirm();
            }
            Some(Notice::Cancelled) => self.cancel(connection, params),
            // We ask nothing yet, so nothing of ours can make progress.
            Some(Notice::Progress) | None => {}
        }
    }

    /// `notifications/cancelled`: the call is told, and nothing more is said about it. An id that
    /// names nothing in flight is passed over: the answer may have crossed the cancellation.
    fn cancel(&mut self, connection: &mut Connection<Session>, params: Option<Value<'_>>) {
        let Some(cancelled) = Cancelled::read(params) else { return };
        let Some(ticket) = connection.session.in_flight.remove(cancelled.request) else { return };
        if self.calls.cancel(Key::from_bits(ticket.0)) {
            self.counters.requests.cancelled += 1;
            connection.owed = connection.owed.saturating_sub(1);
        }
    }

    fn tools_list(&mut self, connection: &mut Connection<Session>, admitted: &Admitted<'_>) {
        self.counters.requests.tools_list += 1;
        let page = List::read(admitted.params)
            .and_then(|list| self.catalog.tools_page(admitted.revision, list.cursor));
        match page {
            Ok(page) => message::result(&mut connection.outgoing, admitted.id, page),
            Err(error) => {
                let revision = Some(admitted.revision);
                say_error(&mut self.counters, connection, Some(admitted.id), &error, revision);
            }
        }
    }

    /// `tools/call`: an inline tool has answered when this returns; the others answer by ticket.
    #[inline]
    fn tools_call(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
    ) -> bool {
        self.counters.requests.tools_call += 1;
        let reply = match Call::read(admitted.revision, admitted.params) {
            Ok(call) => self.catalog.call(&call, admitted.id, &mut connection.outgoing),
            Err(error) => Reply::Failed(error),
        };
        let handed_over = match reply {
            Reply::Ready => return true,
            Reply::Failed(error) => Err(error),
            Reply::Local(work) => self.hand_to_shard(passage, connection, admitted, work),
            Reply::Blocking(work) => self.hand_to_pool(passage, connection, admitted, work),
        };
        let Err(error) = handed_over else { return false };
        let revision = Some(admitted.revision);
        say_error(&mut self.counters, connection, Some(admitted.id), &error, revision);
        true
    }

    /// Starts a local handler: a future on this shard.
    fn hand_to_shard(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
        work: LocalWork,
    ) -> Result<(), Error> {
        let flag = Rc::<Flag>::default();
        let local = Work::Local { task: None, flag: Rc::clone(&flag) };
        let ticket = self.enter(passage, connection, admitted, local)?;
        let desk = Rc::clone(&self.desk);
        let voice = LocalVoice { desk: Rc::clone(&desk), ticket, flag };
        let running = work(Live::new(Rc::new(voice)));
        let task = self.host.spawn(Box::pin(async move {
            let result = running.await;
            desk.leave(Note::Finished { ticket, result });
        }));
        self.calls.attach(ticket, task);
        Ok(())
    }

    /// Starts a blocking handler: a closure on the thread pool.
    fn hand_to_pool(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
        work: BlockingWork,
    ) -> Result<(), Error> {
        let interest = Arc::new(());
        let watched = Arc::downgrade(&interest);
        let blocking = Work::Blocking { interest: Some(interest) };
        let ticket = self.enter(passage, connection, admitted, blocking)?;
        let (post, shard) = (self.post.clone(), self.shard);
        let job = Box::new(move || {
            let voice =
                WorkerVoice { post: post.clone(), shard, ticket, interest: watched.clone() };
            let result = work(Worker::new(Arc::new(voice)));
            letter::deliver(&post, shard, Letter::Finished { ticket, result }, &watched);
        });
        if self.blocking.run(job).is_ok() {
            self.counters.shard.blocking_calls += 1;
            return Ok(());
        }
        self.counters.shard.blocking_refused += 1;
        self.calls.end(ticket);
        connection.owed -= 1;
        connection.session.in_flight.remove(admitted.id);
        Err(Error::new(
            Kind::Busy,
            "every thread for blocking tools is taken and the queue is full",
        ))
    }

    /// Enters a call that answers later.
    fn enter(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
        work: Work,
    ) -> Result<Key, Error> {
        let caller = Caller {
            connection: passage.key,
            id: admitted.id.into(),
            revision: admitted.revision,
            progress_token: admitted.progress_token.map(IdBuf::from),
        };
        let deadline = passage.now.after(self.request_max);
        let ticket = self
            .calls
            .enter(caller, work, deadline)
            .ok_or_else(|| Error::new(Kind::Busy, "as many calls are in flight as may be"))?;
        let in_flight = &mut connection.session.in_flight;
        // Looked up when the request was admitted, and bounded by what the link lets in.
        in_flight.insert(admitted.id, Ticket(ticket.to_bits()), usize::MAX)?;
        connection.owed += 1;
        Ok(ticket)
    }
}

/// Appends an error and counts it by its code.
fn say_error(
    counters: &mut Counters,
    connection: &mut Connection<Session>,
    id: Option<Id<'_>>,
    error: &Error,
    revision: Option<Revision>,
) {
    counters.errors.count(error.code);
    message::error(&mut connection.outgoing, id, error, revision);
}
