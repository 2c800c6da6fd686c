//! Messages on one open byte stream: on lines, or in WebSocket frames.

mod output;
mod websocket;

mod closing;

#[cfg(feature = "test-support")]
mod echo;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;

pub(super) use self::closing::{ClosingSocket, ClosingSockets};
#[cfg(feature = "test-support")]
pub use self::echo::WebSocketEcho;
pub(super) use self::output::StreamOutput;
use self::websocket::{PingAction, PingTimer, WebSocketCodec};
use super::connect::OpenError;
use super::http::UpgradeAuthorization;
use super::peer_settings::PeerSettings;
use super::process::ExitNotifier;
use crate::error::{ClientError, ClientErrorKind};
use crate::target::Target;
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::stream::{Sending, Sent};
use corelane_protocol::json::PaddedText;
use corelane_protocol::jsonrpc::Id;
use corelane_transport::ndjson::{LineEvent, LineReader};
use corelane_transport::websocket::client::UpgradeRefusal;
use corelane_transport::websocket::limits::CloseCode;

/// Receives the messages of a stream. What it sends goes to `output`.
pub trait MessageReceiver {
    /// Returns the present.
    fn now(&self) -> Instant;

    /// Returns the longest message in bytes.
    fn message_bytes_max(&self) -> usize;

    /// The stream is open: begins the handshake.
    fn start(&mut self, output: &mut StreamOutput);

    /// Handles one message.
    fn receive(&mut self, message: PaddedText<'_>, output: &mut StreamOutput);

    /// Handles a message that was too long, the response to the request `id` if that is known.
    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, output: &mut StreamOutput);
}

/// Time that the server has to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The sockets, the incomplete message and the output of a connection.
#[derive(Debug)]
pub struct MessageStream {
    receive: Socket,
    send: Socket,
    codec: Codec,
    output: StreamOutput,
    sending: Sending,
    /// A send has failed; nothing more is sent.
    has_failed: bool,
    /// Until when the server must accept the upgrade to WebSocket.
    open_deadline: Option<Instant>,
    pings: PingTimer,
    /// Why the connection must end.
    failure: Option<ClientError>,
}

#[derive(Debug)]
enum Codec {
    Lines(LineReader),
    WebSocket(Box<WebSocketCodec>),
}

impl MessageStream {
    /// Starts to receive messages on lines. The session may start.
    fn open_lines(ring: &mut dyn Ring, sockets: [Socket; 2]) -> Self {
        let mut reader = LineReader::new();
        // The pipes of a program.
        if sockets[0] != sockets[1] {
            reader.end_at_carriage_returns();
        }
        let codec = Codec::Lines(reader);
        Self::open(
            ring,
            sockets,
            codec,
            StreamOutput::new(None),
            PingTimer::new(None, Instant::ORIGIN),
        )
    }

    /// Sends the upgrade request in `output`, and starts to receive. The session starts once the
    /// server has accepted the upgrade, which must be before `deadline`. An idle connection is
    /// pinged after `ping_interval`.
    fn open_websocket(
        ring: &mut dyn Ring,
        sockets: [Socket; 2],
        begun: Result<(WebSocketCodec, StreamOutput), ClientError>,
        deadline: Instant,
        ping_interval: Option<Duration>,
    ) -> Self {
        let (codec, output, failure) = match begun {
            Ok((codec, output)) => (Codec::WebSocket(Box::new(codec)), output, None),
            Err(error) => (Codec::Lines(LineReader::new()), StreamOutput::new(None), Some(error)),
        };
        let pings = PingTimer::new(ping_interval, Instant::ORIGIN);
        let stream = Self::open(ring, sockets, codec, output, pings);
        Self { open_deadline: Some(deadline), failure, ..stream }
    }

    fn open(
        ring: &mut dyn Ring,
        [receive, send]: [Socket; 2],
        codec: Codec,
        output: StreamOutput,
        pings: PingTimer,
    ) -> Self {
        ring.submit(Operation::Receive(receive));
        let (open_deadline, failure) = (None, None);
        let (sending, has_failed) = (Sending::default(), false);
        Self { receive, send, codec, output, sending, has_failed, open_deadline, pings, failure }
    }

    /// Returns the sockets; both are the same for a socket, and differ for pipes.
    pub const fn sockets(&self) -> [Socket; 2] {
        [self.receive, self.send]
    }

    /// Returns where messages to the server are written; they are sent at the next flush.
    pub const fn output(&mut self) -> &mut StreamOutput {
        &mut self.output
    }

    /// Returns whether something is to be sent, or a send is in flight.
    pub fn is_sending(&self) -> bool {
        self.has_failed || !self.sending.is_idle() || !self.output.is_empty()
    }

    /// Returns whether the session may send.
    pub const fn is_open(&self) -> bool {
        self.open_deadline.is_none()
    }

    /// Takes the refusal of the upgrade to WebSocket, if it was refused.
    pub fn take_refusal(&mut self) -> Option<Box<UpgradeRefusal>> {
        match &mut self.codec {
            Codec::WebSocket(codec) => codec.take_refusal(),
            Codec::Lines(_) => None,
        }
    }

    /// Returns why the connection must end, if it must.
    pub fn failure(&self) -> Option<&ClientError> {
        self.failure.as_ref()
    }

    /// Passes the messages in `text` to `receiver`.
    pub fn receive(&mut self, mut text: PaddedText<'_>, receiver: &mut impl MessageReceiver) {
        if self.failure.is_some() {
            return;
        }
        let Self { codec, output, pings, .. } = self;
        pings.handle_received(receiver.now());
        let codec = match codec {
            Codec::Lines(reader) => return receive_lines(reader, text, output, receiver),
            Codec::WebSocket(codec) => codec,
        };
        let mut from = 0;
        if codec.is_opening() {
            match codec.open(text.as_bytes(), &mut from) {
                Ok(false) => return,
                Ok(true) => {
                    self.open_deadline = None;
                    receiver.start(output);
                }
                Err(error) => {
                    self.failure = Some(error);
                    return;
                }
            }
        }
        let length = text.as_bytes().len();
        let received = codec.receive(text.part(from, length), output, &mut |message, output| {
            receiver.receive(message, output);
        });
        self.failure = received.err();
    }

    /// Passes the last line of a stream that has ended to `receiver`, if it is complete but for its
    /// line break.
    pub fn receive_last(&mut self, receiver: &mut impl MessageReceiver) {
        let Codec::Lines(reader) = &mut self.codec else { return };
        let Some(mut line) = reader.finish().filter(|_| self.failure.is_none()) else { return };
        let text = line.as_bytes();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if serde_json::from_slice::<IgnoredAny>(text).is_ok() {
            receiver.receive(line.text(), &mut self.output);
        }
    }

    /// Sends the output, unless a send is in flight.
    pub fn flush(&mut self, ring: &mut dyn Ring) {
        if self.has_failed || !self.sending.is_idle() {
            return;
        }
        if let Some(buffer) = self.output.take() {
            self.sending.submit(ring, self.send, buffer);
        }
    }

    /// Handles the end of a send; its buffer is used again once all of it is sent.
    pub fn handle_sent(
        &mut self,
        ring: &mut dyn Ring,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
    ) -> Sent {
        let sent = self.sending.handle_sent(ring, self.send, buffer, result, false);
        self.has_failed |= matches!(sent, Sent::Failed(_));
        match sent {
            Sent::All(buffer) => {
                output::give_back(buffer);
                Sent::All(Vec::new())
            }
            sent => sent,
        }
    }

    /// Returns when [`MessageStream::expire`] must be called.
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.open_deadline.or_else(|| self.pings.deadline());
        deadline.filter(|_| self.failure.is_none())
    }

    /// Fails the connection if the server has not accepted the upgrade in time, or has not answered
    /// a ping; pings it if it is idle.
    pub fn expire(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let error = if self.is_open() {
            match self.pings.expire(now) {
                PingAction::None => return,
                PingAction::Ping => return self.output.push_ping(),
                PingAction::Lost(interval) => {
                    let text = format!("the server did not answer a ping within {interval:?}");
                    ClientError::new(ClientErrorKind::Closed, text)
                }
            }
        } else {
            let text = "the server did not answer the upgrade request to WebSocket in time";
            ClientError::new(ClientErrorKind::Connect, text)
        };
        self.failure = Some(error);
    }

    /// Closes the connection, of which the input `has_ended` or not. Returns the socket to read to
    /// its end and then to close: that of WebSocket, whose server receives a close frame, and that
    /// of a pipe, so that a program which still writes does not fail.
    pub fn close(
        &mut self,
        ring: &mut dyn Ring,
        has_ended: bool,
        exit: &Arc<ExitNotifier>,
    ) -> Option<ClosingSocket> {
        let (socket, is_pipe) = (self.receive, self.send != self.receive);
        if is_pipe {
            ring.submit(Operation::Close(self.send));
        }
        if has_ended || !is_pipe && (matches!(self.codec, Codec::Lines(_)) || !self.is_open()) {
            ring.submit(Operation::Close(socket));
            return None;
        }
        let exit = Arc::clone(exit);
        if is_pipe {
            let (output, sending, timeout) = (None, Sending::default(), None);
            return Some(ClosingSocket { socket, output, sending, timeout, exit });
        }
        self.output.push_close(CloseCode::NORMAL, "");
        let (output, sending) = (self.output.take().filter(|_| !self.has_failed), self.sending);
        Some(ClosingSocket { socket, output, sending, timeout: Some(CLOSE_TIMEOUT), exit })
    }
}

/// Passes the lines in `text` to `receiver`.
fn receive_lines(
    reader: &mut LineReader,
    mut text: PaddedText<'_>,
    output: &mut StreamOutput,
    receiver: &mut impl MessageReceiver,
) {
    let line_bytes_max = receiver.message_bytes_max();
    let mut from = 0;
    loop {
        match reader.next(text.as_bytes(), &mut from, line_bytes_max, Vec::new) {
            LineEvent::NeedMore => return,
            LineEvent::InPlace { start, end } => receiver.receive(text.part(start, end), output),
            LineEvent::Assembled => receiver.receive(reader.take().text(), output),
            LineEvent::TooLarge => {
                let head = reader.take_head();
                let id = head.id().filter(|_| head.is_response()).and_then(Id::as_u64);
                let text = format!("the response is longer than {line_bytes_max} bytes");
                let error = ClientError::new(ClientErrorKind::Protocol, text);
                receiver.reject_oversized(id, error, output);
            }
        }
    }
}

/// Starts the codec of a connection.
pub fn open_stream(
    settings: &PeerSettings,
    upgrades: &UpgradeAuthorization,
    ring: &mut dyn Ring,
    sockets: [Socket; 2],
    now: Instant,
) -> MessageStream {
    let Target::WebSocket(endpoint) = &*settings.target else {
        return MessageStream::open_lines(ring, sockets);
    };
    let message_bytes_max = settings.config.options().message_bytes_max;
    let writer = settings.request_writer(endpoint);
    let begun = upgrades
        .with_fields(settings, |fields| WebSocketCodec::begin(&writer, fields, message_bytes_max));
    let begun = begun.map_err(|error| OpenError::from(error).describe(&settings.target));
    let deadline = now.after(settings.connect.timeout);
    let ping_interval = settings.reconnect.ping_interval.filter(|interval| !interval.is_zero());
    MessageStream::open_websocket(ring, sockets, begun, deadline, ping_interval)
}
