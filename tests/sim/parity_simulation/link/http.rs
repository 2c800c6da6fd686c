//! The connections of a client over HTTP: posted messages, and the event stream of its session.
//!
//! Checks that each request has one response with the status of its message, and that each event
//! has the name and the id of its message.

use corelane_base::random::Random;
use corelane_engine::ring::sim::World;
use corelane_parity::error::ErrorCode;
use serde_json::Value;

use super::http_reader::{Head, HttpReader, Part};
use super::{Outgoing, Reading};
use crate::harness::socket::ClientSocket;
use crate::parity_simulation::server::HTTP_ADDRESS;

/// All connections of a client.
#[derive(Debug, Default)]
pub(crate) struct HttpLink {
    session: Option<String>,
    /// `Authorization` of each request, if there is one.
    authorization: String,
    connections: Vec<HttpConnection>,
    reading: Option<Reading>,
    /// A connection ended before its response, or the event stream ended.
    pub(super) is_broken: bool,
    /// Connections that ended before their event stream of the session began.
    lost_events: usize,
}

/// One connection.
#[derive(Debug)]
struct HttpConnection {
    socket: ClientSocket,
    reader: HttpReader,
    /// The request without a complete response.
    request: Option<RequestKind>,
    head: Option<Head>,
    closes: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequestKind {
    Post,
    /// The event stream of the session.
    Events,
    /// A handshake that the event stream answers.
    Query,
    Delete,
    /// An incomplete one.
    Half,
}

impl HttpLink {
    /// Sends this token with each request.
    pub(crate) fn set_token(&mut self, token: &str) {
        self.authorization = format!("Authorization: Bearer {token}\r\n");
    }

    pub(super) fn post(&mut self, message: Outgoing<'_>, world: &World, random: &mut Random) {
        let body = message.text;
        let accept = if message.accepts_events { "text/event-stream" } else { "application/json" };
        let session = self.session.as_ref().filter(|_| !message.is_first);
        let session = session.map_or_else(String::new, |id| format!("Mcp-Session-Id: {id}\r\n"));
        let text = format!(
            "POST /parity HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n{session}\
             {}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.authorization,
            body.len()
        );
        let is_idle = |it: &HttpConnection| it.request.is_none() && !it.closes;
        let idle = self.connections.iter().position(is_idle).filter(|_| random.chance(1, 2));
        let index = idle.unwrap_or_else(|| self.connect(world));
        self.start(index, RequestKind::Post, &text);
    }

    pub(super) fn post_half(&mut self, text: &str, world: &World) {
        let index = self.connect(world);
        let text = format!(
            "POST /parity HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{}",
            text.len(),
            &text[..text.len() / 2]
        );
        self.start(index, RequestKind::Half, &text);
    }

    pub(super) fn open_events(&mut self, query: Option<&str>, world: &World) {
        let kind = if query.is_some() { RequestKind::Query } else { RequestKind::Events };
        let session = self.session.as_ref().filter(|_| query.is_none());
        let session = session.map_or_else(String::new, |id| format!("Mcp-Session-Id: {id}\r\n"));
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let index = self.connect(world);
        let text = format!(
            "GET /parity/events{query} HTTP/1.1\r\nHost: localhost\r\n\
             Accept: text/event-stream\r\n{session}{}\r\n",
            self.authorization
        );
        self.start(index, kind, &text);
    }

    pub(super) fn end_session(&mut self, world: &World) {
        let Some(id) = &self.session else { return };
        let text = format!(
            "DELETE /parity HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {id}\r\n{}\r\n",
            self.authorization
        );
        let index = self.connect(world);
        self.start(index, RequestKind::Delete, &text);
    }

    fn connect(&mut self, world: &World) -> usize {
        let socket = ClientSocket::stream(world.connect(HTTP_ADDRESS));
        self.reading.unwrap_or(Reading::Eager).apply(&socket);
        let reader = HttpReader::default();
        let connection =
            HttpConnection { socket, reader, request: None, head: None, closes: false };
        self.connections.push(connection);
        self.connections.len() - 1
    }

    fn start(&mut self, index: usize, kind: RequestKind, text: &str) {
        let connection = &mut self.connections[index];
        connection.request = Some(kind);
        connection.socket.write(text.as_bytes());
    }

    /// Takes the messages that have arrived.
    pub(super) fn receive(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let mut messages = Vec::new();
        let mut index = 0;
        while index < self.connections.len() {
            let connection = &mut self.connections[index];
            connection.reader.feed(&connection.socket.take_received());
            while let Some(part) = connection.reader.next_part()? {
                let (message, ends) = connection.check_part(part, &mut self.session)?;
                messages.extend(message);
                self.is_broken |= ends;
            }
            if connection.socket.is_reset() || connection.socket.has_ended() {
                self.is_broken |=
                    connection.request.is_some_and(|request| request != RequestKind::Half);
                self.lost_events += usize::from(connection.may_attach_events());
                connection.socket.close();
                self.connections.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(messages)
    }

    pub(super) fn owes_responses(&self) -> bool {
        let owes = |it: &HttpConnection| {
            matches!(it.request, Some(RequestKind::Post | RequestKind::Delete))
        };
        self.connections.iter().any(owes)
    }

    pub(super) fn has_events(&self) -> bool {
        self.connections.iter().any(HttpConnection::has_events)
    }

    /// Returns the number of requests for the event stream of the session that the server may not
    /// have read.
    pub(super) fn unread_events(&self) -> usize {
        let unread = self.connections.iter().filter(|it| it.may_attach_events());
        unread.count() + self.lost_events
    }

    pub(super) fn read(&mut self, reading: Reading) {
        self.reading = Some(reading);
        for connection in &self.connections {
            reading.apply(&connection.socket);
        }
    }

    pub(super) fn describe(&self) -> String {
        let connection = |it: &HttpConnection| {
            format!("{} {:?} {}", it.socket.address(), it.request, it.reader.describe())
        };
        let connections: Vec<_> = self.connections.iter().map(connection).collect();
        format!("HTTP {:?}, broken {}, {connections:?}", self.session, self.is_broken)
    }

    pub(super) fn close(&mut self, resets: bool) {
        for HttpConnection { socket, .. } in self.connections.drain(..) {
            if resets { socket.reset() } else { socket.close() }
        }
    }
}

impl HttpConnection {
    fn has_events(&self) -> bool {
        matches!(self.request, Some(RequestKind::Events | RequestKind::Query))
    }

    /// Returns whether the server may attach its event stream to the session from now on.
    fn may_attach_events(&self) -> bool {
        self.request == Some(RequestKind::Events) && self.head.is_none()
    }

    /// Checks a part; returns its message, and whether the event stream has ended.
    fn check_part(
        &mut self,
        part: Part,
        session: &mut Option<String>,
    ) -> Result<(Option<Vec<u8>>, bool), String> {
        match part {
            Part::Head(head) => {
                if self.request.is_none() || self.head.is_some() {
                    return Err(format!("a second response: {head:?}"));
                }
                if let Some(id) = &head.session {
                    session.clone_from(&Some(id.clone()));
                }
                self.closes |= head.closes;
                self.head = Some(head);
                Ok((None, false))
            }
            Part::Body(body) => {
                let status = self.head.take().map_or(0, |head| head.status);
                let was_events = self.has_events();
                let request = self.request.take();
                if body.is_empty() {
                    let expected = if request == Some(RequestKind::Delete) { 204 } else { 202 };
                    let is_right = status == expected || status >= 400;
                    let problem = format!("status {status} without body to {request:?}");
                    return if is_right { Ok((None, false)) } else { Err(problem) };
                }
                if is_connection_refusal(status, &body) {
                    return Ok((None, true));
                }
                check_status(status, &body)?;
                // The event stream was refused.
                Ok((Some(body), was_events))
            }
            Part::Event(name, id, data) => {
                check_event(&name, id.as_deref(), &data)?;
                Ok((Some(data).filter(|data| !data.is_empty()), false))
            }
            Part::End => {
                let was_events = self.has_events();
                (self.head, self.request) = (None, None);
                Ok((None, was_events))
            }
        }
    }
}

/// Returns whether a server that drains has refused the connection before it read a request, so
/// that it does not know the dialect of the client.
fn is_connection_refusal(status: u16, body: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    status == 503 && message["jsonrpc"] == "2.0" && message["error"]["code"] == 1001
}

/// Checks that the status is that of the message.
fn check_status(status: u16, body: &[u8]) -> Result<(), String> {
    let message: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let error = &message["error"];
    let is_right = match error["code"].as_str().and_then(ErrorCode::parse) {
        None => status == 200 && error.is_null(),
        // A malformed message, an unknown session, a server that drains.
        Some(ErrorCode::Internal) => matches!(status, 400 | 404 | 500 | 503),
        Some(code) => status == code.properties().http_status || status == 503,
    };
    if is_right { Ok(()) } else { Err(format!("status {status} with {message}")) }
}

/// Checks that an event has the name and id of its message.
fn check_event(name: &str, id: Option<&str>, data: &[u8]) -> Result<(), String> {
    if data.is_empty() {
        return Ok(());
    }
    let message: Value = serde_json::from_slice(data).map_err(|error| error.to_string())?;
    let kind = message["type"].as_str().unwrap_or_default();
    let expected_name = if kind == "handshakeAck" { "handshake" } else { kind };
    let expected_id = match (message["streamId"].as_str(), message["sessionId"].as_str()) {
        (Some(stream), _) => Some(format!("{stream}:{}", message["seq"])),
        (None, Some(_)) => Some("0".to_owned()),
        (None, None) => message["result"]["streamId"].as_str().map(|stream| format!("{stream}:0")),
    };
    // An event stream that was opened without a session names it in its ids.
    let id_alone = id.map(|id| id.split_once('@').map_or(id, |(id, _)| id));
    let is_prelude_without_id = name == "handshake" && id.is_none();
    if name == expected_name && (id_alone == expected_id.as_deref() || is_prelude_without_id) {
        return Ok(());
    }
    Err(format!("the event {name} with id {id:?} has {message}"))
}
