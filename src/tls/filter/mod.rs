//! TLS filter of a connection: ciphertext to plaintext and back.
//!
//! The owner of the socket passes received bytes to a [`TlsFilter`] and sends what it encrypts. TLS
//! 1.3 and 1.2, implemented by rustls.
//!
//! Invariants: any cut of the ciphertext gives the same plaintext; no plaintext is sent before the
//! handshake is complete; a record is returned only if its authentication tag is valid.
//!
//! A connection allocates a buffer only once a record arrives in parts. rustls allocates for each
//! record in either direction.

use std::fmt;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::buffer_bytes;
use corelane_engine::stream::ByteFilter;
use rustls::Error;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};

use super::client::TlsClient;
use super::error::{TlsError, TlsErrorKind};
use super::server::TlsServer;
use super::side::{ClientSide, ServerSide, Side};

/// Maximum plaintext of a record (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 16_384;
/// Maximum overhead of a record, of the cipher suites that are offered.
const RECORD_OVERHEAD_BYTES_MAX: usize = 40;

/// Buffers shared by the filters of one thread; empty between uses.
#[derive(Debug, Default)]
pub struct TlsScratch {
    /// Decrypted data.
    pub plaintext: Vec<u8>,
    /// Ciphertext, which is decrypted in place.
    ciphertext: Vec<u8>,
}

/// TLS state of one connection.
pub struct TlsFilter<S = ClientSide> {
    side: S,
    /// Incomplete record received so far.
    partial_record: Vec<u8>,
    /// Encoded TLS messages to send.
    pending_output: Vec<u8>,
    state: TlsState,
    /// The handshake has completed.
    is_established: bool,
}

heap_bytes!(
    impl<S: Side> TlsFilter<S> {}
    counted {
        side: Self::side_bytes,
        partial_record: Self::partial_record_bytes,
        pending_output: Self::pending_output_bytes,
    }
    inline { state, is_established }
);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TlsState {
    /// Handshake in progress.
    Handshaking,
    /// Application data may be sent.
    Open,
    /// The peer has sent `close_notify`.
    Closed,
    /// Received data could not be decrypted; no more is read.
    Failed,
}

impl TlsFilter {
    /// Creates the filter of a client and encodes the first handshake message.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no random bytes.
    pub fn new(client: &TlsClient) -> Result<Self, TlsError> {
        let mut filter = Self::of(ClientSide::new(client)?);
        filter.receive(&[], &mut TlsScratch::default())?;
        Ok(filter)
    }
}

impl TlsFilter<ServerSide> {
    /// Creates the filter of a server, which waits for the first handshake message.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no random bytes.
    pub fn accept(server: &TlsServer) -> Result<Self, TlsError> {
        Ok(Self::of(ServerSide::new(server)?))
    }

    /// Returns what the handshake has negotiated, once it is complete.
    pub const fn handshake(&self) -> &ServerSide {
        &self.side
    }
}

impl<S: Side> TlsFilter<S> {
    fn side_bytes(&self) -> usize {
        self.side.held_bytes()
    }

    const fn partial_record_bytes(&self) -> usize {
        buffer_bytes(&self.partial_record)
    }

    const fn pending_output_bytes(&self) -> usize {
        buffer_bytes(&self.pending_output)
    }

    const fn of(side: S) -> Self {
        Self {
            side,
            partial_record: Vec::new(),
            pending_output: Vec::new(),
            state: TlsState::Handshaking,
            is_established: false,
        }
    }

    /// Returns whether the handshake is complete and application data may be sent.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, TlsState::Open)
    }

    /// Returns whether the peer has sent `close_notify`.
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, TlsState::Closed)
    }

    /// Returns whether the handshake is in progress.
    pub const fn is_handshaking(&self) -> bool {
        matches!(self.state, TlsState::Handshaking)
    }

    /// Returns whether TLS messages are pending, which [`Self::encrypt`] writes.
    #[inline]
    pub const fn has_output(&self) -> bool {
        !self.pending_output.is_empty()
    }

    /// Decrypts received bytes and appends the plaintext to `scratch.plaintext`.
    ///
    /// # Errors
    ///
    /// Returns an error if the handshake fails or the data is not valid TLS. The plaintext appended
    /// before is valid; nothing more can be read.
    #[inline]
    pub fn receive(&mut self, arrived: &[u8], scratch: &mut TlsScratch) -> Result<(), TlsError> {
        if self.state == TlsState::Failed {
            return Ok(());
        }
        if !self.partial_record.is_empty() {
            return self.receive_partial(arrived, &mut scratch.plaintext);
        }
        scratch.ciphertext.clear();
        scratch.ciphertext.extend_from_slice(arrived);
        let TlsScratch { plaintext, ciphertext, .. } = scratch;
        let (done, result) =
            self.decrypt(ciphertext, |payload| plaintext.extend_from_slice(payload));
        self.partial_record.extend_from_slice(&scratch.ciphertext[done..]);
        result
    }

    /// Decrypts received bytes behind those of an incomplete record.
    fn receive_partial(&mut self, arrived: &[u8], plaintext: &mut Vec<u8>) -> Result<(), TlsError> {
        let mut begun = std::mem::take(&mut self.partial_record);
        begun.extend_from_slice(arrived);
        let (done, result) =
            self.decrypt(&mut begun, |payload| plaintext.extend_from_slice(payload));
        begun.drain(..done);
        // Keeps the buffer: a sender of long records fills it again.
        self.partial_record = begun;
        result
    }

    /// Decrypts complete records; returns the number of consumed bytes and the result.
    #[inline]
    fn decrypt(
        &mut self,
        ciphertext: &mut [u8],
        take: impl FnMut(&[u8]),
    ) -> (usize, Result<(), TlsError>) {
        let output_before = self.pending_output.len();
        let (done, result) = self.decrypt_records(ciphertext, take);
        if !self.is_established {
            self.side.record_messages(done, self.pending_output.len() - output_before);
        }
        (done, result)
    }

    fn decrypt_records(
        &mut self,
        ciphertext: &mut [u8],
        mut take: impl FnMut(&[u8]),
    ) -> (usize, Result<(), TlsError>) {
        let mut done = 0;
        let mut has_output = false;
        loop {
            let UnbufferedStatus { discard, state } = self.side.process(&mut ciphertext[done..]);
            done += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        done += record.discard;
                        take(record.payload);
                    }
                    // Nothing is left to learn: saves the call that would say so.
                    if done == ciphertext.len()
                        && self.is_established
                        && !has_output
                        && !self.side.wants_write()
                    {
                        return (done, Ok(()));
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    has_output = true;
                    // Cannot fail: the buffer grows as required.
                    write_growing(&mut self.pending_output, 0, |buf| message.encode(buf))
                        .unwrap_or(());
                }
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::PeerClosed) => self.state = TlsState::Closed,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.record_open();
                    return (done, Ok(()));
                }
                Ok(_) => return (done, Ok(())),
                Err(error) => return (done, Err(self.fail(&error, &mut ciphertext[done..]))),
            }
        }
    }

    /// Marks the connection as failed and encodes the alert for the peer, if there is one.
    #[cold]
    fn fail(&mut self, error: &Error, ciphertext: &mut [u8]) -> TlsError {
        let was_opening = self.is_handshaking();
        self.state = TlsState::Failed;
        // rustls reports the same error again once it has nothing more to write.
        while self.side.wants_write()
            && let Ok(state) = self.side.process(ciphertext).state
        {
            match state {
                ConnectionState::EncodeTlsData(mut message) => {
                    write_growing(&mut self.pending_output, 0, |buf| message.encode(buf))
                        .unwrap_or(());
                }
                ConnectionState::ReadTraffic(mut traffic) => {
                    while traffic.next_record().is_some() {}
                }
                _ => break,
            }
        }
        if was_opening { S::handshake_error(error) } else { S::connection_error(error) }
    }

    /// Appends pending TLS messages and the encrypted `plain` to `out`. `plain` must be empty
    /// before the handshake is complete.
    ///
    /// # Errors
    ///
    /// Returns an error if the key usage limit of the connection is reached.
    #[inline]
    pub fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        out.extend(std::mem::take(&mut self.pending_output));
        if plain.is_empty() {
            return Ok(());
        }
        let size = plain.len() + (plain.len() / RECORD_BYTES_MAX + 2) * RECORD_OVERHEAD_BYTES_MAX;
        let status = self.side.process(&mut self.partial_record);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else {
            debug_assert!(false, "data is sent before the handshake is complete");
            return Err(keys_exhausted());
        };
        write_growing(out, size, |buf| traffic.encrypt(plain, buf)).map_err(|_| keys_exhausted())
    }

    /// Appends `close_notify`, or the alert for an error in the data of the peer, to `out`.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.pending_output);
        while self.state != TlsState::Failed {
            let status = self.side.process(&mut self.partial_record);
            match status.state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    write_growing(out, 0, |buf| message.encode(buf)).unwrap_or(());
                }
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    // On failure the peer sees a truncated stream, which is tolerable.
                    write_growing(out, RECORD_OVERHEAD_BYTES_MAX, |buf| {
                        traffic.queue_close_notify(buf)
                    })
                    .unwrap_or(());
                    return;
                }
                _ => return,
            }
        }
    }

    fn record_open(&mut self) {
        if self.is_established {
            return;
        }
        self.is_established = true;
        if self.state == TlsState::Handshaking {
            self.state = TlsState::Open;
        }
        self.side.record_open();
    }
}

impl<S: Side> ByteFilter for TlsFilter<S> {
    type Error = TlsError;

    const TRUNCATED: &'static str = S::TRUNCATED;

    #[inline]
    fn decode(
        &mut self,
        bytes: &mut [u8],
        decoded: &mut Vec<u8>,
    ) -> Result<Option<usize>, TlsError> {
        if self.state == TlsState::Failed {
            return Ok(Some(0));
        }
        if !self.partial_record.is_empty() {
            let result = self.receive_partial(bytes, decoded);
            if self.partial_record.is_empty() {
                // An idle connection holds no buffer.
                self.partial_record = Vec::new();
            }
            return result.map(|()| None);
        }
        let (done, result) = self.decrypt(bytes, |payload| decoded.extend_from_slice(payload));
        self.partial_record.extend_from_slice(&bytes[done..]);
        let length = decoded.len();
        // A record is longer than its plaintext.
        bytes[..length].copy_from_slice(decoded);
        result.map(|()| Some(length))
    }

    #[inline]
    fn encode(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), TlsError> {
        self.encrypt(bytes, output)
    }

    fn close(&mut self, output: &mut Vec<u8>) {
        Self::close(self, output);
    }

    fn discard_output(&mut self) {
        self.pending_output.clear();
    }

    fn discard(&mut self) {
        self.partial_record = Vec::new();
        self.pending_output = Vec::new();
    }

    fn has_output(&self) -> bool {
        !self.pending_output.is_empty()
    }

    fn is_established(&self) -> bool {
        self.is_established
    }

    /// Also after the peer's `close_notify`.
    fn can_send(&self) -> bool {
        self.is_established && self.state != TlsState::Failed
    }

    fn has_ended(&self) -> bool {
        self.state == TlsState::Closed
    }
}

impl<S> fmt::Debug for TlsFilter<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsFilter").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Error of a buffer that is too small, with the required size.
trait RequiredSize {
    fn required_size(&self) -> Option<usize>;
}

impl RequiredSize for EncodeError {
    fn required_size(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(InsufficientSizeError { required_size }) => Some(*required_size),
            Self::AlreadyEncoded => None,
        }
    }
}

impl RequiredSize for EncryptError {
    fn required_size(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(InsufficientSizeError { required_size }) => Some(*required_size),
            Self::EncryptExhausted => None,
        }
    }
}

/// Extends `out` by `size` bytes, or the required number, and calls `put` to write into them.
#[inline]
fn write_growing<E: RequiredSize>(
    out: &mut Vec<u8>,
    size: usize,
    mut put: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<(), E> {
    let (start, mut size) = (out.len(), size);
    let written = loop {
        out.resize(start + size, 0);
        match put(&mut out[start..]) {
            Err(error) => match error.required_size() {
                Some(more) if more > size => size = more,
                _ => break Err(error),
            },
            written => break written,
        }
    };
    out.truncate(start + written.as_ref().copied().unwrap_or_default());
    written.map(drop)
}

/// Returns the error for a reached key usage limit.
fn keys_exhausted() -> TlsError {
    TlsError::new(TlsErrorKind::Other, "the TLS key usage limit of the connection is reached")
}

#[cfg(feature = "_tls")]
#[cfg(test)]
mod tests;
