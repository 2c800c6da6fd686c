//! One request of a flow, on a connection of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ClientError;
use crate::io::http::connection::{HttpConnection, HttpRequest};
use crate::oauth::{FetchRequest, FetchResponse};
use crate::target::Target;
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_transport::http::client::response_head::ResponseLimits;
use corelane_transport::http::client::response_reader::ResponseEvent;

/// Time from the request to the end of the response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a body.
const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) struct Fetch {
    number: u64,
    target: Arc<Target>,
    is_connecting: bool,
    /// Not sent yet.
    request: Vec<u8>,
    connection: Option<HttpConnection<()>>,
    deadline: Instant,
}

/// The response, or why there is none.
pub(super) type FetchOutcome = Result<FetchResponse, String>;

impl Fetch {
    /// Prepares a request; `number` names its connection.
    pub(super) fn new(request: &FetchRequest, number: u64, now: Instant) -> Result<Self, String> {
        let mut url = request.url.clone();
        url.set_fragment(None);
        let target: Target =
            url.as_str().parse().map_err(|error: ClientError| error.to_string())?;
        let Target::Http(endpoint) = &target else { return Err("not a URL of HTTP".to_owned()) };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut head = format!("{} {path} HTTP/1.1\r\n", request.method);
        let length = request.body.len().to_string();
        let own = [("Host", endpoint.authority()), ("Connection", "close".to_owned())];
        let length = (request.method == "POST").then_some(("Content-Length", length));
        for (name, value) in own.iter().chain(&length).chain(&request.fields) {
            head.extend([*name, ": ", value.as_str(), "\r\n"]);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&request.body);
        Ok(Self {
            number,
            target: Arc::new(target),
            is_connecting: false,
            request: bytes,
            connection: None,
            deadline: now.after(TIMEOUT),
        })
    }

    /// Returns the target to connect to, once, with the number of this request.
    pub(super) fn take_target(&mut self) -> Option<(u64, Arc<Target>)> {
        let is_first = !std::mem::replace(&mut self.is_connecting, true);
        is_first.then(|| (self.number, Arc::clone(&self.target)))
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn owns(&self, socket: Socket) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.socket() == socket)
    }

    /// Returns the connection, once there is one.
    pub(super) const fn connection(&mut self) -> Option<&mut HttpConnection<()>> {
        self.connection.as_mut()
    }

    /// Sends the request.
    pub(super) fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket) {
        let mut connection = HttpConnection::open(ring, socket);
        let request = std::mem::take(&mut self.request);
        let request = HttpRequest { bytes: request, deadline: Some(self.deadline) };
        connection.start(ring, (), request);
        self.connection = Some(connection);
    }

    /// Handles received bytes; returns the outcome once it is known.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Instant) -> Option<FetchOutcome> {
        let connection = self.connection.as_mut()?;
        let limits = ResponseLimits { body_bytes_max: BODY_BYTES_MAX, ..Default::default() };
        let mut from = 0;
        loop {
            match connection.receive(bytes, &mut from, &limits, |(), _| {}) {
                Ok(ResponseEvent::NeedMore) => return None,
                Ok(ResponseEvent::HeadComplete) => {}
                Ok(ResponseEvent::Complete) => return Some(self.finish(now)),
                Err(error) => return Some(Err(error.to_string())),
            }
        }
    }

    /// Handles the end of the connection.
    pub(super) fn handle_end(&mut self, is_failed: bool, now: Instant) -> FetchOutcome {
        let ended = self.connection.as_mut().map(HttpConnection::end_of_stream);
        match ended {
            Some(Ok(true)) if !is_failed => self.finish(now),
            _ => Err("the connection ended before the response".to_owned()),
        }
    }

    fn finish(&mut self, now: Instant) -> FetchOutcome {
        let finished = self.connection.as_mut().and_then(|connection| connection.finish(now));
        let ((), response) = finished.ok_or("the response has no head")?;
        let head = response.head;
        Ok(FetchResponse {
            status: head.status,
            location: head.location.map(Into::into),
            dpop_nonce: head.dpop_nonce.map(Into::into),
            body: response.body,
        })
    }

    /// Closes the connection.
    pub(super) fn close(self, ring: &mut dyn Ring) {
        if let Some(connection) = self.connection {
            ring.submit(Operation::Close(connection.socket()));
        }
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fetch").field("number", &self.number).finish_non_exhaustive()
    }
}
