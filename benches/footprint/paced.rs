//! An open loop: so many requests a second, whatever becomes of them, and how long each took.
//!
//! A request is due at its own moment. Its time runs from there, so one that finds every
//! connection busy, or that is sent late, counts with all that it waited. The loop never sleeps:
//! a timer of the kernel would come some 50 µs late. Each second has a histogram of its own,
//! because whatever else the machine does in one of them is in the tail of all.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions, Socket};
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::requests::{FIRST_ID, Template};
use crate::responses::{Model, Response};

/// Connections that take turns.
pub(crate) const CONNECTIONS: u32 = 64;
/// Answers are not waited for any longer than this.
const PATIENCE: Duration = Duration::from_secs(10);
const LATENCY_NANOSECONDS_MAX: u64 = 60_000_000_000;

/// What to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Requests a second.
    pub(crate) rate: u32,
    /// Whose times are not counted, first.
    pub(crate) warm_up: u32,
    /// Whose times are counted, afterwards.
    pub(crate) seconds: u32,
}

/// One connection of the loop.
#[derive(Debug)]
struct Lane {
    socket: Socket,
    /// When the request in flight was due.
    due: Moment,
    answered: u64,
    request: Option<Vec<u8>>,
    heard: Vec<u8>,
}

struct Client {
    ring: UringRing,
    clock: Clock,
    template: Template,
    lanes: Vec<Lane>,
    /// From socket to lane.
    places: Vec<usize>,
    /// Lanes without a request in flight, the one that has had none for longest first.
    idle: VecDeque<usize>,
    model: Option<Model>,
    answered: u64,
    pace: Pace,
    /// Of every second, in nanoseconds.
    seconds: Vec<Histogram<u64>>,
}

/// Asks the server at `host` for its tools at this pace; returns, for every second, the nanoseconds
/// from the moment at which each request was due to the end of its answer.
pub(crate) fn run(host: SocketAddr, clock: Clock, pace: Pace) -> io::Result<Vec<Histogram<u64>>> {
    let mut client = Client::connect(host, clock, pace)?;
    let start = clock.now();
    let all = pace.warm_up + pace.rate * pace.seconds;
    let mut asked = 0;
    while client.answered < u64::from(all) {
        let now = clock.now();
        let mut due = start.after(Duration::from_secs(1) / pace.rate * asked);
        while asked < all && due <= now && client.ask(due) {
            asked += 1;
            due = start.after(Duration::from_secs(1) / pace.rate * asked);
        }
        if now.since(due) > PATIENCE {
            return Err(io::Error::other("the server is more than 10 s behind"));
        }
        client.turn()?;
    }
    Ok(client.seconds)
}

impl Client {
    fn connect(host: SocketAddr, clock: Clock, pace: Pace) -> io::Result<Self> {
        let options = RingOptions { sockets_max: CONNECTIONS, ..RingOptions::default() };
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, 3);
        let seconds: Result<_, _> = (0..pace.seconds).map(|_| histogram()).collect();
        let mut client = Self {
            ring: UringRing::new(&options, clock)?,
            clock,
            template: Template::list_post(host),
            lanes: Vec::new(),
            places: Vec::new(),
            idle: VecDeque::new(),
            model: None,
            answered: 0,
            pace,
            seconds: seconds.map_err(io::Error::other)?,
        };
        for token in 0..u64::from(CONNECTIONS) {
            client.ring.submit(Operation::Connect { address: host, from: None, token });
        }
        let deadline = clock.now().after(PATIENCE);
        while client.lanes.len() < CONNECTIONS as usize {
            client.turn()?;
            if clock.now() > deadline {
                return Err(io::Error::other("the connections of the open loop did not open"));
            }
        }
        Ok(client)
    }

    /// Sends a request that is due, where a connection is free.
    fn ask(&mut self, due: Moment) -> bool {
        let Some(index) = self.idle.pop_front() else { return false };
        let lane = &mut self.lanes[index];
        let mut buffer = lane.request.take().unwrap_or_else(|| self.template.repeat(1));
        self.template.number(&mut buffer, 0, FIRST_ID + lane.answered);
        lane.due = due;
        self.ring.submit(Operation::Send { socket: lane.socket, buffer, from: 0 });
        true
    }

    fn turn(&mut self) -> io::Result<()> {
        self.ring.park(Patience::None);
        let mut completions = Vec::new();
        self.ring.reap(&mut completions);
        for completion in completions {
            match completion {
                Completion::Connected { result, .. } => self.connected(result?),
                Completion::Received { socket, lease } => {
                    let index = self.places[socket.index()];
                    let bytes = &self.ring.bytes(&lease)[..lease.length as usize];
                    self.lanes[index].heard.extend_from_slice(bytes);
                    self.ring.release(lease);
                    self.hear(index)?;
                }
                Completion::Sent { socket, buffer, result } => {
                    result?;
                    self.lanes[self.places[socket.index()]].request = Some(buffer);
                }
                Completion::Ended { .. } => {
                    return Err(io::Error::other("the server closed a connection"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, socket: Socket) {
        if self.places.len() <= socket.index() {
            self.places.resize(socket.index() + 1, usize::MAX);
        }
        self.places[socket.index()] = self.lanes.len();
        self.idle.push_back(self.lanes.len());
        self.ring.submit(Operation::Receive(socket));
        let (due, heard) = (Moment::ORIGIN, Vec::new());
        self.lanes.push(Lane { socket, due, answered: 0, request: None, heard });
    }

    /// Takes the answer, where it is all there.
    fn hear(&mut self, index: usize) -> io::Result<()> {
        let lane = &mut self.lanes[index];
        let id = FIRST_ID + lane.answered;
        let known = self.model.as_ref().and_then(|model| model.accept(&lane.heard, id));
        let length = if let Some(length) = known {
            length
        } else {
            let Some(response) = Response::read(&lane.heard)? else { return Ok(()) };
            response.expect(200)?;
            check(response.body, id)?;
            self.model = Some(Model::new(&response, id)?);
            response.bytes()
        };
        if length != lane.heard.len() {
            return Err(io::Error::other("more than one answer to a request"));
        }
        lane.heard.clear();
        lane.answered += 1;
        self.idle.push_back(index);
        let counted = self.answered.checked_sub(u64::from(self.pace.warm_up));
        let second = counted.map(|counted| counted / u64::from(self.pace.rate));
        self.answered += 1;
        if let Some(second) = second.and_then(|second| usize::try_from(second).ok())
            && let Some(histogram) = self.seconds.get_mut(second)
        {
            let span = u64::try_from(self.clock.now().since(lane.due).as_nanos());
            histogram.saturating_record(span.unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// The answer must be a list of tools with this id.
fn check(body: &[u8], id: u64) -> io::Result<()> {
    let answer: Value = serde_json::from_slice(body)?;
    let has_tools = answer["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    if answer["id"].as_u64() == Some(id) && has_tools {
        return Ok(());
    }
    Err(io::Error::other(format!("the request {id} got a wrong answer: {answer}")))
}
