//! A server whose behaviour is known exactly, and that logs every call itself.
//!
//! Calls wait in one queue for the workers; a worker takes the service time for each. The times at
//! which calls complete are computed from their arrivals, so that the capacity is
//! `workers / service_time` however late the threads of the server run.

#![expect(clippy::disallowed_types, reason = "its threads share the log")]

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_load::target::Transport;
use corelane_test_support::TIMEOUT;
use serde_json::{Value, json};

use super::framing::{Input, InputReader, add_session, frame};

/// What a server does with calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerModel {
    /// How messages are framed. Over stdio the programs of the connections share this server.
    pub(crate) transport: Transport,
    /// Calls that are executed at a time.
    pub(crate) workers: usize,
    /// Time that a call takes.
    pub(crate) service_time: Duration,
    /// When progress of a call with a token is sent, from its begin; not over HTTP.
    pub(crate) progress_at: Option<Duration>,
    /// Each call with this number, from 1, or a multiple of it is never answered.
    pub(crate) lost_each: Option<usize>,
    /// The answer to a lost call is sent when the call is cancelled.
    pub(crate) answers_cancelled: bool,
    /// Each `initialize` with this number, from 1, or a multiple of it is never answered.
    pub(crate) lost_handshakes_each: Option<usize>,
    /// No call begins from the first of these times to the second, counted from the first call.
    pub(crate) stall: Option<[Duration; 2]>,
}

impl Default for ServerModel {
    /// Returns a server over TCP with one worker that takes 10 ms for a call.
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            workers: 1,
            service_time: Duration::from_millis(10),
            progress_at: None,
            lost_each: None,
            answers_cancelled: false,
            lost_handshakes_each: None,
            stall: None,
        }
    }
}

/// A running server; runs until the end of the test program.
#[derive(Debug)]
pub(crate) struct TruthServer {
    model: ServerModel,
    address: SocketAddr,
    shared: Arc<SharedState>,
}

#[derive(Debug)]
struct SharedState {
    model: ServerModel,
    clock: Clock,
    calls: Mutex<Calls>,
    /// Notified when a connection has ended.
    ended: Condvar,
}

/// Times of a call.
#[derive(Clone, Copy, Debug)]
struct CallTimes {
    arrived: Instant,
    answered: Option<Instant>,
}

/// A call that is not answered.
#[derive(Debug)]
struct LostCall {
    id: u64,
    answer: Vec<u8>,
}

/// What a server has counted besides calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ServerCounts {
    /// Connections that were accepted.
    pub(crate) connections: usize,
    /// `initialize` requests.
    pub(crate) handshakes: usize,
    /// Calls with the id of the session, over HTTP.
    pub(crate) in_session: usize,
    /// Calls that were cancelled.
    pub(crate) cancelled: usize,
}

/// The log, and the queue of calls.
#[derive(Debug)]
struct Calls {
    log: Vec<CallTimes>,
    lost: Vec<LostCall>,
    /// Connections that are open.
    open: usize,
    counts: ServerCounts,
    /// When each worker is free.
    free_at: Vec<Instant>,
    answers: Sender<Answer>,
}

/// An answer that is due.
#[derive(Debug)]
struct Answer {
    /// Its call in the log.
    call: usize,
    due: Instant,
    bytes: Vec<u8>,
    stream: Arc<TcpStream>,
}

impl ServerModel {
    /// Returns when a call begins that a worker could begin at `at`.
    fn begin_at(&self, at: Instant, first: Instant) -> Instant {
        match self.stall {
            Some([from, until]) if at >= first.after(from) => at.max(first.after(until)),
            _ => at,
        }
    }
}

impl TruthServer {
    /// Starts a server.
    pub(crate) fn start(model: ServerModel) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answers, due_answers) = channel();
        let free_at = vec![Instant::ORIGIN; model.workers];
        let calls = Mutex::new(Calls {
            log: Vec::new(),
            lost: Vec::new(),
            open: 0,
            counts: ServerCounts::default(),
            free_at,
            answers,
        });
        let (clock, ended) = (Clock::start(), Condvar::new());
        let shared = Arc::new(SharedState { model, clock, calls, ended });
        let (accepting, answering) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::spawn(move || answering.send_answers(&due_answers));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let serving = Arc::clone(&accepting);
                serving.calls().open += 1;
                thread::spawn(move || {
                    serving.serve(stream);
                    serving.calls().open -= 1;
                    serving.ended.notify_all();
                });
            }
        });
        Self { model, address, shared }
    }

    /// Returns the target of the load generator.
    pub(crate) fn target(&self) -> String {
        let (host, port) = (self.address.ip(), self.address.port());
        match self.model.transport {
            Transport::Http => format!("http://{}/mcp", self.address),
            Transport::WebSocket => format!("ws://{}/mcp", self.address),
            // A program for each connection, which copies both directions.
            Transport::Stdio => format!(
                "stdio:bash -c 'exec 3<>/dev/tcp/{host}/{port}; cat <&3 & cat >&3; kill $!'"
            ),
            Transport::Tcp => format!("tcp://{}", self.address),
        }
    }

    /// Returns the calls a second that the server can answer.
    pub(crate) fn capacity(&self) -> f64 {
        f64::from(u32::try_from(self.model.workers).unwrap())
            / self.model.service_time.as_secs_f64()
    }

    /// Returns the number of calls that arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.shared.calls().log.len()
    }

    /// Returns what was counted besides calls, once all connections have ended.
    pub(crate) fn counts(&self) -> ServerCounts {
        let calls = self.shared.calls();
        let ended = self.shared.ended.wait_timeout_while(calls, TIMEOUT, |calls| calls.open > 0);
        ended.unwrap().0.counts
    }

    /// Returns the number of calls that were answered in this time, counted from the arrival of the
    /// first call.
    pub(crate) fn answered_within(&self, from: Duration, until: Duration) -> u32 {
        let calls = self.shared.calls();
        let Some(first) = calls.log.first().map(|call| call.arrived) else { return 0 };
        let times = first.after(from)..first.after(until);
        let answered = calls.log.iter().filter_map(|call| call.answered);
        u32::try_from(answered.filter(|answered| times.contains(answered)).count()).unwrap()
    }
}

impl SharedState {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap()
    }

    /// Sends the answers when they are due.
    fn send_answers(&self, answers: &Receiver<Answer>) {
        // They are in the order of their times: all calls take the same time, and progress of calls
        // is that of one worker.
        for Answer { call, due, bytes, stream } in answers {
            while self.clock.now() < due {
                thread::park_timeout(due.since(self.clock.now()));
            }
            self.calls().log[call].answered = Some(self.clock.now());
            // The client may have closed the connection.
            (&*stream).write_all(&bytes).ok();
        }
    }

    /// Serves a connection to its end.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let transport = self.model.transport;
        let mut reader = InputReader::new(transport, stream.try_clone().ok()?);
        let stream = Arc::new(stream);
        self.calls().counts.connections += 1;
        loop {
            let message: Value = match reader.next()? {
                Input::Message(text) => serde_json::from_slice(&text).ok()?,
                Input::Upgrade(response) => {
                    (&*stream).write_all(response.as_bytes()).ok()?;
                    continue;
                }
                Input::OtherRequest => {
                    let refusal = b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n";
                    (&*stream).write_all(refusal).ok()?;
                    continue;
                }
            };
            if message["method"] == "tools/call" {
                self.calls().counts.in_session += usize::from(reader.is_in_session);
                self.queue_call(&message, &stream);
            } else if message["method"] == "notifications/cancelled" {
                self.cancel(&message, &stream);
            } else if let Some(bytes) = self.respond(&message) {
                (&*stream).write_all(&bytes).ok()?;
            }
        }
    }

    /// Counts a cancellation, and answers its call.
    fn cancel(&self, notification: &Value, mut stream: &TcpStream) {
        let mut calls = self.calls();
        calls.counts.cancelled += 1;
        let id = notification["params"]["requestId"].as_u64().unwrap();
        let place = calls.lost.iter().position(|call| call.id == id).unwrap();
        let answer = calls.lost.swap_remove(place).answer;
        if self.model.answers_cancelled {
            stream.write_all(&answer).ok();
        }
    }

    /// Adds a call to the log and to the queue.
    fn queue_call(&self, message: &Value, stream: &Arc<TcpStream>) {
        let text = &message["params"]["arguments"]["message"];
        let bytes = self.frame(message, &json!({ "content": [{ "type": "text", "text": text }] }));
        let mut calls = self.calls();
        let arrived = self.clock.now();
        calls.log.push(CallTimes { arrived, answered: None });
        let number = calls.log.len();
        let first = calls.log[0].arrived;
        let free_at = calls.free_at.iter_mut().min().unwrap();
        let begin = self.model.begin_at(arrived.max(*free_at), first);
        *free_at = begin.after(self.model.service_time);
        if self.model.lost_each.is_some_and(|each| number.is_multiple_of(each)) {
            let id = message["id"].as_u64().unwrap();
            calls.lost.push(LostCall { id, answer: bytes });
            return;
        }
        let token = &message["params"]["_meta"]["progressToken"];
        if let Some(at) = self.model.progress_at.filter(|_| token.is_u64()) {
            let params = json!({ "progressToken": token, "progress": 1 });
            let bytes = self.encode(&json!({
                "jsonrpc": "2.0", "method": "notifications/progress", "params": params,
            }));
            let stream = Arc::clone(stream);
            let progress = Answer { call: number - 1, due: begin.after(at), bytes, stream };
            calls.answers.send(progress).unwrap();
        }
        let due = begin.after(self.model.service_time);
        let answer = Answer { call: number - 1, due, bytes, stream: Arc::clone(stream) };
        calls.answers.send(answer).unwrap();
    }

    /// Returns the response to a message that is no call; `None` for a notification over TCP.
    fn respond(&self, message: &Value) -> Option<Vec<u8>> {
        if message.get("id").is_none() {
            let accepted = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec();
            return Some(accepted).filter(|_| self.model.transport == Transport::Http);
        }
        let tool = json!({ "name": "echo", "inputSchema": {
            "type": "object",
            "properties": { "message": { "type": "string" } },
            "required": ["message"],
        } });
        let result = match message["method"].as_str()? {
            "initialize" => return self.initialize(message),
            "tools/list" => json!({ "tools": [tool] }),
            "ping" => json!({}),
            _ => {
                let error = json!({ "code": -32_601, "message": "method not found" });
                return Some(
                    self.encode(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })),
                );
            }
        };
        Some(self.frame(message, &result))
    }

    fn initialize(&self, request: &Value) -> Option<Vec<u8>> {
        let mut calls = self.calls();
        calls.counts.handshakes += 1;
        let number = calls.counts.handshakes;
        if self.model.lost_handshakes_each.is_some_and(|each| number.is_multiple_of(each)) {
            return None;
        }
        let response = self.frame(
            request,
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "truth", "version": "1" },
            }),
        );
        Some(match self.model.transport {
            Transport::Http => add_session(response),
            _ => response,
        })
    }

    fn frame(&self, request: &Value, result: &Value) -> Vec<u8> {
        self.encode(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
    }

    fn encode(&self, message: &Value) -> Vec<u8> {
        frame(self.model.transport, &message.to_string())
    }
}
