//! The WebSocket codec of the client without a session, for conformance tests and fuzz targets:
//! each message of the server is sent back.

use std::io;

use super::output::StreamOutput;
use super::websocket::WebSocketCodec;
use crate::error::ClientError;
use crate::session::{MessageSink, OutgoingKind, OutgoingMessage};
use corelane_protocol::json::PaddedBuffer;
use corelane_protocol::revision::Revision;
use corelane_transport::http::client::request_writer::{ExtraFields, RequestFields, RequestWriter};

/// One connection. A violation of the protocol and a close frame end it.
#[derive(Debug)]
pub struct WebSocketEcho {
    codec: WebSocketCodec,
    output: StreamOutput,
    messages: Vec<Vec<u8>>,
}

impl WebSocketEcho {
    /// Begins a connection to `path` of `authority`: the output is the upgrade request.
    ///
    /// # Errors
    ///
    /// If the system has no random source.
    pub fn begin(authority: &str, path: &str, message_bytes_max: usize) -> io::Result<Self> {
        let writer = RequestWriter::new("http", authority, path, &ExtraFields::default());
        let fields = RequestFields::default();
        let (codec, output) = WebSocketCodec::begin(&writer, &fields, message_bytes_max)?;
        Ok(Self { codec, output, messages: Vec::new() })
    }

    /// Takes the bytes to send, if any.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        self.output.take()
    }

    /// Takes the messages that were received.
    pub fn take_messages(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.messages)
    }

    /// Handles received bytes.
    ///
    /// # Errors
    ///
    /// Why the connection ends. What is left of the output, such as a close frame, is to be sent.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let Self { codec, output, messages } = self;
        let mut from = 0;
        if codec.is_opening() && !codec.open(bytes, &mut from)? {
            return Ok(());
        }
        let mut text = PaddedBuffer::new(bytes[from..].to_vec());
        codec.receive(text.text(), output, &mut |message, output| {
            let text = message.as_bytes();
            let (kind, revision) = (OutgoingKind::Notification, Revision::LATEST);
            output.send(OutgoingMessage { kind, revision, text });
            messages.push(text.to_vec());
        })
    }
}
