//! How a connection ends.

use std::io;

use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::target::Target;
use crate::transport::tls::TlsError;

/// How a connection was lost.
#[derive(Debug)]
pub(in crate::client::io) enum Loss {
    /// The server ended it, or receiving failed.
    EndOfStream(io::Result<()>),
    /// Sending failed.
    Send(io::Error),
    /// The handshake failed.
    Handshake,
}

impl Loss {
    /// Returns the failure of the TLS of the connection.
    pub(in crate::client::io) fn tls_error(&self) -> Option<&TlsError> {
        self.error()?.get_ref()?.downcast_ref()
    }

    /// Returns why the calls to `target` fail.
    pub(in crate::client::io) fn describe(&self, target: &Target) -> ClientError {
        let cause = match self {
            Self::EndOfStream(Ok(())) => "the server closed the connection".to_owned(),
            Self::EndOfStream(Err(error)) | Self::Send(error) => {
                format!("the connection failed: {error}")
            }
            Self::Handshake => "the handshake failed".to_owned(),
        };
        let text = format!("{target}: {cause}");
        match self.tls_error() {
            Some(error) if error.kind().is_client_certificate() => {
                ClientError::from_tls(text, error.clone())
            }
            _ => ClientError::new(ClientErrorKind::Closed, text),
        }
    }

    /// Returns the error of the system, if there is one.
    pub(in crate::client::io) const fn error(&self) -> Option<&io::Error> {
        match self {
            Self::EndOfStream(Err(error)) | Self::Send(error) => Some(error),
            Self::EndOfStream(Ok(())) | Self::Handshake => None,
        }
    }
}
