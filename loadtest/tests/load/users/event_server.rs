//! An HTTP server with sessions, each of which may have an event stream.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

/// What the server does with event streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamModel {
    /// Answers with this status.
    Refuses(&'static str),
    /// Opens streams. On the stream of its session each request is preceded by a notification.
    Notifies,
    /// Sends a ping on each stream, and ends the stream when it is answered.
    PingsAndEnds,
    /// Refuses the stream of the first session with status 404, and opens others.
    ForgetsFirst,
    /// Opens streams; each request but the first of a session is answered with status 404.
    EndsSessions,
}

/// What the server was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    /// Requests of each session.
    pub(crate) requests: BTreeMap<String, u64>,
    /// Event streams that were requested, by session.
    pub(crate) streams: BTreeMap<String, u64>,
    /// Results of pings.
    pub(crate) pongs: u64,
    /// Sessions that clients deleted.
    pub(crate) deleted: u64,
    /// Requests of an unknown session.
    pub(crate) mistakes: Vec<String>,
}

#[derive(Default)]
struct SharedState {
    log: EventLog,
    streams: BTreeMap<String, TcpStream>,
}

/// The server; runs until the end of the test program.
#[derive(Clone)]
pub(crate) struct EventServer {
    model: StreamModel,
    address: SocketAddr,
    state: Arc<Mutex<SharedState>>,
}

impl EventServer {
    pub(crate) fn start(model: StreamModel) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { model, address, state: Arc::default() };
        let shared = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, server) = (stream.unwrap(), shared.clone());
                std::thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub(crate) fn target(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what the server was asked so far.
    pub(crate) fn log(&self) -> EventLog {
        self.lock().log.clone()
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap()
    }

    /// Serves a connection until it closes.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let (mut verb, mut session, mut length) = (String::new(), String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                if verb.is_empty() {
                    line.split(' ').next()?.clone_into(&mut verb);
                }
                let (name, value) = line.trim_end().split_once(": ").unwrap_or_default();
                match &*name.to_ascii_lowercase() {
                    "content-length" => length = value.parse().ok()?,
                    "mcp-session-id" => value.clone_into(&mut session),
                    _ => {}
                }
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let answer = match &*verb {
                "GET" => self.open_stream(&session, &stream),
                "DELETE" => {
                    self.lock().log.deleted += 1;
                    empty("204 No Content")
                }
                _ => self.answer(&session, &serde_json::from_slice(&body).ok()?),
            };
            stream.write_all(answer.as_bytes()).ok()?;
        }
    }

    fn open_stream(&self, session: &str, stream: &TcpStream) -> String {
        let mut state = self.lock();
        if !state.log.requests.contains_key(session) {
            state.log.mistakes.push(format!("GET of {session}"));
        }
        *state.log.streams.entry(session.to_owned()).or_default() += 1;
        if let StreamModel::Refuses(status) = self.model {
            return empty(status);
        }
        if self.model == StreamModel::ForgetsFirst && session == "s0" {
            return empty("404 Not Found");
        }
        state.streams.insert(session.to_owned(), stream.try_clone().unwrap());
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n";
        let ping = event(&json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" }));
        let pings = self.model == StreamModel::PingsAndEnds;
        [head, if pings { &ping } else { "" }].concat()
    }

    fn answer(&self, session: &str, message: &Value) -> String {
        let mut state = self.lock();
        if message["method"] == "initialize" {
            let session = format!("s{}", state.log.requests.len());
            state.log.requests.insert(session.clone(), 0);
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": { "name": "streams", "version": "1" } });
            let text = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            return response(&format!("Mcp-Session-Id: {session}\r\n"), &text);
        }
        if message.get("result").is_some() {
            state.log.pongs += 1;
            if let Some(stream) = state.streams.remove(session) {
                // The client may have closed it.
                stream.shutdown(Shutdown::Write).ok();
            }
            return empty("202 Accepted");
        }
        if message.get("id").is_none() {
            return empty("202 Accepted");
        }
        let Some(count) = state.log.requests.get_mut(session) else {
            state.log.mistakes.push(format!("{message} of {session}"));
            return empty("404 Not Found");
        };
        *count += 1;
        if self.model == StreamModel::EndsSessions && *count > 1 {
            return empty("404 Not Found");
        }
        if self.model == StreamModel::Notifies
            && let Some(stream) = state.streams.get_mut(session)
        {
            let method = "notifications/message";
            let notification = event(&json!({ "jsonrpc": "2.0", "method": method }));
            stream.write_all(notification.as_bytes()).ok();
        }
        response("", &json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} }))
    }
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn empty(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
}

fn response(fields: &str, message: &Value) -> String {
    let text = message.to_string();
    format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n\
         {text}",
        text.len()
    )
}
