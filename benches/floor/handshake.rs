//! The handshake of a connection before its first measured call.
//!
//! It ensures that the server has accepted the connection, which would otherwise count as latency,
//! and opens the session if there is one.

use std::io;
use std::net::SocketAddr;

use corelane_bench_support::frames::{self, Frame};
use corelane_bench_support::requests::{
    self, INITIALIZE, INITIALIZED, RequestTemplate, SESSION_BYTES,
};
use corelane_bench_support::responses::Response;

use crate::request_log::ResponseFormat;

/// Handshake of the connections to one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    /// Host of the requests.
    pub(crate) host: SocketAddr,
    pub(crate) format: ResponseFormat,
    /// Whether to open a session before the first call.
    pub(crate) has_session: bool,
}

/// State of the handshake of one connection.
#[derive(Debug, Default)]
pub(crate) struct HandshakeState {
    received: Vec<u8>,
    steps: usize,
    /// Session id, over HTTP.
    pub(crate) session: Option<[u8; SESSION_BYTES]>,
}

/// Next step of a handshake.
#[derive(Debug)]
pub(crate) enum NextStep {
    Wait,
    /// Send this and wait for a response.
    Send(Vec<u8>),
    /// Done, after sending a last message without a response, if any.
    Done(Option<Vec<u8>>),
}

impl Handshake {
    /// Returns the first message.
    pub(crate) fn first_message(&self, template: &RequestTemplate) -> Vec<u8> {
        match (self.has_session, self.format) {
            (_, ResponseFormat::Frames) => frames::upgrade(self.host),
            (false, _) => template.repeat(1),
            (true, ResponseFormat::Lines) => INITIALIZE.into(),
            (true, _) => requests::post(self.host, "", INITIALIZE).into(),
        }
    }

    /// Handles received bytes.
    pub(crate) fn receive(&self, state: &mut HandshakeState, bytes: &[u8]) -> io::Result<NextStep> {
        state.received.extend_from_slice(bytes);
        match self.format {
            ResponseFormat::Lines if state.received.last() != Some(&b'\n') => Ok(NextStep::Wait),
            ResponseFormat::Lines => {
                Ok(NextStep::Done(self.has_session.then(|| INITIALIZED.into())))
            }
            ResponseFormat::Frames => self.receive_frames(state),
            ResponseFormat::Responses | ResponseFormat::FixedResponses => {
                self.receive_responses(state)
            }
        }
    }

    /// Handles the upgrade and the session over WebSocket.
    fn receive_frames(&self, state: &mut HandshakeState) -> io::Result<NextStep> {
        if state.steps == 1 {
            let frame = Frame::read(&state.received)?;
            return Ok(
                frame.map_or(NextStep::Wait, |_| NextStep::Done(Some(frames::masked(INITIALIZED))))
            );
        }
        if !frames::is_upgraded(&state.received)? {
            return Ok(NextStep::Wait);
        }
        if !self.has_session {
            return Ok(NextStep::Done(None));
        }
        state.steps = 1;
        state.received.clear();
        Ok(NextStep::Send(frames::masked(INITIALIZE)))
    }

    /// Handles the session over HTTP, or a plain response.
    fn receive_responses(&self, state: &mut HandshakeState) -> io::Result<NextStep> {
        let Some(response) = Response::read(&state.received)? else { return Ok(NextStep::Wait) };
        if state.steps == 1 {
            response.expect(202)?;
            return Ok(NextStep::Done(None));
        }
        response.expect(200)?;
        if !self.has_session {
            return Ok(NextStep::Done(None));
        }
        let id = response.field("mcp-session-id").and_then(|id| id.try_into().ok());
        let id = id.ok_or_else(|| io::Error::other("no Mcp-Session-Id in the response"))?;
        state.session = Some(id);
        state.steps = 1;
        state.received.clear();
        let fields = requests::legacy_fields(&String::from_utf8_lossy(&id));
        Ok(NextStep::Send(requests::post(self.host, &fields, INITIALIZED).into()))
    }
}
