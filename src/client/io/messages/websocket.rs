//! The messages of one WebSocket connection: its handshake, its frames, its pings (RFC 6455,
//! section 5.5.2), and its close frames.

use std::io;
use std::mem::take;
use std::time::Duration;

use super::output::{MaskKeys, StreamOutput};
use crate::error::{ClientError, ClientErrorKind};
use corelane_base::time::Instant;
use corelane_protocol::json::{PaddedBuffer, PaddedText};
use corelane_transport::http::client::request_writer::{RequestFields, RequestWriter};
use corelane_transport::websocket::client::{
    ServerFrameEvent, ServerFrameReader, UpgradeEvent, UpgradeRefusal, UpgradeRequest,
};
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use corelane_transport::websocket::utf8::is_utf8;

/// Receives the messages of one connection.
#[derive(Debug)]
pub(super) struct WebSocketCodec {
    /// The upgrade request, until it is accepted.
    upgrade: Option<Box<UpgradeRequest>>,
    frames: ServerFrameReader,
    /// The bytes of an incomplete frame.
    partial: Vec<u8>,
    limits: FrameLimits,
    /// Why the server has not accepted the upgrade.
    refusal: Option<Box<UpgradeRefusal>>,
}

impl WebSocketCodec {
    /// Begins a connection. Returns the codec, and the output with the upgrade request, which
    /// `fields` authorize.
    ///
    /// # Errors
    ///
    /// If the system has no random source.
    pub(super) fn begin(
        writer: &RequestWriter,
        fields: &RequestFields<'_>,
        message_bytes_max: usize,
    ) -> io::Result<(Self, StreamOutput)> {
        let mut key = [0; 16];
        getrandom::fill(&mut key)?;
        let upgrade = Box::new(UpgradeRequest::new(key));
        let mut output = StreamOutput::new(Some(MaskKeys::new()?));
        upgrade.write(output.bytes_mut(), writer, fields);
        let codec = Self {
            upgrade: Some(upgrade),
            frames: ServerFrameReader::new(),
            partial: Vec::new(),
            limits: FrameLimits { message_bytes_max, ..FrameLimits::default() },
            refusal: None,
        };
        Ok((codec, output))
    }

    /// Takes the refusal of the upgrade.
    pub(super) const fn take_refusal(&mut self) -> Option<Box<UpgradeRefusal>> {
        self.refusal.take()
    }

    /// Returns whether the server has not accepted the upgrade yet.
    pub(super) const fn is_opening(&self) -> bool {
        self.upgrade.is_some()
    }

    /// Reads the response to the upgrade request in `bytes[*from..]` and advances `from`. Returns
    /// whether the server has accepted it.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Http`] if the server has not, [`ClientErrorKind::Protocol`] for an
    /// invalid response.
    pub(super) fn open(&mut self, bytes: &[u8], from: &mut usize) -> Result<bool, ClientError> {
        let Some(upgrade) = &mut self.upgrade else { return Ok(true) };
        match upgrade.next(bytes, from) {
            UpgradeEvent::NeedMore => Ok(false),
            UpgradeEvent::Accepted { subprotocol } => {
                tracing::debug!(subprotocol, "the server accepted the upgrade to WebSocket");
                self.upgrade = None;
                Ok(true)
            }
            UpgradeEvent::Refused(refusal) => {
                let error = ClientError::from_refusal(
                    refusal.status,
                    &refusal.challenges,
                    &refusal.body,
                    None,
                );
                self.refusal = Some(refusal);
                Err(error)
            }
            UpgradeEvent::Invalid(reason) => {
                Err(ClientError::new(ClientErrorKind::Protocol, reason))
            }
        }
    }

    /// Passes the messages in `text` to `receive`, and answers pings.
    ///
    /// # Errors
    ///
    /// Why the connection ends: the server has closed it, or violated RFC 6455. The close frame
    /// that follows from it is in `output`. Nothing may be received after it.
    pub(super) fn receive(
        &mut self,
        text: PaddedText<'_>,
        output: &mut StreamOutput,
        receive: &mut dyn FnMut(PaddedText<'_>, &mut StreamOutput),
    ) -> Result<(), ClientError> {
        if self.partial.is_empty() {
            return self.receive_frames(text, output, receive);
        }
        self.partial.extend_from_slice(text.as_bytes());
        match self.frames.has_frame(&self.partial, &self.limits) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(fail(error, output)),
        }
        let mut text = PaddedBuffer::new(take(&mut self.partial));
        self.receive_frames(text.text(), output, receive)
    }

    /// Handles the frames in `text`, and stores an incomplete one.
    fn receive_frames(
        &mut self,
        mut text: PaddedText<'_>,
        output: &mut StreamOutput,
        receive: &mut dyn FnMut(PaddedText<'_>, &mut StreamOutput),
    ) -> Result<(), ClientError> {
        let mut from = 0;
        loop {
            let rest = &text.as_bytes()[from..];
            if rest.is_empty() {
                return Ok(());
            }
            let frame = self.frames.next(rest, &self.limits);
            let Some((length, event)) = frame.map_err(|error| fail(error, output))? else {
                self.partial.extend_from_slice(rest);
                return Ok(());
            };
            match event {
                ServerFrameEvent::Message(range) => {
                    let message = text.part(from + range.start, from + range.end);
                    check_utf8(message.as_bytes(), output)?;
                    receive(message, output);
                }
                ServerFrameEvent::Assembled => {
                    let message = self.frames.take();
                    check_utf8(&message, output)?;
                    receive(PaddedBuffer::new(message).text(), output);
                }
                ServerFrameEvent::Ping(range) => output.push_pong(&rest[range]),
                ServerFrameEvent::Close(code, reason) => {
                    output.push_close(code.unwrap_or(CloseCode::NORMAL), "");
                    return Err(closed(code, &rest[reason]));
                }
                ServerFrameEvent::Fragment | ServerFrameEvent::Pong => {}
            }
            from += length;
        }
    }
}

/// Checks a complete message.
fn check_utf8(message: &[u8], output: &mut StreamOutput) -> Result<(), ClientError> {
    if is_utf8(message) { Ok(()) } else { Err(fail(ProtocolError::INVALID_UTF8, output)) }
}

/// Fails the connection (RFC 6455, section 7.1.7).
fn fail(error: ProtocolError, output: &mut StreamOutput) -> ClientError {
    output.push_close(error.code, error.reason);
    let text = format!("invalid WebSocket frame (close code {}): {}", error.code, error.reason);
    ClientError::new(ClientErrorKind::Protocol, text)
}

/// Returns the error of a connection that the server has closed.
fn closed(code: Option<CloseCode>, reason: &[u8]) -> ClientError {
    let reason = String::from_utf8_lossy(reason);
    let text = match code {
        None => "the server closed the connection without a close code".to_owned(),
        Some(code) if reason.is_empty() => {
            format!("the server closed the connection with close code {code}")
        }
        Some(code) => format!("the server closed the connection with close code {code}: {reason}"),
    };
    ClientError::new(ClientErrorKind::Closed, text)
}

/// The pings of one connection. Everything that is received shows that the peer is there, a pong
/// as well as a message.
#[derive(Debug)]
pub(super) struct PingTimer {
    /// `None` for a connection that is not pinged.
    interval: Option<Duration>,
    /// When something was received, or the connection was opened.
    last_received: Instant,
    /// When the ping was sent that nothing has followed.
    pinged_at: Option<Instant>,
}

/// What is to be done at a deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PingAction {
    None,
    /// Send a ping.
    Ping,
    /// End the connection: nothing was received for this time since a ping.
    Lost(Duration),
}

impl PingTimer {
    /// Creates the timer of a connection that is open since `now`.
    pub(super) const fn new(interval: Option<Duration>, now: Instant) -> Self {
        Self { interval, last_received: now, pinged_at: None }
    }

    /// Notes that something was received.
    pub(super) const fn handle_received(&mut self, now: Instant) {
        self.last_received = now;
        self.pinged_at = None;
    }

    /// Returns when [`PingTimer::expire`] must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.pinged_at.unwrap_or(self.last_received).after(self.interval?))
    }

    /// Returns what is due; a ping that is due counts as sent.
    pub(super) fn expire(&mut self, now: Instant) -> PingAction {
        let Some(interval) = self.interval else { return PingAction::None };
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return PingAction::None;
        }
        if self.pinged_at.is_some() {
            return PingAction::Lost(interval);
        }
        self.pinged_at = Some(now);
        PingAction::Ping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn idle_connection_is_pinged_and_lost() {
        let mut timer = PingTimer::new(Some(Duration::from_secs(30)), at(1));
        assert_eq!(timer.deadline(), Some(at(31)));
        assert_eq!(timer.expire(at(30)), PingAction::None);
        assert_eq!(timer.expire(at(31)), PingAction::Ping);
        assert_eq!(timer.deadline(), Some(at(61)));
        assert_eq!(timer.expire(at(60)), PingAction::None);
        assert_eq!(timer.expire(at(61)), PingAction::Lost(Duration::from_secs(30)));
    }

    #[test]
    fn received_bytes_postpone_ping_and_loss() {
        let mut timer = PingTimer::new(Some(Duration::from_secs(30)), at(0));
        timer.handle_received(at(20));
        assert_eq!(timer.expire(at(30)), PingAction::None);
        assert_eq!(timer.expire(at(50)), PingAction::Ping);
        timer.handle_received(at(79));
        assert_eq!(timer.expire(at(80)), PingAction::None);
        assert_eq!(timer.expire(at(109)), PingAction::Ping);
    }

    #[test]
    fn connection_without_interval_is_not_pinged() {
        let mut timer = PingTimer::new(None, at(0));
        assert_eq!(timer.deadline(), None);
        assert_eq!(timer.expire(at(1 << 40)), PingAction::None);
    }
}
