//! TLS over a stream that blocks.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use corelane_engine::stream::ByteFilter;

use super::client::TlsClient;
use super::error::{TlsError, TlsErrorKind};
use super::filter::{TlsFilter, TlsScratch};

/// Size of one read.
const READ_BYTES: usize = 16 << 10;

/// A TLS connection over a stream whose reads and writes block.
pub struct TlsStream<S> {
    stream: S,
    filter: Box<TlsFilter>,
    scratch: TlsScratch,
    /// Plaintext that was returned.
    read: usize,
}

impl<S: Read + Write> TlsStream<S> {
    /// Completes the handshake. `before_read` is called before each read, to limit its time.
    ///
    /// # Errors
    ///
    /// Why the handshake failed; [`TlsErrorKind::Timeout`] if a read timed out.
    pub fn open(
        client: &TlsClient,
        mut stream: S,
        mut before_read: impl FnMut(&S) -> io::Result<()>,
    ) -> Result<Self, TlsError> {
        let mut filter = Box::new(TlsFilter::new(client)?);
        let mut scratch = TlsScratch::default();
        let (mut output, mut input) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            filter.encrypt(&[], &mut output)?;
            stream.write_all(&output).map_err(|error| handshake_error(&error))?;
            output.clear();
            if filter.is_open() {
                return Ok(Self { stream, filter, scratch, read: 0 });
            }
            let read = before_read(&stream).and_then(|()| stream.read(&mut input));
            let length = read.map_err(|error| handshake_error(&error))?;
            if length == 0 || filter.is_closed() {
                return Err(TlsError::closed());
            }
            if let Err(error) = filter.receive(&input[..length], &mut scratch) {
                filter.close(&mut output);
                // The alert is a courtesy: the server may have closed the connection.
                drop(stream.write_all(&output));
                return Err(error);
            }
        }
    }

    /// Returns the stream, the state of the connection, and the plaintext that was received.
    pub fn into_parts(self) -> (S, Box<TlsFilter>, Vec<u8>) {
        let Self { stream, filter, mut scratch, read } = self;
        scratch.plaintext.drain(..read);
        (stream, filter, scratch.plaintext)
    }
}

impl<S> TlsStream<S> {
    /// Returns the stream below.
    pub const fn stream(&self) -> &S {
        &self.stream
    }
}

fn handshake_error(error: &io::Error) -> TlsError {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            TlsError::closed()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => TlsError::timeout(),
        _ => TlsError::new(TlsErrorKind::Other, format!("the TLS handshake failed: {error}")),
    }
}

/// The error of a connection that ended without `close_notify`, so that data may be missing.
fn truncated() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, <TlsFilter as ByteFilter>::TRUNCATED)
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = &self.scratch.plaintext[self.read..];
            if !rest.is_empty() || buf.is_empty() {
                let length = rest.len().min(buf.len());
                buf[..length].copy_from_slice(&rest[..length]);
                self.read += length;
                return Ok(length);
            }
            self.scratch.plaintext.clear();
            self.read = 0;
            if self.filter.is_closed() {
                return Ok(0);
            }
            let mut input = vec![0; READ_BYTES];
            let length = self.stream.read(&mut input)?;
            if length == 0 {
                return Err(truncated());
            }
            self.filter.receive(&input[..length], &mut self.scratch).map_err(io::Error::other)?;
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut output = Vec::new();
        self.filter.encrypt(buf, &mut output).map_err(io::Error::other)?;
        self.stream.write_all(&output)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<S> fmt::Debug for TlsStream<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsStream").field("filter", &self.filter).finish_non_exhaustive()
    }
}
