//! Messages as POST requests, and as events of the session's event stream.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::Received;
use super::byte_stream::ByteStream;
use super::exchange::{
    Exchange, Head, HttpRequest, SseEvent, explain_cut_stream, explain_missing_event,
    explain_missing_token,
};
use crate::deadline::Deadline;
use crate::endpoint::Address;

/// Time of one look at a connection while several are open.
const SLICE: Duration = Duration::from_millis(1);
/// Time after which each connection is looked at though none has input: TLS may have ended it.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Requests without a complete response that are followed at a time; older ones are dropped.
const EXCHANGES_MAX: usize = 64;

/// The header that names the session.
pub const SESSION_HEADER: &str = "Mcp-Session-Id";

/// A session over HTTP: each message is a request on a connection of its own.
pub struct HttpChannel {
    address: Address,
    path: String,
    token: Option<String>,
    timeout: Duration,
    session: Option<String>,
    exchanges: Vec<Exchange>,
    /// The event stream of the session.
    events: Option<Exchange>,
    /// The head of the last complete response to a message.
    last_head: Option<Head>,
    queue: VecDeque<Received>,
}

impl HttpChannel {
    pub fn new(address: &Address, path: &str, token: Option<&str>, time: Duration) -> Self {
        Self {
            address: address.clone(),
            path: path.to_owned(),
            token: token.map(str::to_owned),
            timeout: time,
            session: None,
            exchanges: Vec::new(),
            events: None,
            last_head: None,
            queue: VecDeque::new(),
        }
    }

    /// Returns the session that the server has named.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Starts a request with the session and the token; `path` is that below the endpoint.
    pub fn start(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&[u8]>,
        accept: Option<&str>,
    ) -> io::Result<Exchange> {
        let accept = accept.map(|accept| ("Accept", accept.to_owned()));
        self.start_with(method, path, body, accept.into_iter().collect())
    }

    /// Starts an event stream that continues behind the event with this id.
    pub fn start_after(&self, last_event_id: &str) -> io::Result<Exchange> {
        let accept = ("Accept", "text/event-stream".to_owned());
        let headers = vec![accept, ("Last-Event-ID", last_event_id.to_owned())];
        self.start_with("GET", "/events", None, headers)
    }

    fn start_with(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&[u8]>,
        mut headers: Vec<(&'static str, String)>,
    ) -> io::Result<Exchange> {
        if let Some(token) = &self.token {
            headers.push(("Authorization", format!("Bearer {token}")));
        }
        if let Some(session) = &self.session {
            headers.push((SESSION_HEADER, session.clone()));
        }
        let path = format!("{}{path}", self.path);
        let request = HttpRequest { method, path, headers, body: body.map(<[u8]>::to_vec) };
        let stream = ByteStream::connect(&self.address, self.timeout)?;
        Exchange::start(stream, &self.address.authority(), &request)
    }

    /// Sends a message; its response is one of those received.
    pub fn send(&mut self, text: &[u8]) -> io::Result<()> {
        let exchange = self.start("POST", "", Some(text), Some("application/json"))?;
        if self.exchanges.len() >= EXCHANGES_MAX {
            self.exchanges.remove(0);
        }
        self.exchanges.push(exchange);
        Ok(())
    }

    /// Attaches the event stream of the session and returns its head and its first event.
    pub fn attach(&mut self, deadline: Deadline) -> Result<(Head, SseEvent), String> {
        let mut events = self
            .start("GET", "/events", None, Some("text/event-stream"))
            .map_err(|error| format!("GET events: {error}"))?;
        let prelude = loop {
            events.advance(deadline.left()).map_err(|error| format!("GET events: {error}"))?;
            match events.head() {
                Some(head) if !head.is_event_stream() => {
                    let status = head.status;
                    return Err(format!("GET events: status {status} without an event stream"));
                }
                _ => {}
            }
            if let Some(event) = events.next_event() {
                break event;
            }
            if deadline.is_over() || events.is_complete() {
                return Err(self.describe_missing_prelude(events.head()));
            }
        };
        let head = events.head().cloned().ok_or("GET events: no response")?;
        self.events = Some(events);
        Ok((head, prelude))
    }

    pub fn receive(&mut self, deadline: Deadline) -> Received {
        loop {
            if let Some(received) = self.queue.pop_front() {
                return received;
            }
            self.advance(deadline);
            let is_idle = self.exchanges.is_empty() && self.events.is_none();
            if self.queue.is_empty() && (is_idle || deadline.is_over()) {
                return Received::Nothing;
            }
        }
    }

    /// Ends the event stream; the session stays.
    pub fn detach(&mut self) {
        self.events = None;
    }

    /// Receives until the deadline, though nothing may be open.
    pub fn wait(&mut self, deadline: Deadline) {
        while !deadline.is_over() {
            self.advance(deadline);
        }
    }

    /// Waits until each message that was sent has its response.
    pub fn settle(&mut self, deadline: Deadline) {
        while !self.exchanges.is_empty() && !deadline.is_over() {
            self.advance(deadline);
        }
    }

    /// Waits until a connection has input, and looks at each one once.
    fn advance(&mut self, deadline: Deadline) {
        let connections = self.exchanges.iter().chain(&self.events);
        Exchange::wait_for_input(connections, deadline.left().min(WAIT_MAX));
        let mut open = Vec::new();
        for mut exchange in self.exchanges.drain(..) {
            let read = exchange.advance(SLICE);
            if let Some(session) = exchange.head().and_then(|head| head.header(SESSION_HEADER)) {
                self.session = Some(session.to_owned());
            }
            take_events(&mut exchange, &mut self.queue);
            match read {
                Err(error) => self.queue.push_back(Received::closed(&error.to_string())),
                Ok(()) if exchange.is_complete() => {
                    self.queue.extend(response(&exchange));
                    self.last_head = exchange.head().cloned();
                }
                Ok(()) => open.push(exchange),
            }
        }
        self.exchanges = open;
        if let Some(events) = &mut self.events {
            let read = events.advance(SLICE);
            take_events(events, &mut self.queue);
            let end = match read {
                Err(error) => {
                    let cause = explain_cut_stream(events.head());
                    Some(format!("the event stream broke off: {error}; {cause}"))
                }
                Ok(()) => events.is_complete().then(|| "the event stream ended".to_owned()),
            };
            if let Some(reason) = end {
                self.events = None;
                self.queue.push_back(Received::closed(&reason));
            }
        }
    }

    fn describe_missing_prelude(&self, head: Option<&Head>) -> String {
        let missing = match head {
            Some(_) => "no `handshake` event in time",
            None => "GET events: no response head in time",
        };
        format!("{missing}; {}", explain_missing_event(head.or(self.last_head.as_ref())))
    }

    /// Returns why the token may not have reached the server, if it asks for one.
    pub fn explain_missing_token(&self) -> Option<String> {
        self.token.as_ref()?;
        explain_missing_token(self.last_head.as_ref()?)
    }

    /// Closes the session, so that the server keeps nothing of it.
    pub fn delete_session(&mut self) {
        self.exchanges.clear();
        self.events = None;
        if self.session.is_some()
            && let Ok(mut exchange) = self.start("DELETE", "", None, None)
        {
            // The response does not matter: the check has ended.
            exchange.advance(self.timeout).ok();
        }
        self.session = None;
    }
}

fn take_events(exchange: &mut Exchange, queue: &mut VecDeque<Received>) {
    if !exchange.head().is_some_and(Head::is_event_stream) {
        return;
    }
    let head = exchange.head().cloned();
    while let Some(event) = exchange.next_event() {
        let (text, head) = (event.data.clone(), head.clone());
        queue.push_back(Received::Message { text, head, event: Some(event) });
    }
}

/// Returns a complete response that is no event stream.
fn response(exchange: &Exchange) -> Option<Received> {
    let head = exchange.head().filter(|head| !head.is_event_stream())?;
    let text = exchange.body();
    if text.trim().is_empty() {
        return Some(Received::Empty { status: head.status });
    }
    Some(Received::Message { text, head: Some(head.clone()), event: None })
}
