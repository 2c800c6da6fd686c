//! How a connection ends.
//!
//! A program that ends closes its pipes before its parent can learn its status: [`ExitWait`] is its
//! lost connection until then.

use std::io;
use std::time::Duration;

use super::process::{ProgramExit, ServerProcess};
use crate::error::{ClientError, ClientErrorKind};
use crate::target::Target;
use corelane_base::time::Instant;
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
            Self::Exit { .. } => false,
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
        let text = format!("{}: {cause}", target.without_secrets());
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

/// Time for which the end of a program is awaited once it has closed a pipe.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two looks at the program.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The lost connection of a program.
#[derive(Debug)]
pub(super) struct ExitWait {
    loss: Loss,
    /// Its standard output has ended.
    has_ended: bool,
    /// It has not read what was sent.
    is_unread: bool,
    next_check: Instant,
    until: Instant,
    /// Nothing is awaited any more.
    is_over: bool,
}

impl ExitWait {
    pub(super) fn new(loss: Loss, now: Instant) -> Self {
        let (has_ended, is_unread) = (loss.is_end_of_stream(), loss.is_send_failure());
        let until = now.after(EXIT_TIMEOUT);
        Self { loss, has_ended, is_unread, next_check: now, until, is_over: false }
    }

    /// Notes a further loss of the same connection.
    pub(super) fn add(&mut self, loss: Loss) {
        self.is_unread |= loss.is_send_failure();
        if loss.is_end_of_stream() && !self.has_ended {
            (self.loss, self.has_ended) = (loss, true);
        }
    }

    /// Returns whether the standard output has ended.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns when [`ExitWait::check`] must be called next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.is_over).then(|| self.next_check.min(self.until))
    }

    /// Returns whether the wait is over.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Looks at the program, to which a send may be in flight.
    pub(super) fn check(&mut self, process: &ServerProcess, is_sending: bool, now: Instant) {
        let is_complete = self.has_ended && (!is_sending || self.is_unread);
        self.is_over |= now >= self.until || is_complete && process.exit().is_some();
        self.next_check = now.after(CHECK_INTERVAL);
    }

    /// Returns how the connection was lost.
    pub(super) fn into_loss(self, process: &ServerProcess) -> Loss {
        let Self { loss, has_ended, is_unread, .. } = self;
        match process.exit() {
            Some(exit) => {
                let has_read = !is_unread && !process.has_unread_input();
                Loss::Exit { exit, has_read, has_ended }
            }
            None => loss,
        }
    }
}
