//! The load: a closed loop over many connections on its own ring.
//!
//! Each connection keeps `depth` calls in flight; for each response the next call is sent, all in
//! one send. The client must cost less than any server, so it counts newlines and bytes, or
//! compares responses with a known one, and parses only a sample; see [`crate::request_log`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_bench_support::process::Server;
use corelane_bench_support::requests::{Era, FIRST_ID, RequestTemplate, SESSION_BYTES};
use corelane_engine::clock::Clock;
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Ring, RingOptions, Socket,
};
use hdrhistogram::Histogram;

use crate::cross_shard;
use crate::handshake::{Handshake, HandshakeState, NextStep};
use crate::request_log::{RequestLog, Totals};
use crate::transport::Transport;

/// Connections that are opened at a time.
const OPENING_MAX: usize = 128;
/// Timeout for opening all connections and for the last responses.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The last id of a run.
const LAST_ID: u64 = 999_999_999;
/// Receive buffers of the client, enough for the largest number of connections.
const RECEIVE_BUFFERS: u16 = 4096;

/// Parameters of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Ignored over stdio, which has one.
    pub(crate) connections: usize,
    /// Calls in flight on each connection.
    pub(crate) depth: usize,
    pub(crate) era: Era,
    pub(crate) message_bytes: usize,
    /// Whether the server speaks MCP and needs a session in the legacy era.
    pub(crate) protocol: bool,
    pub(crate) transport: Transport,
    /// Whether every connection uses a session of the other shard, see [`cross_shard`].
    pub(crate) is_cross_shard: bool,
    pub(crate) warm_up: Duration,
    pub(crate) span: Duration,
}

/// Results of a load.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Responses per second.
    pub(crate) rate: f64,
    /// CPU time of the server process per response, in microseconds.
    pub(crate) cpu_us: f64,
    /// CPU time of the server process, as a fraction of one core.
    pub(crate) server_share: f64,
    /// In nanoseconds, see [`Totals::latency`].
    pub(crate) latency: Histogram<u64>,
}

/// Counters at the start or end of a measurement.
#[derive(Debug)]
pub(crate) struct Snapshot {
    time: Instant,
    answered: u64,
    cpu: Duration,
}

impl Snapshot {
    pub(crate) fn take(now: Instant, totals: &Totals, server: &Server) -> io::Result<Self> {
        Ok(Self { time: now, answered: totals.answered, cpu: server.cpu_time()? })
    }
}

impl Outcome {
    pub(crate) fn between(before: &Snapshot, after: &Snapshot, latency: Histogram<u64>) -> Self {
        let seconds = after.time.since(before.time).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "counts of one run are small")]
        let responses = (after.answered - before.answered) as f64;
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        Self {
            rate: responses / seconds,
            cpu_us: cpu / responses * 1e6,
            server_share: cpu / seconds,
            latency,
        }
    }
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// Present during the handshake.
    handshake: Option<Box<HandshakeState>>,
    /// Session id of its requests.
    session: Option<[u8; SESSION_BYTES]>,
    /// Buffer of `depth` calls, while no send is in flight.
    calls: Option<Vec<u8>>,
    log: RequestLog,
}

/// One run of the load.
struct Client {
    ring: UringRing,
    load: Load,
    handshake: Handshake,
    template: RequestTemplate,
    connections: Vec<Connection>,
    /// Connection index by socket.
    connection_by_socket: Vec<u32>,
    now: Instant,
    open: usize,
    /// Whether calls are sent: all connections are open, and the measurement has not ended.
    is_sending: bool,
    totals: Totals,
}

/// Runs `load` against `server` and measures it.
pub(crate) fn run(server: &Server, load: Load) -> io::Result<Outcome> {
    let mut client = Client::new(load, server.address()?)?;
    let mut completions = Vec::with_capacity(1024);
    client.connect(&mut completions)?;
    client.drive(client.now.after(load.warm_up), &mut completions)?;
    client.totals.latency.reset();
    let before = Snapshot::take(client.now, &client.totals, server)?;
    client.drive(client.now.after(load.span), &mut completions)?;
    let after = Snapshot::take(client.now, &client.totals, server)?;
    client.finish(&mut completions)?;
    Ok(Outcome::between(&before, &after, client.totals.latency))
}

impl Client {
    fn new(load: Load, host: SocketAddr) -> io::Result<Self> {
        let options = RingOptions {
            sockets_max: u32::try_from(load.connections).unwrap_or(u32::MAX),
            receive_buffers: RECEIVE_BUFFERS,
            ..RingOptions::default()
        };
        let format = load.transport.response_format(load.protocol);
        let has_session = load.protocol && matches!(load.era, Era::Legacy);
        let connection = || Connection {
            socket: Socket(u32::MAX),
            handshake: Some(Box::default()),
            session: None,
            calls: None,
            log: RequestLog::new(load.depth, format),
        };
        let mut ring = UringRing::new(&options, Clock::start())?;
        Ok(Self {
            now: ring.park(ParkTimeout::Zero),
            ring,
            load,
            handshake: Handshake { host, format, has_session },
            template: load.transport.echo(load.era, load.message_bytes, host),
            connections: std::iter::repeat_with(connection).take(load.connections).collect(),
            connection_by_socket: Vec::new(),
            open: 0,
            is_sending: false,
            totals: Totals::new()?,
        })
    }

    /// Opens every connection and session, then sends the first calls.
    fn connect(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let address = self.handshake.host;
        let deadline = self.now.after(WAIT_TIMEOUT);
        let mut started = 0;
        while self.open < self.connections.len() {
            while started < self.connections.len().min(self.open + OPENING_MAX) {
                let token = started as u64;
                self.ring.submit(Operation::Connect {
                    address,
                    local_address: None,
                    keepalive: false,
                    token,
                });
                started += 1;
            }
            self.turn(deadline, completions)?;
            if self.now >= deadline {
                let open = self.open;
                return Err(io::Error::other(format!("only {open} connections opened")));
            }
        }
        if self.load.is_cross_shard {
            self.exchange_sessions()?;
        }
        self.is_sending = true;
        for index in 0..self.connections.len() {
            self.send_calls(index);
        }
        Ok(())
    }

    /// Makes every connection use a session of the other shard. Connections may share a session, so
    /// their calls have distinct id ranges.
    fn exchange_sessions(&mut self) -> io::Result<()> {
        let own: Vec<_> =
            self.connections.iter().filter_map(|connection| connection.session).collect();
        let foreign = cross_shard::exchange(&own)?;
        let span = (LAST_ID - FIRST_ID) / own.len() as u64;
        for ((number, connection), session) in (0..).zip(&mut self.connections).zip(foreign) {
            connection.session = Some(session);
            connection.log.set_first_id(FIRST_ID + number * span);
        }
        Ok(())
    }

    fn drive(&mut self, until: Instant, completions: &mut Vec<Completion>) -> io::Result<()> {
        while self.now < until {
            self.turn(until, completions)?;
        }
        Ok(())
    }

    /// Stops sending, waits for the pending responses and checks the totals.
    fn finish(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.is_sending = false;
        let deadline = self.now.after(WAIT_TIMEOUT);
        let sent: u64 = self.connections.iter().map(|connection| connection.log.sent()).sum();
        while self.totals.answered < sent && self.now < deadline {
            self.turn(deadline, completions)?;
        }
        self.totals.check(sent)
    }

    fn turn(&mut self, until: Instant, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.now = self.ring.park(ParkTimeout::After(until.since(self.now)));
        self.ring.reap(completions);
        for completion in completions.drain(..) {
            match completion {
                Completion::Received { socket, buffer } => self.receive(socket, buffer)?,
                Completion::Sent { socket, buffer, result } => {
                    result?;
                    let index = self.connection_by_socket[socket.index()] as usize;
                    self.connections[index].calls = Some(buffer);
                    self.send_calls(index);
                }
                Completion::Connected { token, result } => {
                    let index = usize::try_from(token).map_err(io::Error::other)?;
                    self.connected(index, result?);
                }
                Completion::EndOfStream { .. } => {
                    return Err(io::Error::other("the server closed a connection"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, index: usize, socket: Socket) {
        if self.connection_by_socket.len() <= socket.index() {
            self.connection_by_socket.resize(socket.index() + 1, u32::MAX);
        }
        self.connection_by_socket[socket.index()] = u32::try_from(index).unwrap_or(u32::MAX);
        self.ring.submit(Operation::Receive(socket));
        self.connections[index].socket = socket;
        let buffer = self.handshake.first_message(&self.template);
        self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
    }

    /// Sends the next calls if the connection is open and no send is in flight.
    #[inline]
    fn send_calls(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.log.may_send() || !self.is_sending {
            return;
        }
        let Some(mut buffer) = connection.calls.take() else {
            return;
        };
        if connection.log.sent() == 0 {
            // The first calls of this connection.
            buffer = self.template.repeat(self.load.depth);
            if let Some(session) = &connection.session {
                self.template.set_session(&mut buffer, session);
            }
        }
        let from = connection.log.prepare_calls(&self.template, &mut buffer, self.now);
        self.ring.submit(Operation::Send { socket: connection.socket, buffer, offset: from });
    }

    #[inline]
    fn receive(&mut self, socket: Socket, buffer: ReceiveBuffer) -> io::Result<()> {
        let index = self.connection_by_socket[socket.index()] as usize;
        let connection = &mut self.connections[index];
        let bytes = &self.ring.bytes(&buffer)[..buffer.len as usize];
        if let Some(state) = &mut connection.handshake {
            let step = self.handshake.receive(state, bytes)?;
            self.apply(index, step);
        } else {
            connection.log.receive(&self.template, bytes, self.now, &mut self.totals)?;
        }
        self.ring.release(buffer);
        self.send_calls(index);
        Ok(())
    }

    fn apply(&mut self, index: usize, step: NextStep) {
        let connection = &mut self.connections[index];
        let message = match step {
            NextStep::Wait => None,
            NextStep::Send(message) => Some(message),
            NextStep::Done(message) => {
                connection.session = connection.handshake.take().and_then(|state| state.session);
                self.open += 1;
                message
            }
        };
        if let Some(buffer) = message {
            // The calls follow when this send completes.
            connection.calls = None;
            self.ring.submit(Operation::Send { socket: connection.socket, buffer, offset: 0 });
        }
    }
}
