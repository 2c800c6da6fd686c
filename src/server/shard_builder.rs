//! The builder of a shard: made where the server starts, built on the shard's thread.
//!
//! A builder holds the catalog and the options. The ring and the executor come from the code that
//! runs the shard: the threads of [`super::Server::start`], an existing glommio executor, or the
//! simulator.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::acceptor::{Acceptor, ListenerEntry};
use super::calls::CallTable;
use super::catalog_updates::{CatalogWriter, PendingUpdates, UpdateExecutor};
use super::client_requests::ClientRequests;
use super::client_requests::request_state::RequestStates;
use super::connection_state::ConnectionState;
use super::deferred::DeferredWork;
use super::dispatch::{Dispatcher, Handlers};
use super::handlers::HandlerQueue;
use super::http::{
    self, EventLogLimits, Gauges, HttpFrontend, HttpTimeouts, SessionIds, SessionStore,
    StreamLimits,
};
use super::options::{HttpOptions, Options, WebSocketOptions};
use super::shard::{Shard, ShardParts};
use super::shard_message::{ShardLimits, ShardMessage};
use super::shard_set::ShardSet;
use super::subscriptions::{SubscriptionLimits, SubscriptionRegistry};
use super::tasks::{self, TaskIds, TaskTable, Tasks};
use super::websocket::{MessageRules, WebSocketFrontend};
use crate::base::time::WallClock;
use crate::connection::{Codec, ConnectionOptions, Connections, SocketPair, WebSocketFrameOptions};
use crate::engine::blocking::BlockingPool;
use crate::engine::entropy::Entropy;
use crate::engine::executor::Executor;
use crate::engine::mesh::{Endpoint, ReplayFilter, Sender, ShardId, SharedCounter};
use crate::engine::ring::{Listener, Ring, Socket};
use crate::engine::shard_loop::ShardLoop;
use crate::guard::origin::OriginGuard;
use crate::guard::secure_rng::SecureRng;
use crate::protocol::json::{self, Parser};
use crate::service::Catalog;
use crate::telemetry::label::Transport;
use crate::transport::http::checks::CheckProfile;
use crate::transport::websocket::handshake::HandshakeOptions;

/// Connections beyond the limit that may be open for their error response, on each shard.
pub(super) const REJECTED_CONNECTIONS_MAX: u32 = 64;

/// Ended streams of one session that its client can still resume.
const ENDED_STREAMS_MAX: usize = 16;

/// How long a stream that was sent to its end can be resumed: two keep-alive intervals, after which
/// a client knows that its connection is dead.
const STREAM_RETENTION: Duration = Duration::from_mins(1);

/// Maximum number of such streams on a shard: below 1 MiB besides their events, which have a limit
/// of their own.
const LINGERING_STREAMS_MAX: usize = 4_096;

/// Random stream of session ids: behind those of every shard's task ids.
const SESSION_ID_STREAM: u32 = 1 << 16 | 1;

/// Everything that a shard is built from.
#[derive(Debug)]
pub struct ShardBuilder {
    pub(super) options: Arc<Options>,
    pub(super) entropy: Entropy,
    pub(super) replay_filter: Arc<ReplayFilter>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) origin_guard: OriginGuard,
    pub(super) endpoint: Endpoint<ShardMessage>,
    pub(super) sender: Sender<ShardMessage>,
    pub(super) tcp_connections: Arc<SharedCounter>,
    pub(super) http_connections: Arc<SharedCounter>,
    pub(super) gauges: Gauges,
    pub(super) blocking_pool: Arc<BlockingPool>,
    pub(super) update_executor: UpdateExecutor,
    pub(super) catalog_writer: Arc<CatalogWriter>,
}

/// A source of connections, registered with the ring of the shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShardInput {
    /// A listener that accepts connections.
    Listener {
        /// The listener's handle on the ring.
        listener: Listener,
        /// The transport of its connections.
        transport: Transport,
    },
    /// Two pipes that are the only connection of the shard, which ends with it (stdio).
    Pipes {
        /// The ring's handle of the pipe that is read.
        input: Socket,
        /// The ring's handle of the pipe that is written.
        output: Socket,
    },
}

impl ShardBuilder {
    /// The id of the shard.
    #[cfg(feature = "internals")]
    pub const fn shard_id(&self) -> ShardId {
        self.endpoint.shard()
    }

    /// The options of the server.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Builds the shard on `ring`, with local handlers run by `executor` and connections from
    /// `inputs`. Must be called on the thread that runs the shard.
    ///
    /// # Errors
    ///
    /// If there are more pipe connections than the shard may have.
    pub fn build<R: Ring>(
        self,
        ring: R,
        executor: Rc<dyn Executor>,
        inputs: &[ShardInput],
    ) -> io::Result<ShardLoop<R, Shard>> {
        let unix_ms = self.entropy.unix_ms;
        let driver = self.build_shard(&ring, executor);
        let mut shard = ShardLoop::new(ring, driver);
        let now = shard.now();
        let (ring, driver) = shard.ring_and_driver_mut();
        let deferred = &mut driver.dispatcher.deferred;
        deferred.wall_clock = WallClock::at(now, unix_ms);
        deferred.tasks.wall_clock = deferred.wall_clock;
        for shard_input in inputs {
            match *shard_input {
                ShardInput::Listener { listener, transport } => {
                    driver.acceptor.listen(ring, ListenerEntry { listener, transport });
                }
                ShardInput::Pipes { input, output } => {
                    let state = ConnectionState::new(Transport::Stdio, false);
                    let stream = SocketPair {
                        receive: input,
                        send: output,
                        peer: None,
                        codec: Codec::Ndjson,
                    };
                    let opened = driver.connections.open_connection(ring, stream, state, now);
                    opened.map_err(|_| io::Error::other("the connection limit is reached"))?;
                    driver.ends_with_input = true;
                }
            }
        }
        Ok(shard)
    }

    fn build_shard<R: Ring>(self, ring: &R, executor: Rc<dyn Executor>) -> Shard {
        let limits = shard_limits(&self.options, self.sender.shards().count());
        let connections = limits.connections;
        let calls_max = connections.connections_max.saturating_mul(limits.requests_in_flight_max);
        let sleeps_max = calls_max.saturating_add(limits.tasks.tasks_max);
        let shards = u16::try_from(self.sender.shards().count()).unwrap_or(u16::MAX);
        let (catalog_writer, blocking, sender) =
            (self.catalog_writer, self.blocking_pool, self.sender);
        let shard = self.endpoint.shard();
        let pending_updates = PendingUpdates::new(
            Arc::clone(&catalog_writer),
            self.update_executor,
            sender.clone(),
            shard,
        );
        let (task_ids, session_ids) = task_and_session_ids(&self.entropy, shard, shards);
        let http = HttpFrontend::new(
            check_profile(&self.options),
            self.origin_guard,
            limits.http_request,
            limits.http_timeouts,
            SessionStore::new(limits.sessions, session_ids),
        );
        let messages_max = self.options.engine.mesh.channel_messages_max as usize;
        let shard_set = ShardSet::new(shard, shards, messages_max);
        let dispatcher = Dispatcher {
            catalog: self.catalog,
            subscriptions: SubscriptionRegistry::new(limits.subscriptions),
            deferred: DeferredWork {
                calls: CallTable::new(calls_max),
                tasks: Tasks::new(TaskTable::new(limits.tasks, task_ids), shard_set),
                client_requests: ClientRequests::new(shard.0, limits.client_request_timeout),
                request_states: RequestStates::new(
                    &self.entropy.secret,
                    self.replay_filter,
                    limits.request_state_ttl,
                ),
                request_timeout: limits.request_timeout,
                requests_in_flight_max: limits.requests_in_flight_max,
                wall_clock: WallClock::default(),
            },
            handlers: Handlers {
                queue: Rc::new(HandlerQueue::new(ring.waker(), sleeps_max)),
                pending_updates,
                catalog_writer,
                executor,
                blocking_pool: blocking,
                shard,
                sender,
            },
            shard_count: shards,
        };
        let acceptor = Acceptor::new(shard, self.tcp_connections, self.http_connections, &limits);
        let accepts = HandshakeOptions { deflate: self.options.websocket.deflate };
        let nesting_max = self.options.limits.nesting_max;
        Shard::new(ShardParts {
            connections: Connections::new(connections),
            parser: Parser::new(json::ParseLimits { nesting_max, ..json::ParseLimits::default() }),
            dispatcher,
            inbox: self.endpoint.open(ring.waker()),
            acceptor,
            gauges: self.gauges,
            http,
            websockets: WebSocketFrontend::new(limits.websocket, accepts),
            limits,
        })
    }
}

/// Creates the generators of task and session ids of a shard. Each has a random stream of its own:
/// session ids reveal nothing about task ids.
fn task_and_session_ids(entropy: &Entropy, shard: ShardId, shards: u16) -> (TaskIds, SessionIds) {
    let mut rng = SecureRng::new(&entropy.secret, 1 + u32::from(shard.0));
    let task_ids = TaskIds::new(shard, shards, Box::new(move || rng.next_u128()));
    let rng = SecureRng::new(&entropy.secret, SESSION_ID_STREAM + u32::from(shard.0));
    (task_ids, SessionIds::new(shard, shards, rng))
}

fn check_profile(options: &Options) -> CheckProfile {
    CheckProfile {
        strict: options.http.strict,
        legacy: options.http.legacy,
        legacy_sse: options.http.legacy_sse,
        websocket: options.websocket.path.as_deref().map(Rc::from),
    }
}

/// Connections that may be open at once, those being rejected included.
pub(super) fn connections_max(options: &Options) -> u32 {
    let (served, _) = options.connections_max();
    u32::try_from(served).unwrap_or(u32::MAX).saturating_add(REJECTED_CONNECTIONS_MAX)
}

/// The limits of one shard. The kernel distributes connections unevenly, so any shard may get all
/// of them; their memory limit is divided evenly.
pub(super) fn shard_limits(options: &Options, shards: usize) -> ShardLimits {
    let connections = ConnectionOptions {
        connections_max: connections_max(options) as usize,
        idle_timeout: options.tcp.idle_timeout,
        first_message_timeout: options.tcp.first_message_timeout,
        message_bytes_max: options.limits.message_bytes_max,
        outgoing_bytes_max: options.limits.outgoing_bytes_max,
        held_bytes_max: options.limits.memory_bytes_max / shards.max(1),
        websocket: websocket_frame_options(&options.websocket),
        ..ConnectionOptions::default()
    };
    ShardLimits {
        connections,
        connections_max: options.tcp.connections_max as usize,
        http_connections_max: options.http.connections_max as usize,
        http_request: options.request_limits(),
        http_timeouts: http_timeouts(&options.http),
        websocket: MessageRules::from_options(options),
        sessions: http::SessionLimits {
            // At least one: a client may reach any shard.
            sessions_max: (options.http.sessions_max as usize / shards.max(1)).max(1),
            idle_timeout: options.http.session_idle_timeout,
            streams: StreamLimits {
                // One for each request in flight, and one for each connection that is still
                // receiving the end of one.
                streams_max: (options.limits.requests_in_flight_max as usize)
                    .saturating_add(options.http.connections_max as usize),
                retained_streams_max: ENDED_STREAMS_MAX,
                log: EventLogLimits {
                    events_max: options.http.replay_events_max as usize,
                    bytes_max: options.limits.outgoing_bytes_max,
                },
            },
            event_bytes_max: options.http.replay_bytes_max / shards.max(1),
            linger_timeout: STREAM_RETENTION,
            lingering_streams_max: LINGERING_STREAMS_MAX,
        },
        requests_in_flight_max: options.limits.requests_in_flight_max as usize,
        request_timeout: options.limits.request_timeout,
        client_request_timeout: options.limits.client_request_timeout,
        request_state_ttl: options.limits.request_state_ttl,
        drain_timeout: options.engine.drain_timeout,
        tasks: tasks::TaskLimits {
            tasks_max: options.limits.tasks_max as usize,
            tasks_per_connection_max: options.limits.tasks_per_connection_max as usize,
            ttl: options.limits.task_ttl,
            ttl_max: options.limits.task_ttl_max,
            result_bytes_max: options.limits.task_bytes_max,
        },
        subscriptions: SubscriptionLimits {
            streams_max: options.limits.subscriptions_per_connection_max as usize,
            names_max: options.limits.subscription_uris_max as usize,
            name_bytes_max: options.limits.subscription_uri_bytes_max,
            held_bytes_max: options.limits.subscription_bytes_max / shards.max(1),
        },
    }
}

const fn websocket_frame_options(options: &WebSocketOptions) -> WebSocketFrameOptions {
    WebSocketFrameOptions {
        outgoing_bytes_max: options.outgoing_bytes_max,
        send_timeout: options.send_timeout,
        fragment_timeout: options.fragment_timeout,
        idle_timeout: options.idle_timeout,
        ping_interval: options.ping_interval,
    }
}

fn http_timeouts(options: &HttpOptions) -> HttpTimeouts {
    HttpTimeouts {
        sse_start_delay: options.sse_start_delay,
        sse_keepalive_interval: options.sse_keepalive_interval,
        sse_retry_ms: u32::try_from(options.sse_retry.as_millis()).unwrap_or(u32::MAX),
    }
}
