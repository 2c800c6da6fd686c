//! An open loop: a fixed rate of requests, independent of responses, and their latencies.
//!
//! Each request has a due time. Its latency starts there, so it includes the wait for a free
//! connection or a late send. The loop never sleeps, because a kernel timer would be about 50 µs
//! late. Each second has its own histogram, which separates interference of the machine.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_bench_support::requests::{FIRST_ID, META, RequestTemplate, modern_fields, post};
use corelane_bench_support::responses::{Response, ResponseTemplate};
use corelane_engine::clock::Clock;
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions, Socket};
use hdrhistogram::Histogram;
use serde_json::Value;

/// Number of connections.
pub(crate) const CONNECTIONS: u32 = 64;
/// Timeout for connections and for the delay behind the schedule.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
const LATENCY_NANOSECONDS_MAX: u64 = 60_000_000_000;

/// Parameters of the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenLoop {
    /// Requests per second.
    pub(crate) rate: u32,
    /// Requests of the warm-up, not measured.
    pub(crate) warm_up: u32,
    /// Seconds of measured requests after the warm-up.
    pub(crate) seconds: u32,
}

/// One connection of the loop.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// Due time of the request in flight.
    due: Instant,
    answered: u64,
    request: Option<Vec<u8>>,
    received: Vec<u8>,
}

struct Client {
    ring: UringRing,
    clock: Clock,
    template: RequestTemplate,
    connections: Vec<Connection>,
    /// Connection index by socket.
    connection_by_socket: Vec<usize>,
    /// Connections without a request in flight, the longest idle first.
    idle: VecDeque<usize>,
    response_template: Option<ResponseTemplate>,
    answered: u64,
    config: OpenLoop,
    /// Latencies of each second, in nanoseconds.
    seconds: Vec<Histogram<u64>>,
}

/// Sends `tools/list` to the server at `host`; returns for each second the nanoseconds from the due
/// time of a request to the end of its response.
pub(crate) fn run(
    host: SocketAddr,
    clock: Clock,
    config: OpenLoop,
) -> io::Result<Vec<Histogram<u64>>> {
    let mut client = Client::connect(host, clock, config)?;
    let start = clock.now();
    let total = config.warm_up + config.rate * config.seconds;
    let mut sent = 0;
    while client.answered < u64::from(total) {
        let now = clock.now();
        let mut due = start.after(Duration::from_secs(1) / config.rate * sent);
        while sent < total && due <= now && client.send(due) {
            sent += 1;
            due = start.after(Duration::from_secs(1) / config.rate * sent);
        }
        if now.since(due) > WAIT_TIMEOUT {
            return Err(io::Error::other("the server is more than 10 s behind the schedule"));
        }
        client.turn()?;
    }
    Ok(client.seconds)
}

impl Client {
    fn connect(host: SocketAddr, clock: Clock, config: OpenLoop) -> io::Result<Self> {
        let options = RingOptions { sockets_max: CONNECTIONS, ..RingOptions::default() };
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, 3);
        let seconds: Result<_, _> = (0..config.seconds).map(|_| histogram()).collect();
        let mut client = Self {
            ring: UringRing::new(&options, clock)?,
            clock,
            template: list_request(host),
            connections: Vec::new(),
            connection_by_socket: Vec::new(),
            idle: VecDeque::new(),
            response_template: None,
            answered: 0,
            config,
            seconds: seconds.map_err(io::Error::other)?,
        };
        for token in 0..u64::from(CONNECTIONS) {
            client.ring.submit(Operation::Connect {
                address: host,
                local_address: None,
                keepalive: false,
                token,
            });
        }
        let deadline = clock.now().after(WAIT_TIMEOUT);
        while client.connections.len() < CONNECTIONS as usize {
            client.turn()?;
            if clock.now() > deadline {
                return Err(io::Error::other(
                    "timeout while opening the connections of the open loop",
                ));
            }
        }
        Ok(client)
    }

    /// Sends a request that is due; returns whether a connection was free.
    fn send(&mut self, due: Instant) -> bool {
        let Some(index) = self.idle.pop_front() else { return false };
        let connection = &mut self.connections[index];
        let mut buffer = connection.request.take().unwrap_or_else(|| self.template.repeat(1));
        self.template.set_id(&mut buffer, 0, FIRST_ID + connection.answered);
        connection.due = due;
        self.ring.submit(Operation::Send { socket: connection.socket, buffer, offset: 0 });
        true
    }

    fn turn(&mut self) -> io::Result<()> {
        self.ring.park(ParkTimeout::Zero);
        let mut completions = Vec::new();
        self.ring.reap(&mut completions);
        for completion in completions {
            match completion {
                Completion::Connected { result, .. } => self.connected(result?),
                Completion::Received { socket, buffer } => {
                    let index = self.connection_by_socket[socket.index()];
                    let bytes = &self.ring.bytes(&buffer)[..buffer.len as usize];
                    self.connections[index].received.extend_from_slice(bytes);
                    self.ring.release(buffer);
                    self.receive(index)?;
                }
                Completion::Sent { socket, buffer, result } => {
                    result?;
                    self.connections[self.connection_by_socket[socket.index()]].request =
                        Some(buffer);
                }
                Completion::EndOfStream { .. } => {
                    return Err(io::Error::other("the server closed a connection"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, socket: Socket) {
        if self.connection_by_socket.len() <= socket.index() {
            self.connection_by_socket.resize(socket.index() + 1, usize::MAX);
        }
        self.connection_by_socket[socket.index()] = self.connections.len();
        self.idle.push_back(self.connections.len());
        self.ring.submit(Operation::Receive(socket));
        let (due, received) = (Instant::ORIGIN, Vec::new());
        self.connections.push(Connection { socket, due, answered: 0, request: None, received });
    }

    /// Handles the response if it is complete.
    fn receive(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let id = FIRST_ID + connection.answered;
        let matched = self
            .response_template
            .as_ref()
            .and_then(|known| known.matches(&connection.received, id));
        let length = if let Some(length) = matched {
            length
        } else {
            let Some(response) = Response::read(&connection.received)? else { return Ok(()) };
            response.expect(200)?;
            check(response.body, id)?;
            self.response_template = Some(ResponseTemplate::new(&response, id)?);
            response.bytes()
        };
        if length != connection.received.len() {
            return Err(io::Error::other("more than one response to a request"));
        }
        connection.received.clear();
        connection.answered += 1;
        self.idle.push_back(index);
        let counted = self.answered.checked_sub(u64::from(self.config.warm_up));
        let second = counted.map(|counted| counted / u64::from(self.config.rate));
        self.answered += 1;
        if let Some(second) = second.and_then(|second| usize::try_from(second).ok())
            && let Some(histogram) = self.seconds.get_mut(second)
        {
            let span = u64::try_from(self.clock.now().since(connection.due).as_nanos());
            histogram.saturating_record(span.unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// Returns a modern `tools/list` as a POST request to `host`.
fn list_request(host: SocketAddr) -> RequestTemplate {
    let meta = META.trim_start_matches(',');
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"tools/list","params":{{{meta}}}}}"#);
    RequestTemplate::new(post(host, &modern_fields("tools/list", None), &body))
}

/// Checks that the response has this id and a list of tools.
fn check(body: &[u8], id: u64) -> io::Result<()> {
    let response: Value = serde_json::from_slice(body)?;
    let has_tools = response["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    if response["id"].as_u64() == Some(id) && has_tools {
        return Ok(());
    }
    Err(io::Error::other(format!("wrong response to request {id}: {response}")))
}
