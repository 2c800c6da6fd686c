//! One message per text message of a WebSocket.

use std::io;

use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Error, HandshakeError, Message, WebSocket};

use super::byte_stream::{ByteStream, is_timeout};
use super::{OpenError, Received};
use crate::deadline::Deadline;
use crate::endpoint::Address;

/// A WebSocket after its upgrade.
pub struct WebSocketChannel {
    socket: Box<WebSocket<ByteStream>>,
}

impl WebSocketChannel {
    /// Makes the upgrade request.
    pub fn open(
        stream: ByteStream,
        address: &Address,
        path: &str,
        token: Option<&str>,
    ) -> Result<Self, OpenError> {
        let invalid = |error: &dyn std::fmt::Display| OpenError::new(format!("upgrade: {error}"));
        let url = format!("ws://{}{path}", address.authority());
        let mut request = url.into_client_request().map_err(|error| invalid(&error))?;
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let value = value.map_err(|error| invalid(&error))?;
            request.headers_mut().insert("authorization", value);
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self { socket: Box::new(socket) }),
            Err(HandshakeError::Failure(Error::Http(response))) => {
                let status = response.status().as_u16();
                Err(OpenError { status: Some(status), ..invalid(&format!("status {status}")) })
            }
            Err(HandshakeError::Failure(error)) => Err(invalid(&error)),
            Err(HandshakeError::Interrupted(_)) => Err(invalid(&"no response in time")),
        }
    }

    pub fn send(&mut self, text: &str) -> io::Result<()> {
        self.socket.send(Message::text(text)).map_err(io::Error::other)
    }

    pub fn receive(&mut self, deadline: Deadline) -> Received {
        loop {
            let limited = self.socket.get_mut().set_read_timeout(deadline.left());
            if let Err(error) = limited {
                return Received::closed(&error.to_string());
            }
            match self.socket.read() {
                Ok(Message::Text(text)) => return Received::text(text.to_string()),
                Ok(Message::Close(frame)) => {
                    let code = frame.as_ref().map(|frame| frame.code.into());
                    let reason = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                    return Received::Closed { code, reason };
                }
                Ok(Message::Binary(_)) => return Received::text("(a binary message)".to_owned()),
                Ok(_) => {}
                Err(Error::Io(error)) if is_timeout(&error) => {
                    if deadline.is_over() {
                        return Received::Nothing;
                    }
                }
                Err(error) => return Received::closed(&error.to_string()),
            }
        }
    }
}
