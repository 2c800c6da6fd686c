//! One shard's life: from a seed, made where the server is launched, to a running loop on a thread
//! of its own.
//!
//! A seed knows what is offered and under which limits. What it grows on, a ring and a host, is
//! brought by whoever runs it: the threads of [`super::Server::start`], a glommio executor that is
//! there already, or the simulator.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Calls;
use super::desk::Desk;
use super::driver::{Door, Parts, ShardDriver};
use super::editor::{Drafts, Editor, Makers};
use super::http::{self, Census, Http, LogBounds, Patience, SessionIds, Sessions, StreamBounds};
use super::letter::{Letter, Limits};
use super::options::{HttpOptions, Options, WebSocketOptions};
use super::pipeline::Road;
use super::questions::Questions;
use super::questions::rounds::Rounds;
use super::session::Session;
use super::subscriptions::{Bounds, Subscriptions};
use super::tasks::{self, Names, Tasks};
use super::websocket::{Rules, WebSockets};
use crate::base::time::Calendar;
use crate::engine::blocking::BlockingPool;
use crate::engine::host::Host;
use crate::engine::mesh::{Post, Seat, ShardId, Spent, Tally};
use crate::engine::origin::Origin;
use crate::engine::ring::{Listener, Operation, Ring, Socket};
use crate::engine::shard::Shard;
use crate::guard::draws::Draws;
use crate::guard::origin::OriginGuard;
use crate::link::{FrameOptions, Framing, Link, LinkOptions, Stream};
use crate::observe::counters::Counters;
use crate::observe::label::Transport;
use crate::protocol::json::{self, Parser};
use crate::service::Catalog;
use crate::transport::http::ladder::Profile;
use crate::transport::websocket::handshake::Accepts;

/// Connections beyond the limit that may be told so at the same time, on each shard.
pub(super) const REFUSALS_MAX: u32 = 64;

/// Streams of one session that have ended and that its client may come back for.
const STREAMS_KEPT_MAX: usize = 16;

/// How long a stream that was sent to its end can be resumed: twice as long as a client waits for
/// the next comment before it knows that its connection is dead.
const STREAM_LINGER: Duration = Duration::from_mins(1);

/// How many such streams a shard has at once: below 1 MiB besides their events, which have a bound
/// of their own.
const STREAMS_LINGERING_MAX: usize = 4_096;

/// Whose draws the names of sessions are: behind those of every shard's tasks.
const SESSION_DRAWS: u32 = 1 << 16 | 1;

/// Everything that a shard is built from, on its way to the shard's thread.
#[derive(Debug)]
pub struct ShardSeed {
    pub(super) options: Arc<Options>,
    pub(super) origin: Origin,
    pub(super) spent: Arc<Spent>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) guard: OriginGuard,
    pub(super) seat: Seat<Letter>,
    pub(super) post: Post<Letter>,
    pub(super) served: Arc<Tally>,
    pub(super) served_http: Arc<Tally>,
    pub(super) census: Census,
    pub(super) blocking: Arc<BlockingPool>,
    pub(super) makers: Makers,
    pub(super) editor: Arc<Editor>,
}

/// Where the connections of a shard come from: names on its ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inlet {
    /// A listener that accepts connections.
    Listener {
        /// Its name.
        listener: Listener,
        /// What comes through it.
        transport: Transport,
    },
    /// The one connection of a shard that ends with it.
    Pipes {
        /// Where messages come from.
        input: Socket,
        /// Where messages go to.
        output: Socket,
    },
}

impl ShardSeed {
    /// Which shard this becomes.
    pub const fn shard(&self) -> ShardId {
        self.seat.shard()
    }

    /// The options of the server.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Builds the shard on `ring`, with local handlers run by `host` and `inlets` open. Call it on
    /// the thread that runs the shard.
    ///
    /// # Errors
    ///
    /// Where an inlet finds no room.
    pub fn build<R: Ring>(
        self,
        ring: R,
        host: Rc<dyn Host>,
        inlets: &[Inlet],
    ) -> io::Result<Shard<R, ShardDriver>> {
        let unix_ms = self.origin.unix_ms;
        let driver = self.driver(&ring, host);
        let mut shard = Shard::new(ring, driver);
        let now = shard.now();
        let (ring, driver) = shard.parts_mut();
        driver.road.calendar = Calendar::at(now, unix_ms);
        for inlet in inlets {
            match *inlet {
                Inlet::Listener { listener, transport } => {
                    driver.doors.push(Door { listener, transport });
                    ring.submit(Operation::Accept(listener));
                }
                Inlet::Pipes { input, output } => {
                    let session = Session::new(Transport::Stdio, false);
                    let stream = Stream {
                        receive: input,
                        send: output,
                        peer: None,
                        framing: Framing::Lines,
                    };
                    let opened = driver.link.open(ring, stream, session, now);
                    opened.map_err(|_| io::Error::other("no room for a connection"))?;
                    driver.ends_with_input = true;
                }
            }
        }
        Ok(shard)
    }

    fn driver<R: Ring>(self, ring: &R, host: Rc<dyn Host>) -> ShardDriver {
        let limits = limits(&self.options, self.post.shards().count());
        let link = limits.link;
        let calls_max = link.connections_max.saturating_mul(limits.requests_in_flight_max);
        let sleeps_max = calls_max.saturating_add(limits.tasks.tasks_max);
        let shards = u16::try_from(self.post.shards().count()).unwrap_or(u16::MAX);
        let (editor, blocking, post) = (self.editor, self.blocking, self.post);
        let shard = self.seat.shard();
        let drafts = Drafts::new(Arc::clone(&editor), self.makers, post.clone(), shard);
        let mut draws = Draws::new(&self.origin.secret, 1 + u32::from(shard.0));
        let names = Names::new(shard, shards, Box::new(move || draws.draw()));
        // Draws of its own: the names of sessions tell nothing of those of tasks.
        let draws = Draws::new(&self.origin.secret, SESSION_DRAWS + u32::from(shard.0));
        let ids = SessionIds::new(shard, shards, draws);
        let options = &self.options.http;
        let http = Http::new(
            Profile {
                strict: options.strict,
                legacy: options.legacy,
                sse_pair: options.sse_pair,
                websocket: self.options.websocket.path.as_deref().map(Rc::from),
            },
            self.guard,
            limits.http,
            limits.patience,
            Sessions::new(limits.sessions, ids),
        );
        let road = Road {
            catalog: self.catalog,
            calls: Calls::new(calls_max),
            subscriptions: Subscriptions::new(limits.subscriptions),
            desk: Rc::new(Desk::new(ring.waker(), sleeps_max)),
            editor,
            drafts,
            host,
            blocking,
            shard,
            post,
            request_max: limits.request_max,
            requests_in_flight_max: limits.requests_in_flight_max,
            rounds: Rounds::new(&self.origin.secret, self.spent, limits.round_max),
            questions: Questions::new(shard.0, limits.question_max),
            calendar: Calendar::default(),
            tasks: Tasks::new(limits.tasks, names),
            shards,
            letters: Vec::new(),
            unanswered: Vec::new(),
            slow_shards: Vec::new(),
            letters_waiting_max: self.options.engine.mesh.lane_letters_max as usize,
            counters: Counters::default(),
        };
        let accepts = Accepts { deflate: self.options.websocket.deflate };
        let nesting_max = self.options.limits.nesting_max;
        ShardDriver::new(Parts {
            link: Link::new(link),
            parser: Parser::new(json::Limits { nesting_max, ..json::Limits::default() }),
            road,
            mailbox: self.seat.open(ring.waker()),
            served: self.served,
            served_http: self.served_http,
            census: self.census,
            http,
            websockets: WebSockets::new(limits.websocket, accepts),
            limits,
        })
    }
}

/// Connections that may be open at once, those that are being refused included.
pub(super) fn connections_max(options: &Options) -> u32 {
    let (served, _) = options.connections_max();
    u32::try_from(served).unwrap_or(u32::MAX).saturating_add(REFUSALS_MAX)
}

/// The limits of one shard. Any shard may get all connections there are (the kernel deals them out,
/// and not evenly); the memory that they hold is divided evenly.
pub(super) fn limits(options: &Options, shards: usize) -> Limits {
    let link = LinkOptions {
        connections_max: connections_max(options) as usize,
        idle_max: options.tcp.idle_max,
        lease_max: options.tcp.lease_max,
        message_bytes_max: options.limits.message_bytes_max,
        outgoing_bytes_max: options.limits.outgoing_bytes_max,
        held_bytes_max: options.limits.memory_bytes_max / shards.max(1),
        frames: frames(&options.websocket),
        ..LinkOptions::default()
    };
    Limits {
        link,
        connections_max: options.tcp.connections_max as usize,
        http_connections_max: options.http.connections_max as usize,
        http: options.request_limits(),
        patience: patience(&options.http),
        websocket: Rules::of(options),
        sessions: http::Bounds {
            // Each shard may begin one, whichever shard a client comes to.
            sessions_max: (options.http.sessions_max as usize / shards.max(1)).max(1),
            ttl: options.http.session_idle_max,
            streams: StreamBounds {
                // One for each request that waits, and for each connection that has yet to take
                // the end of one.
                streams_max: (options.limits.requests_in_flight_max as usize)
                    .saturating_add(options.http.connections_max as usize),
                streams_kept_max: STREAMS_KEPT_MAX,
                log: LogBounds {
                    events_max: options.http.events_max as usize,
                    bytes_max: options.limits.outgoing_bytes_max,
                },
            },
            event_bytes_max: options.http.event_bytes_max / shards.max(1),
            linger: STREAM_LINGER,
            lingering_max: STREAMS_LINGERING_MAX,
        },
        requests_in_flight_max: options.limits.requests_in_flight_max as usize,
        request_max: options.limits.request_max,
        question_max: options.limits.question_max,
        round_max: options.limits.round_max,
        drain_max: options.engine.drain_max,
        tasks: tasks::Bounds {
            tasks_max: options.limits.tasks_max as usize,
            tasks_per_connection_max: options.limits.tasks_per_connection_max as usize,
            ttl: options.limits.task_ttl,
            ttl_max: options.limits.task_ttl_max,
            bytes_max: options.limits.task_bytes_max,
        },
        subscriptions: Bounds {
            streams_max: options.limits.subscriptions_per_connection_max as usize,
            names_max: options.limits.subscription_uris_max as usize,
            name_bytes_max: options.limits.subscription_uri_bytes_max,
            held_bytes_max: options.limits.subscription_bytes_max / shards.max(1),
        },
    }
}

/// How long and how much connections of WebSocket may wait.
const fn frames(options: &WebSocketOptions) -> FrameOptions {
    FrameOptions {
        buffer_bytes_max: options.frame_buffer_bytes_max,
        drain_max: options.drain_max,
        fragment_max: options.fragment_max,
        idle_max: options.idle_max,
        ping_max: options.ping,
    }
}

/// How long answers of HTTP may take.
fn patience(options: &HttpOptions) -> Patience {
    Patience {
        answer_max: options.answer_max,
        silence_max: options.silence_max,
        retry_ms: u32::try_from(options.retry.as_millis()).unwrap_or(u32::MAX),
    }
}
