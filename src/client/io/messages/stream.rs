//! One open byte stream with messages on lines.

use crate::client::session::{MessageSink, OutgoingMessage, Session, SessionContext, SessionEvent};
use crate::engine::ring::{Operation, Ring, Socket};
use crate::protocol::json::{PaddedText, Parser};
use crate::transport::ndjson::{LineEvent, LineReader, end_line};

/// Output above which calls wait for the server to read.
const OUTGOING_BYTES_MAX: usize = 1 << 20;

/// The sockets, the incomplete line and the output of a connection.
#[derive(Debug)]
pub(super) struct LineStream {
    receive: Socket,
    send: Socket,
    reader: LineReader,
    output: LineOutput,
    /// A send is in flight.
    is_sending: bool,
}

/// Messages to send, one a line.
#[derive(Debug, Default)]
pub(super) struct LineOutput(Vec<u8>);

impl MessageSink for LineOutput {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        self.0.extend_from_slice(message.text);
        end_line(&mut self.0);
    }

    fn is_full(&self) -> bool {
        self.0.len() >= OUTGOING_BYTES_MAX
    }
}

impl LineStream {
    /// Starts to receive.
    pub(super) fn open<R: Ring>(ring: &mut R, receive: Socket, send: Socket) -> Self {
        ring.submit(Operation::Receive(receive));
        let (reader, output) = (LineReader::new(), LineOutput::default());
        Self { receive, send, reader, output, is_sending: false }
    }

    /// Returns the sockets; both are the same for a socket, and differ for pipes.
    pub(super) const fn sockets(&self) -> [Socket; 2] {
        [self.receive, self.send]
    }

    /// Returns the output.
    pub(super) const fn output(&mut self) -> &mut LineOutput {
        &mut self.output
    }

    /// Passes the messages in `text` to `session`. `ctx` has everything but the output.
    pub(super) fn receive<T: Clone>(
        &mut self,
        mut text: PaddedText<'_>,
        session: &mut Session<T>,
        parser: &mut Parser,
        ctx: &mut SessionContext<'_, T, ()>,
    ) {
        let line_bytes_max = session.config().options().message_bytes_max;
        let mut from = 0;
        loop {
            let event = self.reader.next(text.as_bytes(), &mut from, line_bytes_max, Vec::new);
            let mut ctx = ctx.with_sink(&mut self.output);
            match event {
                LineEvent::NeedMore => return,
                LineEvent::InPlace { start, end } => {
                    session.receive(text.part(start, end), parser, &mut ctx);
                }
                LineEvent::Assembled => {
                    session.receive(self.reader.take().text(), parser, &mut ctx);
                }
                LineEvent::TooLarge => {
                    let violation = "a message longer than message_bytes_max";
                    ctx.events.push(SessionEvent::Violation(violation));
                }
            }
        }
    }

    /// Sends the output, unless a send is in flight.
    pub(super) fn flush<R: Ring>(&mut self, ring: &mut R) {
        if self.is_sending || self.output.0.is_empty() {
            return;
        }
        self.is_sending = true;
        let buffer = std::mem::take(&mut self.output.0);
        ring.submit(Operation::Send { socket: self.send, buffer, offset: 0 });
    }

    /// Handles a completed send; its buffer is used again.
    pub(super) fn handle_sent(&mut self, mut buffer: Vec<u8>) {
        self.is_sending = false;
        buffer.clear();
        if self.output.0.is_empty() && buffer.capacity() <= OUTGOING_BYTES_MAX {
            self.output.0 = buffer;
        }
    }

    /// Closes the connection. Returns the socket to read to its end and then to close, so that a
    /// program which still writes does not fail: that of a pipe, unless it `has_ended`.
    pub(super) fn close<R: Ring>(&self, ring: &mut R, has_ended: bool) -> Option<Socket> {
        ring.submit(Operation::Close(self.send));
        if self.send == self.receive {
            return None;
        }
        if has_ended {
            ring.submit(Operation::Close(self.receive));
            return None;
        }
        Some(self.receive)
    }
}
