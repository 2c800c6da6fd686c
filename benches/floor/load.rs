//! The load: a closed loop over many connections, on a ring of our own.
//!
//! Each connection keeps `depth` calls in flight; what was answered is asked again with the next
//! ids, in one send. The client must cost less than any server, so it counts newlines and bytes, or
//! compares responses and frames with one that it knows, and reads only a sample of the answers;
//! see [`crate::dialogue`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Completion, Lease, Operation, Patience, Ring, RingOptions, Socket};
use hdrhistogram::Histogram;

use crate::dialogue::{Dialogue, Sums};
use crate::hop;
use crate::opening::{Opening, Progress, Step};
use crate::over::Over;
use crate::process::Server;
use crate::requests::{Era, FIRST_ID, LAST_ID, SESSION_BYTES, Template};

/// Connections that are being opened at one time.
const OPENING_MAX: usize = 128;
/// How long opening all connections, or the answers to the last calls, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Receive buffers of the client: enough for every connection of the largest condition.
const RECEIVE_BUFFERS: u16 = 4096;

/// What to do to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Ignored over pipes: there is one.
    pub(crate) connections: usize,
    /// Calls in flight on each connection.
    pub(crate) depth: usize,
    pub(crate) era: Era,
    pub(crate) message_bytes: usize,
    /// Whether the server speaks MCP, so that a legacy session has to be opened.
    pub(crate) protocol: bool,
    pub(crate) over: Over,
    /// Whether every connection uses a session that another shard of two has, see [`hop`].
    pub(crate) hops: bool,
    pub(crate) warm_up: Duration,
    pub(crate) span: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Answers a second.
    pub(crate) rate: f64,
    /// CPU time of the server process an answer, in microseconds.
    pub(crate) cpu_us: f64,
    /// CPU time of the server process, as a part of one core.
    pub(crate) server_share: f64,
    /// In nanoseconds, see [`Sums::latency`].
    pub(crate) latency: Histogram<u64>,
}

/// Where a measurement begins or ends.
#[derive(Debug)]
pub(crate) struct Mark {
    moment: Moment,
    answered: u64,
    cpu: Duration,
}

impl Mark {
    pub(crate) fn set(moment: Moment, sums: &Sums, server: &Server) -> io::Result<Self> {
        Ok(Self { moment, answered: sums.answered, cpu: server.cpu_time()? })
    }
}

impl Outcome {
    pub(crate) fn between(before: &Mark, after: &Mark, latency: Histogram<u64>) -> Self {
        let seconds = after.moment.since(before.moment).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "counts of one run are small")]
        let answers = (after.answered - before.answered) as f64;
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        Self {
            rate: answers / seconds,
            cpu_us: cpu / answers * 1e6,
            server_share: cpu / seconds,
            latency,
        }
    }
}

#[derive(Debug)]
struct Lane {
    socket: Socket,
    /// While the connection is being opened.
    progress: Option<Box<Progress>>,
    /// The session that its posts name.
    session: Option<[u8; SESSION_BYTES]>,
    /// The requests of `depth` calls, while they are not being sent.
    calls: Option<Vec<u8>>,
    dialogue: Dialogue,
}

/// One run of the load.
struct Client {
    ring: UringRing,
    load: Load,
    opening: Opening,
    template: Template,
    lanes: Vec<Lane>,
    /// From socket to lane.
    places: Vec<u32>,
    now: Moment,
    open: usize,
    /// Calls are made: all connections are open, and the end has not come.
    asking: bool,
    sums: Sums,
}

/// Drives `server` with `load` and measures it.
pub(crate) fn run(server: &Server, load: Load) -> io::Result<Outcome> {
    let mut client = Client::new(load, server.address()?)?;
    let mut completions = Vec::with_capacity(1024);
    client.connect(&mut completions)?;
    client.drive(client.now.after(load.warm_up), &mut completions)?;
    client.sums.latency.reset();
    let before = Mark::set(client.now, &client.sums, server)?;
    client.drive(client.now.after(load.span), &mut completions)?;
    let after = Mark::set(client.now, &client.sums, server)?;
    client.finish(&mut completions)?;
    Ok(Outcome::between(&before, &after, client.sums.latency))
}

impl Client {
    fn new(load: Load, host: SocketAddr) -> io::Result<Self> {
        let options = RingOptions {
            sockets_max: u32::try_from(load.connections).unwrap_or(u32::MAX),
            receive_buffers: RECEIVE_BUFFERS,
            ..RingOptions::default()
        };
        let framing = load.over.framing(load.protocol);
        let has_session = load.protocol && matches!(load.era, Era::Legacy);
        let lane = || Lane {
            socket: Socket(u32::MAX),
            progress: Some(Box::default()),
            session: None,
            calls: None,
            dialogue: Dialogue::new(load.depth, framing),
        };
        let mut ring = UringRing::new(&options, Clock::start())?;
        Ok(Self {
            now: ring.park(Patience::None),
            ring,
            load,
            opening: Opening { host, framing, has_session },
            template: load.over.echo(load.era, load.message_bytes, host),
            lanes: std::iter::repeat_with(lane).take(load.connections).collect(),
            places: Vec::new(),
            open: 0,
            asking: false,
            sums: Sums::new()?,
        })
    }

    /// Opens every connection, and every session where there are sessions. Calls begin when the
    /// server has answered on all of them: one that still waited to be accepted would look slow.
    fn connect(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let address = self.opening.host;
        let deadline = self.now.after(PATIENCE);
        let mut begun = 0;
        while self.open < self.lanes.len() {
            while begun < self.lanes.len().min(self.open + OPENING_MAX) {
                let token = begun as u64;
                self.ring.submit(Operation::Connect { address, from: None, token });
                begun += 1;
            }
            self.turn(deadline, completions)?;
            if self.now >= deadline {
                let open = self.open;
                return Err(io::Error::other(format!("only {open} connections opened")));
            }
        }
        if self.load.hops {
            self.hop()?;
        }
        self.asking = true;
        for index in 0..self.lanes.len() {
            self.ask(index);
        }
        Ok(())
    }

    /// Has every connection use a session of the shard that is not its own. Connections of one
    /// shard may share a session, so their calls are numbered apart.
    fn hop(&mut self) -> io::Result<()> {
        let own: Vec<_> = self.lanes.iter().filter_map(|lane| lane.session).collect();
        let foreign = hop::exchange(&own)?;
        let span = (LAST_ID - FIRST_ID) / own.len() as u64;
        for ((number, lane), session) in (0..).zip(&mut self.lanes).zip(foreign) {
            lane.session = Some(session);
            lane.dialogue.begin_at(FIRST_ID + number * span);
        }
        Ok(())
    }

    fn drive(&mut self, until: Moment, completions: &mut Vec<Completion>) -> io::Result<()> {
        while self.now < until {
            self.turn(until, completions)?;
        }
        Ok(())
    }

    /// Asks no more, waits for the answers that are due and compares the sums.
    fn finish(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.asking = false;
        let deadline = self.now.after(PATIENCE);
        let asked: u64 = self.lanes.iter().map(|lane| lane.dialogue.asked()).sum();
        while self.sums.answered < asked && self.now < deadline {
            self.turn(deadline, completions)?;
        }
        self.sums.balance(asked)
    }

    fn turn(&mut self, until: Moment, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.now = self.ring.park(Patience::For(until.since(self.now)));
        self.ring.reap(completions);
        for completion in completions.drain(..) {
            match completion {
                Completion::Received { socket, lease } => self.receive(socket, lease)?,
                Completion::Sent { socket, buffer, result } => {
                    result?;
                    let index = self.places[socket.index()] as usize;
                    self.lanes[index].calls = Some(buffer);
                    self.ask(index);
                }
                Completion::Connected { token, result } => {
                    let index = usize::try_from(token).map_err(io::Error::other)?;
                    self.connected(index, result?);
                }
                Completion::Ended { .. } => {
                    return Err(io::Error::other("the server closed a connection"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, index: usize, socket: Socket) {
        if self.places.len() <= socket.index() {
            self.places.resize(socket.index() + 1, u32::MAX);
        }
        self.places[socket.index()] = u32::try_from(index).unwrap_or(u32::MAX);
        self.ring.submit(Operation::Receive(socket));
        self.lanes[index].socket = socket;
        let buffer = self.opening.greet(&self.template);
        self.ring.submit(Operation::Send { socket, buffer, from: 0 });
    }

    /// Asks again for every answer that came, where the connection is open and sends nothing.
    #[inline]
    fn ask(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if !lane.dialogue.may_ask() || !self.asking {
            return;
        }
        let Some(mut buffer) = lane.calls.take() else {
            return;
        };
        if lane.dialogue.asked() == 0 {
            // The first calls of this connection.
            buffer = self.template.repeat(self.load.depth);
            if let Some(session) = &lane.session {
                self.template.address(&mut buffer, session);
            }
        }
        let from = lane.dialogue.ask(&self.template, &mut buffer, self.now);
        self.ring.submit(Operation::Send { socket: lane.socket, buffer, from });
    }

    #[inline]
    fn receive(&mut self, socket: Socket, lease: Lease) -> io::Result<()> {
        let index = self.places[socket.index()] as usize;
        let lane = &mut self.lanes[index];
        let bytes = &self.ring.bytes(&lease)[..lease.length as usize];
        if let Some(progress) = &mut lane.progress {
            let step = self.opening.hear(progress, bytes)?;
            self.take(index, step);
        } else {
            lane.dialogue.hear(&self.template, bytes, self.now, &mut self.sums)?;
        }
        self.ring.release(lease);
        self.ask(index);
        Ok(())
    }

    fn take(&mut self, index: usize, step: Step) {
        let lane = &mut self.lanes[index];
        let words = match step {
            Step::Wait => None,
            Step::Say(words) => Some(words),
            Step::Open(words) => {
                lane.session = lane.progress.take().and_then(|progress| progress.session);
                self.open += 1;
                words
            }
        };
        if let Some(buffer) = words {
            // The calls follow when this send has given its buffer back.
            lane.calls = None;
            self.ring.submit(Operation::Send { socket: lane.socket, buffer, from: 0 });
        }
    }
}
