//! Fuzz target body of a whole client: arbitrary bytes of its server.
//!
//! It panics if an invariant is violated, which no input may cause. The fuzzer passes its own
//! bytes, the tests seeded ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane_client::{
    CachePolicy, Client, IoDriver, IoThread, ProxyOptions, ReconnectOptions, ResponseFuture,
};
use corelane_engine::ring::sim::{self, Faults, SimRing, TestListener, World};
use corelane_engine::ring::{ParkTimeout, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use serde_json::{Value, json};

use super::upgrade::accept_upgrade;

/// What the server speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FuzzTransport {
    /// Messages on lines over TCP.
    Lines,
    /// Streamable HTTP.
    Http,
    /// WebSocket; the server accepts the upgrade.
    WebSocket,
}

impl FuzzTransport {
    /// All.
    pub(crate) const ALL: [Self; 3] = [Self::Lines, Self::Http, Self::WebSocket];
}

/// How the calls of a client have ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct CallEnds {
    /// With a result.
    pub(crate) answered: usize,
    /// With an error.
    pub(crate) failed: usize,
}

/// Calls that are made.
pub(crate) const CALLS: usize = 4;
/// Events that a server waits for a request before it sends the next piece.
const WAITS_MAX: usize = 8;
/// Rounds in which a run must end.
const ROUNDS_MAX: usize = 20_000;

/// Lets a client make calls to a server that answers with `stream`, in pieces of `length` bytes,
/// and then ends. Returns how the calls have ended.
///
/// # Panics
///
/// If a call does not end, or if the client does not release everything.
pub(crate) fn run_client(transport: FuzzTransport, stream: &[u8], length: usize) -> CallEnds {
    let mut run = ClientRun::start(transport);
    let (mut pieces, mut waits) = (stream.chunks(length.max(1)), 0);
    for _ in 0..ROUNDS_MAX {
        run.turn();
        if run.calls.is_empty() {
            break;
        }
        let is_asked = run.connections.iter().any(|connection| connection.1);
        if (run.connections.is_empty() && run.listener.is_some())
            || (!is_asked && waits < WAITS_MAX)
        {
            waits += 1;
            run.advance();
        } else if let Some(piece) = pieces.next() {
            waits = 0;
            run.write(piece);
        } else {
            run.end_server();
            run.advance();
        }
    }
    assert!(run.calls.is_empty(), "{} calls have not ended", run.calls.len());
    run.close()
}

/// A client and the connections of its server.
struct ClientRun {
    transport: FuzzTransport,
    shard: ShardLoop<SimRing, IoDriver>,
    client: Client,
    listener: Option<TestListener>,
    /// The connections, with whether they have received something since the last piece, and whether
    /// they have accepted an upgrade.
    connections: Vec<(sim::Client, bool, bool)>,
    /// Pieces that were written.
    written: usize,
    calls: Vec<Pin<Box<ResponseFuture<Value>>>>,
    ends: CallEnds,
}

impl ClientRun {
    fn start(transport: FuzzTransport) -> Self {
        let world = World::with_faults(1, Faults::NONE);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let listener = world.listen(address);
        let options = RingOptions { sockets_max: 64, receive_buffers: 8, ..Default::default() };
        let started = IoThread::simulated(world.ring(options), 1);
        let (thread, shard) = started.expect("a simulated ring needs nothing of the system");
        let target = match transport {
            FuzzTransport::Lines => "tcp://127.0.0.1:80",
            FuzzTransport::Http => "http://127.0.0.1:80/mcp",
            FuzzTransport::WebSocket => "ws://127.0.0.1:80/mcp",
        };
        let mut reconnect = ReconnectOptions::default();
        reconnect.attempts_max = Some(2);
        let client = Client::builder(target)
            .request_timeout(Duration::from_secs(2))
            .proxy(ProxyOptions::none())
            .cache(CachePolicy::Off)
            .reconnect(reconnect)
            .io_thread(&thread)
            .connect_lazy();
        let client = client.expect("the target is valid");
        let methods: [(&str, Value); CALLS] = [
            ("tools/call", json!({ "name": "a", "arguments": {} })),
            ("tools/list", json!({})),
            ("resources/read", json!({ "uri": "test://a" })),
            ("prompts/get", json!({ "name": "a" })),
        ];
        let start = |(method, params)| {
            Box::pin(client.request::<Value>(method, &params).on_progress(|_| {}).into_future())
        };
        let calls = methods.map(start).into();
        let (connections, written, ends) = (Vec::new(), 0, CallEnds::default());
        let listener = Some(listener);
        Self { transport, shard, client, listener, connections, written, calls, ends }
    }

    /// Lets the client act, and polls the calls.
    fn turn(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let ends = &mut self.ends;
        self.calls.retain_mut(|call| {
            match call.as_mut().poll(&mut context) {
                Poll::Pending => return true,
                Poll::Ready(Ok(_)) => ends.answered += 1,
                Poll::Ready(Err(_)) => ends.failed += 1,
            }
            false
        });
        assert_eq!(self.shard.run_turn(ParkTimeout::Zero), TurnStatus::Continue, "it has ended");
        if let Some(listener) = &self.listener {
            while let Some(connection) = listener.accept() {
                self.connections.push((connection, false, false));
            }
        }
        self.connections.retain_mut(|(connection, is_asked, is_upgraded)| {
            let received = connection.take_received();
            let is_upgrade = self.transport == FuzzTransport::WebSocket && !*is_upgraded;
            if is_upgrade && !received.is_empty() {
                *is_upgraded = true;
                connection.write(&accept_upgrade(&received));
            } else {
                *is_asked |= !received.is_empty();
            }
            let has_ended = connection.is_reset() || connection.is_at_end();
            if has_ended {
                connection.close();
            }
            !has_ended
        });
    }

    /// Writes a piece on one of the connections, in turns.
    fn write(&mut self, piece: &[u8]) {
        self.written += 1;
        let asked = self.connections.iter().position(|connection| connection.1);
        let index = asked.unwrap_or_else(|| self.written % self.connections.len().max(1));
        if let Some((connection, is_asked, _)) = self.connections.get_mut(index) {
            *is_asked = false;
            connection.write(piece);
        }
        self.advance();
    }

    /// Lets time pass until the next event or timeout: the only ring advances it.
    fn advance(&mut self) {
        self.shard.run_turn(ParkTimeout::Infinite);
    }

    /// Closes the connections and accepts no others.
    fn end_server(&mut self) {
        for (connection, ..) in self.connections.drain(..) {
            connection.close();
        }
        if let Some(listener) = self.listener.take() {
            listener.close();
        }
    }

    /// Closes the client.
    fn close(mut self) -> CallEnds {
        self.end_server();
        drop((self.calls, self.client));
        for _ in 0..ROUNDS_MAX {
            if self.shard.run_turn(ParkTimeout::Infinite) == TurnStatus::Finished {
                let held = self.shard.driver().held_objects();
                assert_eq!(held, 0, "objects are held at the end");
                return self.ends;
            }
        }
        panic!("the client does not end: {:?}", self.shard.ring().resource_usage());
    }
}
