//! The client's side of a session.
//!
//! Invariants: nothing is sent before the session allows it, or beyond the negotiated
//! capabilities; a chunk is delivered once, in order; one cancellation is outstanding at a time.

use std::time::Duration;

use super::capabilities::{Capabilities, Feature};
use super::envelope::{Chunk, ChunkType, Envelope, HandshakeAck, Response, Target};
use super::error::ParityError;
use super::machine::{Event, InvalidTransition, Machine, State};
use super::stream::{IncomingStreams, Received};
use super::write::{self, HandshakeParams, RequestParams};
use corelane_protocol::json::{Array, Value};
use corelane_protocol::jsonrpc::IdBuf;

/// The state of one session, which may span several connections.
#[derive(Debug, Default)]
pub struct ClientSession {
    machine: Machine,
    capabilities: Capabilities,
    /// What the client narrows the intersection to, once.
    refinement: Option<Capabilities>,
    streams: IncomingStreams,
    resume_token: Option<Box<str>>,
    /// The streams of a resumed session that this client does not know.
    orphans: Vec<Box<str>>,
    /// The target of the outstanding cancellation.
    canceling: Option<CancelTarget>,
    /// Whether the token of the handshake was accepted, until the capabilities are exchanged.
    resumed: Option<bool>,
    /// Connections lost since the last handshake.
    attempts: u32,
}

/// What is being cancelled.
#[derive(Debug)]
enum CancelTarget {
    Request(IdBuf),
    Stream(Box<str>),
}

/// What a received message means.
#[derive(Clone, Copy, Debug)]
pub enum ClientEvent<'a> {
    /// Nothing to do.
    None,
    /// The capabilities are to be refined: see [`ClientSession::exchange_capabilities`].
    ExchangeCapabilities,
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
    /// Returns the state of the machine of the dialect.
    pub const fn state(&self) -> State {
        self.machine.state()
    }

    /// Returns the negotiated capabilities.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Narrows the intersection of the next handshake to `refinement`, with an exchange of its own.
    /// A session that is resumed has been narrowed before.
    pub const fn refine(&mut self, refinement: Capabilities) {
        self.refinement = Some(refinement);
    }

    /// Returns whether a stream was opened, and has not ended long ago.
    pub fn knows_stream(&self, stream_id: &str) -> bool {
        self.streams.contains(stream_id)
    }

    /// Takes the streams of a resumed session that this client does not know: their responses were
    /// lost. Their chunks are accepted.
    pub fn take_orphans(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.orphans)
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
        let offered = match (&self.refinement, resume) {
            // A session that continues is ready: nothing can be exchanged.
            (Some(refinement), Some(_)) => offered.intersect(refinement),
            _ => *offered,
        };
        let exchanges_capabilities = self.refinement.is_some() && resume.is_none();
        let capabilities = &offered;
        let params = HandshakeParams {
            capabilities,
            exchanges_capabilities,
            client_info,
            auth_token,
            resume,
        };
        write::handshake(out, &params);
        // The answer must stay within this.
        self.capabilities = offered;
        Ok(())
    }

    /// Forgets the session, which the server does not let this client resume: the next handshake
    /// begins another.
    pub fn restart(&mut self) {
        self.resume_token = None;
        self.streams = IncomingStreams::default();
    }

    /// Writes the refined capabilities, after [`ClientEvent::ExchangeCapabilities`].
    pub fn exchange_capabilities(&self, out: &mut Vec<u8>) {
        let refinement = self.refinement.as_ref();
        let refined = refinement.map_or(self.capabilities, |it| self.capabilities.intersect(it));
        write::capabilities(out, &refined);
    }

    /// The transport is gone. Returns the time to wait before the next one: it doubles from 100 ms
    /// to 10 s.
    pub fn disconnect(&mut self) -> Duration {
        let _disconnected = self.machine.apply(Event::Disconnect);
        let _waiting = self.machine.apply(Event::RetryBackoff);
        self.canceling = None;
        let doubled = Duration::from_millis(100).saturating_mul(1 << self.attempts.min(7));
        self.attempts = self.attempts.saturating_add(1);
        doubled.min(Duration::from_secs(10))
    }

    /// A time of the session is over, or the client closes it: nothing is accepted any more.
    pub fn close(&mut self, event: Event) {
        let _closing = self.machine.apply(event);
    }

    /// Writes a request.
    ///
    /// # Errors
    ///
    /// `error.feature_not_available` if the state or the capabilities do not allow it.
    pub fn request(
        &mut self,
        out: &mut Vec<u8>,
        request: &RequestParams<'_>,
    ) -> Result<(), ParityError> {
        let event = if request.streams { Event::StartStream } else { Event::SendRequest };
        self.machine.apply(event)?;
        if let Some(feature) = Feature::of_method(request.method) {
            self.capabilities.check(feature)?;
        }
        if request.streams {
            self.capabilities.check(Feature::Streaming)?;
        }
        write::request(out, request);
        Ok(())
    }

    /// Writes a cancellation. The session is ready again after the last message of its target.
    ///
    /// # Errors
    ///
    /// As [`ClientSession::request`].
    pub fn cancel(&mut self, out: &mut Vec<u8>, target: Target<'_>) -> Result<(), ParityError> {
        self.capabilities.check(Feature::Cancellation)?;
        self.machine.apply(Event::SendCancel)?;
        self.canceling = Some(match target {
            Target::Request(id) => CancelTarget::Request(id.into()),
            Target::Stream(stream_id) => CancelTarget::Stream(stream_id.into()),
        });
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
            Envelope::HandshakeAck(ack) => self.receive_ack(&ack),
            Envelope::CapabilitiesAck(refined) => {
                self.apply(Event::ExchangeCaps)?;
                self.narrow(&refined)?;
                self.apply(Event::CapsStored)?;
                self.begin()
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

    fn receive_ack<'a>(&mut self, ack: &HandshakeAck<'_>) -> Result<ClientEvent<'a>, Violation> {
        self.apply(Event::RecvHandshakeAck)?;
        self.narrow(&ack.capabilities)?;
        self.attempts = 0;
        let presented = self.resume_token.is_some();
        self.resume_token = ack.resume_token.map(Into::into);
        self.resumed = ack.resumed;
        if ack.resumed == Some(true) {
            self.add_orphans(ack.streams.and_then(Value::as_array));
        } else {
            self.streams = IncomingStreams::default();
        }
        if self.refinement.is_some() && !presented {
            return Ok(ClientEvent::ExchangeCapabilities);
        }
        self.apply(Event::NoExplicitCaps)?;
        self.begin()
    }

    fn add_orphans(&mut self, continued: Option<Array<'_>>) {
        for stream in continued.into_iter().flatten().filter_map(Value::as_object) {
            let stream_id = stream.find("streamId").and_then(Value::as_str);
            let next_seq = stream.find("nextSeq").and_then(Value::as_u64);
            if let (Some(stream_id), Some(next_seq)) = (stream_id, next_seq)
                && !self.streams.contains(stream_id)
            {
                self.streams.open_after(stream_id, next_seq.saturating_sub(1));
                self.orphans.push(stream_id.into());
            }
        }
    }

    /// The session is ready.
    fn begin<'a>(&mut self) -> Result<ClientEvent<'a>, Violation> {
        let resumed = self.resumed.take();
        if let Some(is_valid) = resumed {
            self.apply(Event::Reconnect)?;
            self.apply(if is_valid { Event::WindowOk } else { Event::WindowStale })?;
        }
        Ok(ClientEvent::Ready { resumed })
    }

    fn receive_response<'a>(
        &mut self,
        response: Response<'a>,
    ) -> Result<ClientEvent<'a>, Violation> {
        self.apply(Event::RecvResponse)?;
        let target = self.canceling.as_ref();
        let is_cancelled =
            matches!(target, Some(CancelTarget::Request(id)) if id.as_id() == response.id);
        let member = |name| response.outcome.ok()?.as_object()?.find(name)?.as_str();
        if let Some(stream_id) = member("streamId") {
            self.streams.open(stream_id);
            if is_cancelled {
                // The last chunk of the stream follows.
                self.canceling = Some(CancelTarget::Stream(stream_id.into()));
            }
        } else if is_cancelled {
            self.end_cancel()?;
        }
        Ok(ClientEvent::Response(response))
    }

    fn receive_chunk<'a>(&mut self, chunk: Chunk<'a>) -> Result<ClientEvent<'a>, Violation> {
        let received = self.streams.receive(chunk.stream_id, chunk.seq, chunk.chunk_type);
        match received {
            Received::Next => {
                let is_eos = chunk.chunk_type == ChunkType::Eos;
                let target = self.canceling.as_ref();
                let is_target =
                    matches!(target, Some(CancelTarget::Stream(id)) if **id == *chunk.stream_id);
                if is_eos && is_target {
                    self.end_cancel()?;
                } else {
                    // The end of another stream ends no cancellation.
                    let is_plain = is_eos && self.state() == State::Ready;
                    self.apply(if is_plain { Event::RecvEos } else { Event::RecvStream })?;
                }
                Ok(ClientEvent::Chunk(chunk))
            }
            Received::Duplicate => Ok(ClientEvent::None),
            other => Err(Violation::Chunk(other)),
        }
    }

    /// The last message of the cancelled request or stream has come.
    fn end_cancel(&mut self) -> Result<(), Violation> {
        self.canceling = None;
        self.apply(Event::RecvEos)
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

#[cfg(test)]
mod tests;
