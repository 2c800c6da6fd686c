//! The client's side of a session.
//!
//! Invariants: nothing is sent before the session allows it, or beyond the negotiated
//! capabilities; a chunk is delivered once, in order.

use std::time::Duration;

use super::capabilities::{Capabilities, Feature};
use super::envelope::{Chunk, Envelope, Response, Target};
use super::error::ParityError;
use super::machine::{Event, InvalidTransition, Machine, State};
use super::stream::{IncomingStreams, Received};
use super::write;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::Id;

/// The state of one session, which may span several connections.
#[derive(Debug, Default)]
pub struct ClientSession {
    machine: Machine,
    capabilities: Capabilities,
    streams: IncomingStreams,
    resume_token: Option<Box<str>>,
    /// Connections lost since the last handshake.
    attempts: u32,
}

/// What a received message means.
#[derive(Clone, Copy, Debug)]
pub enum ClientEvent<'a> {
    /// Nothing to do.
    None,
    /// Requests are permitted. `resumed`: whether the presented token was accepted.
    Ready {
        /// `None` without a token.
        resumed: Option<bool>,
    },
    /// The response to a request.
    Response(Response<'a>),
    /// The next chunk of a stream.
    Chunk(Chunk<'a>),
    /// The server expects a message within these seconds.
    Keepalive(Option<u64>),
    /// An error about something else than a request.
    Error(Value<'a>),
}

/// A message that the server must not send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Violation {
    /// The state does not allow it.
    State(InvalidTransition),
    /// It has a capability that the client has not offered.
    WidenedCapabilities,
    /// A chunk that is not the next one of its stream.
    Chunk(Received),
    /// Only clients send it.
    Misdirected,
}

impl ClientSession {
    /// Returns the state.
    pub const fn state(&self) -> State {
        self.machine.state()
    }

    /// Returns the negotiated capabilities.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The transport is established: writes the handshake.
    ///
    /// # Errors
    ///
    /// The session has a transport.
    pub fn connect(
        &mut self,
        out: &mut Vec<u8>,
        offered: &Capabilities,
        client_info: (&str, &str),
        auth_token: Option<&str>,
    ) -> Result<(), InvalidTransition> {
        self.machine.apply(Event::Connect)?;
        self.machine.apply(Event::SendHandshake)?;
        let acknowledged = self.streams.last_ack_seq();
        let resume = self.resume_token.as_deref().map(|token| (token, &*acknowledged));
        write::handshake(out, offered, client_info, auth_token, resume);
        // The answer must stay within this.
        self.capabilities = *offered;
        Ok(())
    }

    /// The transport is gone. Returns the time to wait before the next one: it doubles from 100 ms
    /// to 10 s.
    pub fn disconnect(&mut self) -> Duration {
        let _disconnected = self.machine.apply(Event::Disconnect);
        let _waiting = self.machine.apply(Event::RetryBackoff);
        let doubled = Duration::from_millis(100).saturating_mul(1 << self.attempts.min(7));
        self.attempts = self.attempts.saturating_add(1);
        doubled.min(Duration::from_secs(10))
    }

    /// Writes a request.
    ///
    /// # Errors
    ///
    /// `error.feature_not_available` if the state or the capabilities do not allow it.
    pub fn request(
        &mut self,
        out: &mut Vec<u8>,
        (id, method): (Id<'_>, &str),
        params: Option<&[u8]>,
        (streams, idempotency_key): (bool, Option<&str>),
    ) -> Result<(), ParityError> {
        let event = if streams { Event::StartStream } else { Event::SendRequest };
        self.machine.apply(event)?;
        if let Some(feature) = Feature::of_method(method) {
            self.capabilities.check(feature)?;
        }
        if streams {
            self.capabilities.check(Feature::Streaming)?;
        }
        write::request(out, (id, method), params, (streams, idempotency_key));
        Ok(())
    }

    /// Writes a cancellation.
    ///
    /// # Errors
    ///
    /// As [`ClientSession::request`].
    pub fn cancel(&mut self, out: &mut Vec<u8>, target: Target<'_>) -> Result<(), ParityError> {
        self.capabilities.check(Feature::Cancellation)?;
        self.machine.apply(Event::SendCancel)?;
        write::cancel(out, target, None);
        Ok(())
    }

    /// Handles a message of the server.
    ///
    /// # Errors
    ///
    /// [`Violation`]; the message is ignored.
    pub fn receive<'a>(&mut self, envelope: Envelope<'a>) -> Result<ClientEvent<'a>, Violation> {
        match envelope {
            Envelope::HandshakeAck(ack) => {
                self.apply(Event::RecvHandshakeAck)?;
                self.narrow(&ack.capabilities)?;
                self.apply(Event::NoExplicitCaps)?;
                self.attempts = 0;
                self.resume_token = ack.resume_token.map(Into::into);
                if ack.resumed == Some(true) {
                    self.apply(Event::Reconnect)?;
                    self.apply(Event::WindowOk)?;
                    self.open_continued(ack.streams);
                } else {
                    self.streams = IncomingStreams::default();
                }
                Ok(ClientEvent::Ready { resumed: ack.resumed })
            }
            Envelope::CapabilitiesAck(refined) => {
                self.narrow(&refined)?;
                Ok(ClientEvent::None)
            }
            Envelope::Response(response) => self.receive_response(response),
            Envelope::Chunk(chunk) => self.receive_chunk(chunk),
            Envelope::Keepalive { timeout_hint } => Ok(ClientEvent::Keepalive(timeout_hint)),
            Envelope::Error { error, .. } => Ok(ClientEvent::Error(error)),
            Envelope::Handshake(_)
            | Envelope::Capabilities(_)
            | Envelope::Request(_)
            | Envelope::Cancel(_) => Err(Violation::Misdirected),
        }
    }

    /// Opens the streams of a resumed session whose opening response was lost with its connection.
    fn open_continued(&mut self, streams: Option<Value<'_>>) {
        let streams = streams.and_then(Value::as_array).into_iter().flatten();
        for stream in streams {
            let id = stream.as_object().and_then(|it| it.find("streamId")).and_then(Value::as_str);
            if let Some(id) = id {
                self.streams.open(id);
            }
        }
    }

    fn receive_response<'a>(
        &mut self,
        response: Response<'a>,
    ) -> Result<ClientEvent<'a>, Violation> {
        let is_cancelled = self.state() == State::Canceling;
        self.apply(Event::RecvResponse)?;
        let member = |name| response.outcome.ok()?.as_object()?.find(name)?.as_str();
        if let Some(stream_id) = member("streamId") {
            self.streams.open(stream_id);
        } else if is_cancelled && response.outcome.is_err() {
            // The terminal frame of a request without stream.
            self.apply(Event::RecvEos)?;
        }
        Ok(ClientEvent::Response(response))
    }

    fn receive_chunk<'a>(&mut self, chunk: Chunk<'a>) -> Result<ClientEvent<'a>, Violation> {
        use super::envelope::ChunkType;
        let is_eos = chunk.chunk_type == ChunkType::Eos;
        let received = self.streams.receive(chunk.stream_id, chunk.seq, chunk.chunk_type);
        match received {
            Received::Next => {
                self.apply(if is_eos { Event::RecvEos } else { Event::RecvStream })?;
                Ok(ClientEvent::Chunk(chunk))
            }
            Received::Duplicate => Ok(ClientEvent::None),
            other => Err(Violation::Chunk(other)),
        }
    }

    /// Stores capabilities that may only narrow.
    fn narrow(&mut self, capabilities: &Capabilities) -> Result<(), Violation> {
        if Feature::ALL
            .into_iter()
            .any(|feature| capabilities.has(feature) && !self.capabilities.has(feature))
        {
            return Err(Violation::WidenedCapabilities);
        }
        self.capabilities = self.capabilities.intersect(capabilities);
        Ok(())
    }

    fn apply(&mut self, event: Event) -> Result<(), Violation> {
        self.machine.apply(event).map(|_| ()).map_err(Violation::State)
    }
}
