//! Messages between shards, and from other threads to a shard.

mod limits;
mod session_message;

mod large_message;

mod broadcast;

#[cfg(feature = "tower")]
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::{Sender, ShardId, SharedCounter};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::CallId;
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value};

pub(super) use self::broadcast::Broadcast;
pub use self::broadcast::Busy;
pub(super) use self::large_message::{
    LargeMessage, LargeRequest, LargeResponse, ParsedMessage, PartialResponse,
};
pub(super) use self::limits::{
    ConnectionsMax, DrainTimeouts, EventLogLimits, HalfCloseLimits, HttpTimeouts, SessionLimits,
    ShardLimits, StreamLimits, TaskLimits,
};
pub(super) use self::session_message::{
    CHUNK_EVENT, CarrierAddress, EventPosition, ExchangeAddress, FrontAddress, HttpOutput,
    LastEvent, LegacyOp, ParityHttpOutput, ParityOp, RefusedRequest, RelayedResume, SessionCaller,
    SessionMessage, SessionOp,
};
use super::auth::VerifiedProof;
use super::diagnostics::{CounterSnapshots, PageBuilder};
#[cfg(feature = "tower")]
use super::extension_slot::ExtensionSlot;
use super::memory::handler_memory::{HandlerResult, ResultCharge};
use super::overload::OverloadRules;
use super::owner_id::TaskId;
use super::shared_states::SharedStates;
use super::subscriptions::CatalogLists;
use crate::guard::auth::Authenticator;
use crate::guard::auth::certificates::RevokedCertificates;
use crate::guard::auth::introspection::IntrospectedToken;
use crate::guard::pressure::PressureStep;
use crate::guard::rate::limiter::{ShareGift, ShareRequest};
use crate::guard::rate::rules::RateRules;
use crate::service::{Catalog, CatalogError, HandlerError, HandlerOutput};
use crate::telemetry::counters::Counters;
use crate::telemetry::open_work::QueueDepths;

/// One message to a shard.
#[derive(Debug)]
pub(super) enum ShardMessage {
    /// A message to every shard.
    Broadcast(BroadcastMessage),
    /// A log message of a blocking handler.
    Log(Box<LogMessage>),
    /// The progress of a blocking handler.
    Progress(Progress),
    /// A part of the result of a blocking handler.
    Partial(Box<PartialResult>),
    /// A thread has parsed a message, or written a response.
    Parsed(Box<ParsedMessage>),
    /// About a session, and the exchange or connection that it is used with.
    Session(Box<SessionMessage>),
    Task(Box<TaskMessage>),
    /// About shares of rate limits.
    Rate(Box<RateMessage>),
    /// A report of all shards.
    Report(Box<ReportMessage>),
    /// A blocking handler has ended.
    Finished {
        requester: Requester,
        result: HandlerResult,
        charge: Option<ResultCharge>,
    },
    /// A thread has verified the signature of a proof.
    ProofVerified(Box<VerifiedProof>),
    /// A catalog update that a local handler awaits has ended.
    CatalogUpdated {
        key: Key,
        result: UpdateResult,
    },
    /// Serve a client over this connected stream socket, with HTTP; the host attaches extensions to
    /// its requests.
    #[cfg(feature = "tower")]
    AdoptStream(OwnedFd, ExtensionSlot),
    /// Publish the counters as the reply to this request.
    PublishCounters {
        request: u64,
        snapshots: Arc<CounterSnapshots>,
    },
}

/// A result of this size takes about as long as a turn of many small messages. It is encoded by the
/// thread of its handler.
pub(super) const LARGE_RESULT_BYTES: usize = 256 << 10;

impl ShardMessage {
    /// Returns whether it takes long to handle.
    pub(super) fn has_large_result(&self) -> bool {
        match self {
            Self::Finished { charge: Some(charge), .. } => charge.bytes() >= LARGE_RESULT_BYTES,
            Self::Parsed(_) => true,
            _ => false,
        }
    }
}

/// A message to every shard; each receives a copy.
#[derive(Clone, Debug)]
pub(super) enum BroadcastMessage {
    /// Complete what is in flight, accept nothing more, end. With a timeout: without delay, and
    /// within this time.
    Drain(Option<Duration>),
    /// Offer this catalog; calls in flight complete with the one they started with. The last shard
    /// to install it has all shards notify their clients, who then find it on every shard.
    Catalog {
        catalog: Arc<Catalog>,
        /// The lists that differ from the version before.
        changes: CatalogLists,
        /// Number of shards that have installed it.
        installed: Arc<SharedCounter>,
    },
    /// Every shard has installed a version in which these lists differ from the one before.
    ListsChanged(CatalogLists),
    /// Apply these limits. Boxed, because the largest variant sets the size of every inbox slot.
    Limits(Arc<ShardLimits>, Arc<OverloadRules>),
    /// Memory is short, by this step, or no longer.
    Pressure(PressureStep),
    /// The resource with this URI has changed.
    ResourceUpdated(Arc<str>),
    /// Limit requests by these rules.
    RateRules(Arc<RateRules>),
    /// Encrypt and decrypt `requestState` with these keys.
    RequestStates(Box<SharedStates>),
    /// Verify tokens with these keys and rules.
    Authenticator(Arc<Authenticator>),
    /// The authorization server has said what a token is.
    Introspected(Arc<IntrospectedToken>),
    /// These client certificates are revoked.
    Revoked(Arc<RevokedCertificates>),
}

impl BroadcastMessage {
    /// Returns the message for the next catalog version.
    pub(super) fn new_catalog(catalog: &Arc<Catalog>, changes: CatalogLists) -> Self {
        Self::Catalog { catalog: Arc::clone(catalog), changes, installed: Arc::default() }
    }
}

/// Sends a message that must not be lost, from a thread that may wait: a shard empties its inbox
/// once per turn, so a full one has space again within microseconds. Returns without sending if the
/// shard has ended. The result of a handler is sent this way even if the call was cancelled: until
/// then it occupies its slot.
pub(super) fn send_blocking(sender: &Sender<ShardMessage>, shard: ShardId, message: ShardMessage) {
    // A shard that has ended needs no message.
    drop(sender.send_while(shard, message, || true));
}

/// A message about shares of rate limits. Each request is answered, so that a shard has at most one
/// request and one answer under way to each other shard.
#[derive(Debug)]
pub(super) enum RateMessage {
    /// A shard is short of requests for these keys.
    Request { from: ShardId, requests: Arc<[ShareRequest]> },
    /// The answer, with what there is to spare.
    Gifts {
        /// The shard that gives.
        from: ShardId,
        /// What it gives.
        gifts: Vec<ShareGift>,
    },
}

/// A report in progress.
#[derive(Debug)]
pub(super) enum ReportMessage {
    /// The counters of all shards, as metrics.
    Metrics {
        /// The exchange that gets the report.
        exchange: ExchangeAddress,
        /// Sum over the shards visited so far.
        counters: Box<Counters>,
        /// Keys that rate limits have counted lately, on the shards visited so far.
        rate_keys: usize,
        /// The queues of the shards visited so far.
        queues: Vec<QueueDepths>,
        /// Number of shards that are not visited yet.
        remaining: u16,
    },
    /// The open connections.
    Connections {
        /// The exchange that gets the report, unless a thread does.
        exchange: Option<ExchangeAddress>,
        /// The page so far.
        page: PageBuilder,
    },
}

/// A handler, by what it runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Requester {
    /// A call, by its id.
    Call(Key),
    /// A task of this shard.
    Task(Key),
}

/// A log message of a call or a task.
#[derive(Debug)]
pub(super) struct LogMessage {
    pub requester: Requester,
    pub level: LoggingLevel,
    pub logger: Option<String>,
    /// Any JSON value.
    pub data: Value,
}

/// The progress of a call (`notifications/progress`).
#[derive(Debug)]
pub(super) struct Progress {
    pub call_id: CallId,
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// A part of the result of a call, ahead of it.
#[derive(Debug)]
pub(super) struct PartialResult {
    pub call_id: CallId,
    /// Any JSON value.
    pub data: Value,
}

/// The result of an update; `None` if it panicked.
pub(super) type UpdateResult = Option<Result<(), CatalogError>>;

/// An event of a handler that runs as a task.
#[derive(Debug)]
pub(super) enum TaskEvent {
    /// An input request was made.
    InputRequested,
    /// Progress was made.
    Progress {
        /// Increases with each event.
        progress: f64,
        /// Final value, if known.
        total: Option<f64>,
        /// Text for users.
        message: Option<String>,
    },
    /// The handler has completed.
    Finished(Result<HandlerOutput, HandlerError>),
}

/// An operation on a task.
#[derive(Debug)]
pub(super) enum TaskOp {
    /// Returns the state of the task (`tasks/get`).
    Get,
    /// Responds to its input requests (`tasks/update`).
    Update(Map<String, Value>),
    /// Cancels it (`tasks/cancel`).
    Cancel,
    /// Waits for its result (`tasks/result`).
    Result,
}

/// A request for a task of another shard.
#[derive(Debug)]
pub(super) struct RemoteTaskRequest {
    pub task: TaskId,
    /// Shard that gets the response.
    pub shard: ShardId,
    /// Call on that shard.
    pub call: CallId,
    /// Deadline of the call.
    pub deadline: Instant,
    /// Revision of the response.
    pub revision: Revision,
    /// The authenticated caller.
    pub principal: Option<Arc<Principal>>,
    /// The requested operation.
    pub op: TaskOp,
}

/// A message about a task.
#[derive(Debug)]
pub(super) enum TaskMessage {
    /// To the owner of a task: a request.
    Request(RemoteTaskRequest),
    /// From the owner: the response.
    Response {
        call: CallId,
        /// Body of the result.
        result: Result<Vec<u8>, Error>,
    },
    /// From a blocking thread to the owner: an event of the handler.
    HandlerEvent { task: Key, event: TaskEvent },
    /// To the owner: a client of `shard` subscribed to the task.
    Watch {
        task: TaskId,
        /// Shard with a subscription.
        shard: ShardId,
    },
    /// From the owner to a shard with a subscription: the task has changed.
    Changed {
        task: TaskId,
        /// Number of changes.
        version: u32,
        /// Who began it, if callers are authenticated: only streams of this caller get it.
        caller: Option<Arc<Principal>>,
        /// Part of the notification after the subscription id, the same for all streams.
        tail: Bytes,
    },
}
