//! A client of the server that sends one request at a time.

use std::time::Duration;

use corelane::engine::clock::Clock;
use serde_json::{Map, Value};

use super::byte_stream::{ByteStream, ReadOutcome, remaining};
use super::request_error::RequestError;
use crate::generator::RunConfig;
use crate::mcp::request_log::DrainedConnection;
use crate::mcp::request_template::{ID_FIRST, initialize_params, initialized_message};
use crate::mcp::{
    CloseAction, Closing, Handshake, HandshakeProgress, HttpField, RequestSettings,
    RequestTemplate, message_kind,
};
use crate::target::{Era, Transport};
use crate::wire::lines::LineReader;
use crate::wire::{Reader, WireEvent};

/// Bytes of an unexpected answer that an error quotes.
const QUOTED_BYTES_MAX: usize = 200;

/// A response: the id of its request, and the result.
type Response = (u64, Result<Value, RequestError>);

/// A connection with its reader.
#[derive(Debug)]
struct Link {
    /// HTTP fields whose secrets no error quotes.
    fields: Vec<HttpField>,
    stream: ByteStream,
    reader: Reader,
    buffered: Vec<u8>,
}

/// An event, detached from the buffer.
enum LinkEvent {
    Nothing,
    Message(Vec<u8>),
    ResponseEnd { status: u16, session: Option<Box<[u8]>>, closes: bool },
    Reply(Vec<u8>),
    Close,
}

/// A client that sends one request at a time.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    config: &'a RunConfig,
    settings: RequestSettings,
    link: Option<Link>,
    session: Option<Box<[u8]>>,
    next_id: u64,
    clock: Clock,
}

impl<'a> Peer<'a> {
    pub(super) fn new(config: &'a RunConfig) -> Self {
        Self {
            config,
            settings: config.request_settings.clone(),
            link: None,
            session: None,
            next_id: ID_FIRST,
            clock: Clock::start(),
        }
    }

    /// Sets the protocol version of the next requests.
    pub(super) const fn set_era(&mut self, era: Era) {
        self.settings.era = era;
    }

    /// Returns how long a response is awaited.
    pub(super) fn timeout(&self) -> Duration {
        self.config.limits.response_timeout.min(self.config.limits.connect_timeout)
    }

    /// Opens the connection.
    pub(super) fn connect(&mut self) -> Result<(), RequestError> {
        self.link = Some(self.open()?);
        Ok(())
    }

    /// Sends a request and returns its result.
    pub(super) fn request(
        &mut self,
        method: &str,
        params: Option<Map<String, Value>>,
    ) -> Result<Value, RequestError> {
        let id = self.send(method, params)?;
        self.receive(&[id], self.timeout()).1
    }

    /// Returns how long a response is awaited from a server that may still be starting.
    pub(super) fn start_timeout(&self) -> Duration {
        self.config.limits.response_timeout.max(self.config.limits.connect_timeout)
    }

    /// Sends `initialize` and returns its id.
    pub(super) fn send_initialize(&mut self) -> Result<u64, RequestError> {
        self.send("initialize", initialize_params(self.settings.era))
    }

    /// Sends `notifications/initialized`.
    pub(super) fn send_initialized(&mut self) -> Result<(), RequestError> {
        let message = initialized_message(&self.settings, self.session.as_deref());
        self.send_bytes(&message)?;
        if self.settings.transport != Transport::Http {
            return Ok(());
        }
        self.receive_response(&[], self.timeout()).map(drop)
    }

    /// Sends a request and returns its id.
    pub(super) fn send(
        &mut self,
        method: &str,
        params: Option<Map<String, Value>>,
    ) -> Result<u64, RequestError> {
        let id = self.next_id;
        self.next_id += 1;
        let template = RequestTemplate::new(&self.settings, (method, params), None);
        let mut bytes = Vec::new();
        template.write_request(&mut bytes, id, self.session.as_deref());
        self.send_bytes(&bytes)?;
        Ok(id)
    }

    /// Receives the response to one of the requests `ids`; returns its id with its result.
    pub(super) fn receive(
        &mut self,
        ids: &[u64],
        timeout: Duration,
    ) -> (Option<u64>, Result<Value, RequestError>) {
        match self.receive_response(ids, timeout) {
            Ok(Some((id, result))) => (Some(id), result),
            Ok(None) => (None, Err(RequestError::Invalid("an empty response".into()))),
            Err(error) => {
                // Only HTTP cannot carry another request before the response to this one.
                let is_http = self.settings.transport == Transport::Http;
                if is_http || !matches!(error, RequestError::Timeout(_)) {
                    self.link = None;
                }
                (None, Err(error))
            }
        }
    }

    /// Ends the session and closes the connection.
    pub(super) fn close(mut self) {
        let session = self.session.take();
        let Some(Link { mut stream, reader, buffered, .. }) = self.link.take() else { return };
        let drained = DrainedConnection { reader, buffered, session };
        let (mut closing, action) = Closing::new(&self.settings, drained);
        let CloseAction::Send(bytes) = action else { return };
        // A server that does not confirm the close changes nothing for the run.
        if stream.send(&bytes).is_ok()
            && let ReadOutcome::Bytes(bytes) = stream.receive(self.timeout())
        {
            closing.receive(&bytes);
        }
    }

    /// Closes the connection, so that the next request opens a new one.
    pub(super) fn disconnect(&mut self) {
        (self.link, self.session) = (None, None);
    }

    /// Returns whether the connection is open.
    pub(super) const fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        if self.link.is_none() {
            self.link = Some(self.open()?);
        }
        let Some(link) = &mut self.link else { return Ok(()) };
        let sent = link.stream.send(bytes);
        sent.map_err(|why| {
            self.link = None;
            RequestError::Closed(why)
        })
    }

    /// Connects and, over WebSocket, performs the upgrade.
    fn open(&self) -> Result<Link, RequestError> {
        let mut stream = ByteStream::open(self.config, self.config.limits.connect_timeout)?;
        if self.settings.transport != Transport::WebSocket {
            let reader = match self.settings.transport {
                Transport::Http => Reader::Responses(Box::default()),
                _ => Reader::Lines(LineReader::default()),
            };
            let fields = self.settings.fields.clone();
            return Ok(Link { fields, stream, reader, buffered: Vec::new() });
        }
        // Without messages of MCP, which are sent here.
        let settings = RequestSettings { era: Era::Modern, ..self.settings.clone() };
        let mut handshake = Handshake::new(&settings);
        let mut progress = handshake.begin(&settings);
        let deadline = self.clock.now().after(self.timeout());
        loop {
            match progress {
                HandshakeProgress::Send(bytes) => {
                    stream.send(&bytes).map_err(RequestError::Closed)?;
                }
                HandshakeProgress::Open(_) => {
                    let (reader, buffered, _) = handshake.finish();
                    let fields = settings.fields;
                    return Ok(Link { fields, stream, reader, buffered });
                }
                HandshakeProgress::Wait => {}
            }
            let bytes = match stream.receive(remaining(&self.clock, deadline)) {
                ReadOutcome::Bytes(bytes) => bytes,
                ReadOutcome::End(why) => return Err(RequestError::Closed(why)),
                ReadOutcome::Timeout => return Err(RequestError::Timeout(self.timeout())),
            };
            progress = handshake.receive(&settings, &bytes).map_err(|error| {
                RequestError::Upgrade(HttpField::redact_all(&settings.fields, error.message))
            })?;
        }
    }

    /// Receives the response to one of `ids`, or over HTTP the response without a body.
    fn receive_response(
        &mut self,
        ids: &[u64],
        timeout: Duration,
    ) -> Result<Option<Response>, RequestError> {
        let is_http = self.settings.transport == Transport::Http;
        let deadline = self.clock.now().after(timeout);
        let mut body = None;
        loop {
            let remaining = remaining(&self.clock, deadline);
            let link = self.link.as_mut().ok_or_else(|| RequestError::Closed(String::new()))?;
            match link.next_event(remaining, timeout)? {
                LinkEvent::Nothing => {}
                LinkEvent::Reply(bytes) => {
                    link.stream.send(&bytes).map_err(RequestError::Closed)?;
                }
                LinkEvent::Close => {
                    return Err(RequestError::Closed("the server closed the WebSocket".into()));
                }
                LinkEvent::Message(text) => {
                    let response = self.handle_message(&text, ids)?;
                    if is_http {
                        body = Some(response.ok_or(text));
                    } else if response.is_some() {
                        return Ok(response);
                    }
                }
                LinkEvent::ResponseEnd { status, session, closes } => {
                    if closes {
                        self.link = None;
                    }
                    if session.is_some() {
                        self.session = session;
                    }
                    return finish_response(&self.settings.fields, status, body);
                }
            }
        }
    }

    /// Answers a request of the server; returns the response that the message is.
    fn handle_message(
        &mut self,
        text: &[u8],
        ids: &[u64],
    ) -> Result<Option<Response>, RequestError> {
        let is_http = self.settings.transport == Transport::Http;
        let Ok(Value::Object(mut message)) = serde_json::from_slice(text) else {
            return if is_http {
                Ok(None)
            } else {
                Err(RequestError::Invalid(quote(&self.settings.fields, text)))
            };
        };
        if let Some(method) = message.get("method") {
            if let (Some(id), false) = (message.get("id"), is_http) {
                let answer = message_kind::response_text(&id.to_string(), method == "ping");
                self.send_bytes(&self.settings.frame(&answer))?;
            }
            return Ok(None);
        }
        if let Some(error) = message.remove("error") {
            // An error without an id is the response to what was sent last.
            let id = message.get("id").and_then(Value::as_u64).or_else(|| ids.last().copied());
            let Some(id) = id.filter(|id| ids.contains(id)) else { return Ok(None) };
            return Ok(Some((id, Err(RequestError::from_error(&error, &self.settings.fields)))));
        }
        let id = message.get("id").and_then(Value::as_u64);
        match (id.filter(|id| ids.contains(id)), message.remove("result")) {
            (Some(id), Some(result)) => Ok(Some((id, Ok(result)))),
            _ => Ok(None),
        }
    }
}

impl Link {
    /// Returns the next event.
    fn next_event(
        &mut self,
        remaining: Duration,
        timeout: Duration,
    ) -> Result<LinkEvent, RequestError> {
        let read = self.reader.read_next(&self.buffered);
        let Some((taken, event)) = read.map_err(|error| {
            RequestError::Invalid(format!("{error}: {}", quote(&self.fields, &self.buffered)))
        })?
        else {
            return match self.stream.receive(remaining) {
                ReadOutcome::Bytes(bytes) => {
                    self.buffered.extend_from_slice(&bytes);
                    Ok(LinkEvent::Nothing)
                }
                ReadOutcome::End(_) if self.reader.end() => Ok(LinkEvent::Nothing),
                ReadOutcome::End(why) => Err(RequestError::Closed(why)),
                ReadOutcome::Timeout => Err(RequestError::Timeout(timeout)),
            };
        };
        let event = match event {
            None => LinkEvent::Nothing,
            Some(WireEvent::Message(text)) => LinkEvent::Message(text.to_vec()),
            Some(WireEvent::Reply(bytes)) => LinkEvent::Reply(bytes.to_vec()),
            Some(WireEvent::Close) => LinkEvent::Close,
            Some(WireEvent::ResponseEnd { status, session, closes_connection: closes, .. }) => {
                LinkEvent::ResponseEnd { status, session: session.map(Box::from), closes }
            }
        };
        self.buffered.drain(..taken);
        Ok(event)
    }
}

/// Returns the result of an HTTP response whose body held a response of JSON-RPC or other text.
fn finish_response(
    fields: &[HttpField],
    status: u16,
    body: Option<Result<Response, Vec<u8>>>,
) -> Result<Option<Response>, RequestError> {
    match body {
        Some(Ok((id, Err(error)))) => Ok(Some((id, Err(error.with_status(status))))),
        Some(Ok(response)) if status < 300 => Ok(Some(response)),
        Some(Err(text)) if status < 300 => Err(RequestError::Invalid(quote(fields, &text))),
        None if status < 300 => Ok(None),
        Some(Err(text)) => Err(RequestError::Status { status, text: quote(fields, &text) }),
        _ => Err(RequestError::Status { status, text: String::new() }),
    }
}

/// Quotes the beginning of `text` on one line, without the secrets in `fields`.
fn quote(fields: &[HttpField], text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(QUOTED_BYTES_MAX)]);
    let text = HttpField::redact_all(fields, text.into_owned());
    let words: Vec<&str> = text.split_whitespace().collect();
    format!("'{}'", words.join(" ").escape_debug())
}
