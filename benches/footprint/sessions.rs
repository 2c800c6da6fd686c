//! Clients with a legacy session, one per connection, over TCP, HTTP or WebSocket.

use std::io;
use std::net::SocketAddr;

use corelane_base::time::Instant;
use corelane_bench_support::frames::{self, Frame};
use corelane_bench_support::requests::{
    self, Era, FIRST_ID, INITIALIZE, INITIALIZED, MESSAGE_BYTES, RequestTemplate, SESSION_BYTES,
};
use corelane_bench_support::responses::Response;

use corelane_bench_support::client_group::{BenchClient, Received};

/// Sent after the handshake; its response shows that the session is open.
const PING: &str = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "\n");
/// First byte of a WebSocket ping.
const PING_FRAME: u8 = 0x89;

/// Transport of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Tcp,
    /// POST requests over a persistent connection.
    Http,
    WebSocket,
}

impl Transport {
    /// Returns the call that sessions send.
    pub(crate) fn call(self, host: SocketAddr) -> RequestTemplate {
        match self {
            Self::Tcp => RequestTemplate::echo(Era::Legacy, MESSAGE_BYTES),
            Self::Http => RequestTemplate::echo_post(Era::Legacy, MESSAGE_BYTES, host),
            Self::WebSocket => frames::echo_frame(Era::Legacy, MESSAGE_BYTES),
        }
    }
}

/// Phase of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// WebSocket only.
    Upgrading,
    Initializing,
    Confirming,
    Open,
}

/// A session with its own connection.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    transport: Transport,
    host: SocketAddr,
    call: &'a RequestTemplate,
    phase: Phase,
    /// Session id, HTTP only.
    id: [u8; SESSION_BYTES],
    received: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Creates a session that has not started.
    pub(crate) const fn new(
        transport: Transport,
        host: SocketAddr,
        call: &'a RequestTemplate,
    ) -> Self {
        let phase = match transport {
            Transport::Tcp | Transport::Http => Phase::Initializing,
            Transport::WebSocket => Phase::Upgrading,
        };
        Self { transport, host, call, phase, id: [0; SESSION_BYTES], received: Vec::new() }
    }

    /// Returns its tool call.
    pub(crate) fn call(&self) -> Vec<u8> {
        let mut call = self.call.repeat(1);
        self.call.set_session(&mut call, &self.id);
        call
    }

    /// Handles all bytes since the last message sent.
    fn receive_all(&mut self, received: &[u8]) -> io::Result<Received> {
        match self.transport {
            Transport::Tcp if received.ends_with(b"\n") => self.receive_text(received),
            Transport::Tcp => Ok(Received::Incomplete),
            Transport::Http => {
                let response = Response::read(received)?;
                response
                    .map_or(Ok(Received::Incomplete), |response| self.receive_response(&response))
            }
            Transport::WebSocket if self.phase == Phase::Upgrading => {
                if !frames::is_upgraded(received)? {
                    return Ok(Received::Incomplete);
                }
                self.phase = Phase::Initializing;
                Ok(Received::Send(frames::masked(INITIALIZE)))
            }
            Transport::WebSocket => {
                let frame = Frame::read(after_pings(received))?;
                frame.map_or(Ok(Received::Incomplete), |frame| self.receive_text(frame.text))
            }
        }
    }

    /// Handles a response in a line or frame.
    fn receive_text(&mut self, text: &[u8]) -> io::Result<Received> {
        if self.phase == Phase::Open {
            self.call.check(text, FIRST_ID)?;
            return Ok(Received::Responses(1));
        }
        if self.phase == Phase::Confirming {
            self.phase = Phase::Open;
            return Ok(Received::Ready);
        }
        self.phase = Phase::Confirming;
        Ok(Received::Send(match self.transport {
            Transport::WebSocket => [frames::masked(INITIALIZED), frames::masked(PING)].concat(),
            _ => [INITIALIZED, PING].concat().into_bytes(),
        }))
    }

    /// Handles an HTTP response.
    fn receive_response(&mut self, response: &Response<'_>) -> io::Result<Received> {
        if self.phase == Phase::Open {
            response.expect(200)?;
            self.call.check(response.body, FIRST_ID)?;
            return Ok(Received::Responses(1));
        }
        if self.phase == Phase::Confirming {
            response.expect(202)?;
            self.phase = Phase::Open;
            return Ok(Received::Ready);
        }
        response.expect(200)?;
        let id = response.field("mcp-session-id").and_then(|id| id.try_into().ok());
        self.id = id.ok_or_else(|| io::Error::other("no Mcp-Session-Id in the response"))?;
        self.phase = Phase::Confirming;
        let fields = requests::legacy_fields(&String::from_utf8_lossy(&self.id));
        Ok(Received::Send(requests::post(self.host, &fields, INITIALIZED).into()))
    }
}

/// Skips leading pings, which the bench does not answer: it ends before the ping timeout.
fn after_pings(mut arrived: &[u8]) -> &[u8] {
    while arrived.first() == Some(&PING_FRAME)
        && let Some((start, length)) = frames::measure(arrived)
        && let Some(rest) = arrived.get(start + length..)
    {
        arrived = rest;
    }
    arrived
}

impl BenchClient for Session<'_> {
    fn first_message(&self) -> Vec<u8> {
        match self.transport {
            Transport::Tcp => INITIALIZE.into(),
            Transport::Http => requests::post(self.host, "", INITIALIZE).into(),
            Transport::WebSocket => frames::upgrade(self.host),
        }
    }

    fn receive(&mut self, arrived: &[u8], _: Instant) -> io::Result<Received> {
        let mut received = std::mem::take(&mut self.received);
        received.extend_from_slice(arrived);
        let result = self.receive_all(&received)?;
        if matches!(result, Received::Incomplete) {
            self.received = received;
        }
        Ok(result)
    }
}
