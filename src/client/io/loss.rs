//! How a connection ends.

use std::io;

use crate::error::{ClientError, ClientErrorKind};
use crate::io::process::ProgramExit;
use crate::target::Target;
use corelane_tls::TlsError;

/// How a connection was lost.
#[derive(Debug)]
pub enum Loss {
    /// The server ended it, or receiving failed.
    EndOfStream(io::Result<()>),
    /// Sending failed.
    Send(io::Error),
    /// The handshake failed.
    Handshake,
    /// The server is a program, which has ended.
    Exit {
        exit: ProgramExit,
        /// It had read all that was sent.
        has_read: bool,
        /// Its standard output has ended: no other program writes to it.
        has_ended: bool,
    },
}

impl Loss {
    /// Returns whether the server has ended the stream, all of which was received.
    pub const fn is_end_of_stream(&self) -> bool {
        matches!(self, Self::EndOfStream(Ok(())) | Self::Exit { has_ended: true, .. })
    }

    /// Returns whether nothing more can be received.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::EndOfStream(_) | Self::Exit { has_ended: true, .. })
    }

    /// Returns whether something could not be sent.
    pub const fn is_send_failure(&self) -> bool {
        matches!(self, Self::Send(_))
    }

    /// Returns whether the loss may be the answer of a server to a request that it does not know.
    /// A program that ends without reading it, or by a signal, cannot start or has crashed.
    pub const fn may_be_answer(&self) -> bool {
        match self {
            Self::Exit { exit: ProgramExit::Status(_), has_read, .. } => *has_read,
            Self::Exit { exit: ProgramExit::Signal(_), .. } => false,
            Self::EndOfStream(_) | Self::Send(_) | Self::Handshake => true,
        }
    }

    /// Returns the failure of the TLS of the connection.
    pub fn tls_error(&self) -> Option<&TlsError> {
        self.error()?.get_ref()?.downcast_ref()
    }

    /// Returns why the calls to `target` fail.
    pub fn describe(&self, target: &Target) -> ClientError {
        let cause = match self {
            Self::EndOfStream(Ok(())) => "the server closed the connection".to_owned(),
            Self::EndOfStream(Err(error)) | Self::Send(error) => {
                format!("the connection failed: {error}")
            }
            Self::Handshake => "the handshake failed".to_owned(),
            Self::Exit { exit, .. } => format!("the server {exit}"),
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
    pub const fn error(&self) -> Option<&io::Error> {
        match self {
            Self::EndOfStream(Err(error)) | Self::Send(error) => Some(error),
            Self::EndOfStream(Ok(())) | Self::Handshake | Self::Exit { .. } => None,
        }
    }
}
