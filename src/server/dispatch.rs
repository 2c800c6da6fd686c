//! The request path: one parsed message in, its output appended to the peer's buffer.
//!
//! ```text
//! text ─ parse ─▶ document ─ envelope ─▶ raw request ─ era ─▶ request ─ catalog ─▶ output
//! ```
//!
//! Nothing here blocks: a handler that needs time is started and answers later by its call id.
//! Messages that arrive together are answered together, because all output goes to one buffer.
//!
//! Invariants: every request gets exactly one response, now or later; a notification gets none;
//! input that is not a message gets one error and affects nothing else. At the limit of requests in
//! flight reading continues: further calls are rejected, while responses to server requests and
//! cancellations are processed.

mod admission;

mod handler_calls;
mod handler_events;
mod lists;

mod task_context;

mod task_creation;

mod subscriptions;
mod task_requests;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::admission::RawRequest;
use self::admission::{Request, validate};
use super::calls::CallTable;
use super::catalog_updates::{CatalogWriter, PendingUpdates};
use super::client_requests::ClientRequests;
use super::client_requests::request_state::RequestStates;
use super::connection_state::PeerState;
use super::handlers::HandlerQueue;
use super::reply_to::{Outcome, ReplyTo};
use super::shard_message::ShardMessage;
use super::subscriptions::SubscriptionRegistry;
use super::tasks::Tasks;
use crate::base::time::{Instant, WallClock};
use crate::engine::blocking::BlockingPool;
use crate::engine::executor::Executor;
use crate::engine::mesh::{Sender, ShardId};
use crate::protocol::eras::{ClientNotification, InitializeRequestParams, Method};
use crate::protocol::error::Error;
use crate::protocol::json::{Array, Value};
use crate::protocol::jsonrpc::{Id, Message};
use crate::protocol::model;
use crate::protocol::params::{RequestParams, SetLevelRequestParams};
use crate::protocol::revision::Revision;
use crate::service::Catalog;
use crate::telemetry::counters::RequestCounters;

/// Everything that dispatch needs except the state of the peer.
pub(super) struct Dispatcher {
    /// The current catalog version.
    pub(super) catalog: Arc<Catalog>,
    /// The calls that are answered later.
    pub(super) calls: CallTable,
    pub(super) subscriptions: SubscriptionRegistry,
    pub(super) handler_queue: Rc<HandlerQueue>,
    /// The single writer of the catalog, and the updates that local handlers wait for.
    pub(super) catalog_writer: Arc<CatalogWriter>,
    pub(super) pending_updates: PendingUpdates,
    /// The executor of local handlers.
    pub(super) executor: Rc<dyn Executor>,
    /// The thread pool of blocking handlers.
    pub(super) blocking_pool: Arc<BlockingPool>,
    /// The id of this shard, and the sender to it for blocking handlers.
    pub(super) shard: ShardId,
    pub(super) sender: Sender<ShardMessage>,
    pub(super) request_timeout: Duration,
    /// Maximum calls in flight of a connection, and messages in a batch.
    pub(super) requests_in_flight_max: usize,
    /// The open requests to clients.
    pub(super) client_requests: ClientRequests,
    /// Encrypts and decrypts `requestState` (2026-07-28).
    pub(super) request_states: RequestStates,
    pub(super) wall_clock: WallClock,
    /// The tasks of this shard, and the number of shards.
    pub(super) tasks: Tasks,
    pub(super) shard_count: u16,
}

/// The context of one message.
#[derive(Clone, Copy)]
pub(super) struct MessageContext {
    /// The peer, and the target of responses.
    pub(super) reply_to: ReplyTo,
    pub(super) now: Instant,
    /// Whether the message is part of a JSON-RPC batch.
    pub(super) in_batch: bool,
    /// The transport has established that the request is modern: then it must be.
    pub(super) is_modern: bool,
}

impl Dispatcher {
    /// Dispatches one parsed message, or a batch where the revision has batches. Immediate output
    /// is appended to the peer's buffer.
    #[inline]
    pub(super) fn dispatch(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        root: Value<'_>,
    ) -> Outcome {
        peer.outbox.counters.traffic.messages_in += 1;
        let outcome = match root.as_array() {
            None => self.dispatch_message(ctx, peer, root),
            Some(batch) => self.dispatch_batch(ctx, peer, batch),
        };
        peer.outbox.count_outcome(outcome);
        outcome
    }

    /// Writes the error for text that is not a message: not JSON, not UTF-8, too long.
    pub(super) fn reject_text(
        &mut self,
        peer: &mut PeerState<'_>,
        id: Option<Id<'_>>,
        error: &Error,
    ) -> Outcome {
        let outcome = self.write_error(peer, id, error, peer.state.lifecycle.revision());
        peer.outbox.count_outcome(outcome);
        outcome
    }

    #[inline]
    fn dispatch_message(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        value: Value<'_>,
    ) -> Outcome {
        match Message::read(value) {
            Ok(Message::Request { id, method, params }) => {
                let call_params = &RequestParams::read(params);
                let meta = &call_params.meta();
                self.dispatch_request(
                    ctx,
                    peer,
                    &RawRequest { id, method, params, call_params, meta },
                )
            }
            Ok(Message::Notification { method, params }) => {
                peer.outbox.counters.requests.notifications += 1;
                self.handle_notification(ctx, peer, method, params);
                Outcome::None
            }
            Ok(Message::Response { id, outcome }) => {
                self.handle_response(ctx, (id, outcome), peer.outbox);
                Outcome::None
            }
            Err(refused) => {
                let revision = peer.state.lifecycle.revision();
                self.write_error(peer, refused.id, &refused.error, revision)
            }
        }
    }

    /// Dispatches a batch: immediate responses form one array, later ones are sent individually
    /// (2025-03-26, basic/index, "Batching").
    fn dispatch_batch(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        batch: Array<'_>,
    ) -> Outcome {
        peer.outbox.counters.requests.batches += 1;
        let revision = peer.state.lifecycle.revision();
        let messages_max = self.requests_in_flight_max;
        let refusal = if !revision.is_some_and(|revision| revision.dialect().batches) {
            Some("batches are supported in revision 2025-03-26 only, after initialize".into())
        } else if batch.is_empty() {
            Some(Cow::Borrowed("a batch must contain at least one message"))
        } else if batch.len() > messages_max {
            // The responses leave together: a small unlimited batch could produce gigabytes.
            Some(format!("a batch has {} messages (limit {messages_max})", batch.len()).into())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.write_error(peer, None, &Error::invalid_request(refusal), revision);
        }
        let start = peer.outgoing.len();
        peer.outgoing.push(b'[');
        let ctx = MessageContext { in_batch: true, ..ctx };
        for value in batch {
            if self.dispatch_message(ctx, peer, value) != Outcome::None {
                peer.outgoing.push(b',');
            }
        }
        if peer.outgoing.len() == start + 1 {
            peer.outgoing.truncate(start);
            return Outcome::None;
        }
        peer.outgoing.pop();
        peer.outgoing.push(b']');
        Outcome::Response
    }

    /// Validates a request against its protocol era, then dispatches it by method.
    #[inline]
    pub(super) fn dispatch_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> Outcome {
        let state = &*peer.state;
        let request = match validate(ctx, raw, state.lifecycle, &state.in_flight) {
            Ok(request) => request,
            Err(error) => {
                let revision = state.lifecycle.revision();
                count_request(&mut peer.outbox.counters.requests, Method::parse(raw.method));
                return self.write_error(peer, Some(raw.id), &error, revision);
            }
        };
        count_request(&mut peer.outbox.counters.requests, Some(request.method));
        if let Err(error) = self.catalog.check_method(request.method) {
            return self.write_request_error(peer, &request, &error);
        }
        match request.method {
            Method::ToolsCall
            | Method::PromptsGet
            | Method::ResourcesRead
            | Method::CompletionComplete => self.dispatch_call(ctx, peer, &request),
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourcesTemplatesList => self.dispatch_list(peer, &request),
            Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel => self.dispatch_task_request(ctx, peer, &request),
            Method::LoggingSetLevel => self.set_log_level(peer, &request),
            Method::Ping => write_result(peer, &request, b"{}"),
            Method::Discover => write_result(peer, &request, self.catalog.discover_result()),
            Method::Initialize => self.initialize(peer, &request),
            Method::SubscriptionsListen => self.listen(ctx, peer, &request),
            Method::ResourcesSubscribe => self.subscribe(ctx, peer, &request),
            Method::ResourcesUnsubscribe => self.unsubscribe(peer, &request),
        }
    }

    fn initialize(&mut self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
        let lifecycle = &mut peer.state.lifecycle;
        let agreed = InitializeRequestParams::read(request.params)
            .and_then(|params| lifecycle.initialize(&params));
        match agreed {
            Ok(revision) => write_result(peer, request, self.catalog.initialize_result(revision)),
            Err(error) => self.write_request_error(peer, request, &error),
        }
    }

    /// Handles a notification. Unknown ones are ignored.
    fn handle_notification(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        method: &str,
        params: Option<Value<'_>>,
    ) {
        match ClientNotification::parse(method) {
            Some(ClientNotification::Initialized) => {
                peer.state.lifecycle.complete_handshake();
            }
            Some(ClientNotification::Cancelled) => self.handle_cancelled(peer, params),
            Some(ClientNotification::Progress) => {
                let peer_id = ctx.reply_to.peer_id;
                self.client_requests.handle_progress(peer_id, params, ctx.now, peer.outbox);
            }
            // Handlers request the roots anew each time, and the server starts no tasks on clients.
            Some(ClientNotification::RootsListChanged | ClientNotification::TaskStatus) | None => {}
        }
    }

    /// `logging/setLevel`: also applies to calls in flight.
    fn set_log_level(&mut self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
        match SetLevelRequestParams::read(request.params) {
            Ok(SetLevelRequestParams { level }) => {
                peer.state.log_level = level;
                write_result(peer, request, b"{}")
            }
            Err(error) => self.write_request_error(peer, request, &error),
        }
    }

    /// Writes the error response of a request.
    fn write_request_error(
        &mut self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        error: &Error,
    ) -> Outcome {
        self.write_error(peer, Some(request.id), error, Some(request.revision))
    }

    fn write_error(
        &mut self,
        peer: &mut PeerState<'_>,
        id: Option<Id<'_>>,
        error: &Error,
        revision: Option<Revision>,
    ) -> Outcome {
        peer.outbox.count_error(error);
        model::write_error_response(peer.outgoing, id, error, revision);
        Outcome::Error(error.kind)
    }
}

/// Writes a response with an encoded result.
#[inline]
fn write_result(peer: &mut PeerState<'_>, request: &Request<'_>, body: &[u8]) -> Outcome {
    model::write_response(peer.outgoing, request.id, body);
    Outcome::Response
}

#[inline]
fn count_request(requests: &mut RequestCounters, method: Option<Method>) {
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
