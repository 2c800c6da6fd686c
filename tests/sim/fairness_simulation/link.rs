//! A connection of a client, over TCP or HTTP.

use std::net::IpAddr;

use corelane::Transport;
use corelane_engine::ring::sim::World;
use serde_json::Value;

use crate::fairness_simulation::server::{HTTP_ADDRESS, TCP_ADDRESS};
use crate::harness::socket::ClientSocket;

/// An open connection with what it has received.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) transport: Transport,
    socket: ClientSocket,
    received: Vec<u8>,
}

/// A response, or a notification.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Of HTTP; 200 over TCP.
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    /// `null` for an empty body.
    pub(crate) message: Value,
}

impl Link {
    pub(crate) fn open(world: &World, from: IpAddr, transport: Transport) -> Self {
        let address = if transport == Transport::Tcp { TCP_ADDRESS } else { HTTP_ADDRESS };
        let socket = ClientSocket::stream(world.connect_from(from, address));
        Self { transport, socket, received: Vec::new() }
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        self.socket.write(bytes);
    }

    /// Returns the next reply.
    ///
    /// # Errors
    ///
    /// It is malformed.
    pub(crate) fn next_reply(&mut self) -> Result<Option<Reply>, String> {
        self.received.extend(self.socket.take_received());
        if self.transport != Transport::Tcp {
            return self.next_response();
        }
        let Some(end) = self.received.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Ok(Some(Reply { status: 200, session: None, message: parse(&line)? }))
    }

    /// Returns the next HTTP response with a length.
    fn next_response(&mut self) -> Result<Option<Reply>, String> {
        let head = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let Some(head) = head.map(|end| end + 4) else { return Ok(None) };
        let text = String::from_utf8_lossy(&self.received[..head]).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("no status: {text}"))?;
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            lines.find(|line| line.0.eq_ignore_ascii_case(name)).map(|line| line.1.to_owned())
        };
        let length = field("content-length").map_or(Ok(0), |length| length.parse::<usize>());
        let end = head + length.map_err(|_| format!("wrong length: {text}"))?;
        let Some(body) = self.received.get(head..end) else { return Ok(None) };
        let is_json = field("content-type").is_some_and(|kind| kind.contains("json"));
        let message = if is_json { parse(body)? } else { Value::Null };
        self.received.drain(..end);
        Ok(Some(Reply { status, session: field("mcp-session-id"), message }))
    }

    /// Discards what was received. Returns whether there was something.
    pub(crate) fn discard(&self) -> bool {
        !self.socket.take_received().is_empty()
    }

    /// Returns whether the server has closed it.
    pub(crate) fn has_ended(&self) -> bool {
        self.socket.has_ended() || self.socket.is_reset()
    }

    pub(crate) fn close(&self) {
        self.socket.close();
    }

    pub(crate) fn reset(&self) {
        self.socket.reset();
    }
}

fn parse(text: &[u8]) -> Result<Value, String> {
    let invalid = |error| format!("{error}: {}", String::from_utf8_lossy(text));
    serde_json::from_slice(text).map_err(invalid)
}
