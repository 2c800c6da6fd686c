//! TLS between the socket and the messages: ciphertext in, plaintext out, and the other way round.
//!
//! A [`TlsFilter`] is one connection's. It knows no socket: who has one hands it what arrived and
//! sends what it seals. TLS 1.3 and 1.2, by rustls.
//!
//! What it keeps true: any cut of the ciphertext gives the same plaintext; nothing that is said
//! leaves before the handshake is over; a record is handed on only when its tag was right.
//!
//! What it costs: a connection has a buffer of its own only once a record came to it in parts. Each
//! record costs an allocation, in either direction, which is rustls's own.

use std::fmt;

use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};

use super::trust::TlsClient;
use super::unsealed::Unsealed;

/// Bytes of plaintext in the longest record (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 16_384;
/// Bytes that a record is longer than its plaintext: at most, of the suites that are offered.
const RECORD_BYTES_MORE: usize = 40;

/// Buffers that the filters of one thread share: what they hold is done with after each use.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What a filter has opened.
    pub plain: Vec<u8>,
    /// Ciphertext, which is opened in place.
    sealed: Vec<u8>,
}

/// The encryption of one connection.
pub struct TlsFilter {
    connection: UnbufferedClientConnection,
    client: TlsClient,
    /// The part of a record that has arrived.
    begun: Vec<u8>,
    /// Ciphertext that the protocol itself has to say.
    owed: Vec<u8>,
    stage: Stage,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Hands are being shaken.
    Opening,
    /// Messages may go.
    Open,
    /// The server says nothing more: it has said so.
    Ended,
    /// What arrived cannot be read, and nothing behind it.
    Broken,
}

impl TlsFilter {
    /// A filter that has something to say at once: the beginning of the handshake.
    ///
    /// # Errors
    ///
    /// Where the system has no random bytes.
    pub fn new(client: &TlsClient) -> Result<Self, Unsealed> {
        let connection =
            UnbufferedClientConnection::new(client.config.clone(), client.name.clone());
        let connection = connection.map_err(|error| Unsealed::handshake(&error))?;
        let mut filter = Self {
            connection,
            client: client.clone(),
            begun: Vec::new(),
            owed: Vec::new(),
            stage: Stage::Opening,
        };
        filter.hear(&[], &mut Scratch::default())?;
        Ok(filter)
    }

    /// Whether the handshake is over: messages may go.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether the server has said that nothing more comes (`close_notify`).
    pub const fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Whether the handshake is not over.
    pub const fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Opening)
    }

    /// Whether it has something to say of its own: [`Self::seal`] writes it.
    #[inline]
    pub const fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Takes in what arrived, and puts what it says behind what is in `scratch.plain`.
    ///
    /// # Errors
    ///
    /// Where the handshake fails or what arrived is no TLS: nothing more of this connection can be
    /// read. What was put there before is good.
    #[inline]
    pub fn hear(&mut self, arrived: &[u8], scratch: &mut Scratch) -> Result<(), Unsealed> {
        if self.stage == Stage::Broken {
            return Ok(());
        }
        if !self.begun.is_empty() {
            let mut begun = std::mem::take(&mut self.begun);
            begun.extend_from_slice(arrived);
            let (done, heard) = self.open(&mut begun, &mut scratch.plain);
            begun.drain(..done);
            // Whoever sends long records goes on with it.
            self.begun = begun;
            return heard;
        }
        scratch.sealed.clear();
        scratch.sealed.extend_from_slice(arrived);
        let (done, heard) = self.open(&mut scratch.sealed, &mut scratch.plain);
        self.begun.extend_from_slice(&scratch.sealed[done..]);
        heard
    }

    /// Opens what is whole of `sealed`; how many bytes of it are done with, and how it went.
    fn open(&mut self, sealed: &mut [u8], plain: &mut Vec<u8>) -> (usize, Result<(), Unsealed>) {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut sealed[done..]);
            done += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        done += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut said)) => {
                    // Whoever offers enough room is not refused.
                    write(&mut self.owed, 0, |room| said.encode(room)).unwrap_or(());
                }
                Ok(ConnectionState::TransmitTlsData(said)) => said.done(),
                Ok(ConnectionState::PeerClosed) => self.stage = Stage::Ended,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.note_open();
                    return (done, Ok(()));
                }
                Ok(_) => return (done, Ok(())),
                Err(error) => return (done, Err(self.fail(&error, &mut sealed[done..]))),
            }
        }
    }

    /// Nothing more can be read. The server is owed the alert that says why, where there is one.
    #[cold]
    fn fail(&mut self, error: &Error, sealed: &mut [u8]) -> Unsealed {
        let was_opening = self.is_opening();
        self.stage = Stage::Broken;
        // rustls would stumble over what is broken again as soon as it has nothing to say.
        while self.connection.wants_write()
            && let Ok(state) = self.connection.process_tls_records(sealed).state
        {
            match state {
                ConnectionState::EncodeTlsData(mut said) => {
                    write(&mut self.owed, 0, |room| said.encode(room)).unwrap_or(());
                }
                ConnectionState::ReadTraffic(mut traffic) => {
                    while traffic.next_record().is_some() {}
                }
                _ => break,
            }
        }
        if was_opening { Unsealed::handshake(error) } else { Unsealed::open(error) }
    }

    /// Writes what it owes, then `plain` as ciphertext, behind what is in `out`. Before the
    /// handshake is over `plain` has to be empty: what would not be sent is not taken.
    ///
    /// # Errors
    ///
    /// Where the connection has sent all that its keys are good for.
    #[inline]
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Unsealed> {
        out.extend(std::mem::take(&mut self.owed));
        if plain.is_empty() {
            return Ok(());
        }
        let room = plain.len() + (plain.len() / RECORD_BYTES_MAX + 2) * RECORD_BYTES_MORE;
        let status = self.connection.process_tls_records(&mut self.begun);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else {
            debug_assert!(false, "something is said though nothing may be");
            return Err(worn_out());
        };
        write(out, room, |room| traffic.encrypt(plain, room)).map_err(|_| worn_out())
    }

    /// Writes the last words behind what is in `out`: `close_notify`, or the alert that says what
    /// was wrong with the server's.
    pub fn part(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.owed);
        while self.stage != Stage::Broken {
            let status = self.connection.process_tls_records(&mut self.begun);
            match status.state {
                Ok(ConnectionState::EncodeTlsData(mut said)) => {
                    write(out, 0, |room| said.encode(room)).unwrap_or(());
                }
                Ok(ConnectionState::TransmitTlsData(said)) => said.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    // Without it the server sees an end that came early, and no more.
                    write(out, RECORD_BYTES_MORE, |room| traffic.queue_close_notify(room))
                        .unwrap_or(());
                    return;
                }
                _ => return,
            }
        }
    }

    fn note_open(&mut self) {
        if self.stage != Stage::Opening {
            return;
        }
        self.stage = Stage::Open;
        let connection = &self.connection;
        self.client.note(|| {
            let version = connection.protocol_version().and_then(|version| version.as_str());
            let version = version.unwrap_or("TLS").replacen("TLSv", "TLS ", 1).replace('_', ".");
            let suite = connection.negotiated_cipher_suite();
            let suite = suite.map(|suite| format!(" {:?}", suite.suite())).unwrap_or_default();
            version + &suite
        });
    }
}

impl fmt::Debug for TlsFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsFilter").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// What says of room that there is not enough, and how much would be.
trait Narrow {
    fn room(&self) -> Option<usize>;
}

impl Narrow for EncodeError {
    fn room(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(InsufficientSizeError { required_size }) => Some(*required_size),
            Self::AlreadyEncoded => None,
        }
    }
}

impl Narrow for EncryptError {
    fn room(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(InsufficientSizeError { required_size }) => Some(*required_size),
            Self::EncryptExhausted => None,
        }
    }
}

/// Makes `room` behind what is in `out`, or as much as is asked for, and has it written into.
#[inline]
fn write<E: Narrow>(
    out: &mut Vec<u8>,
    room: usize,
    mut put: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<(), E> {
    let (start, mut room) = (out.len(), room);
    let written = loop {
        out.resize(start + room, 0);
        match put(&mut out[start..]) {
            Err(error) => match error.room() {
                Some(more) if more > room => room = more,
                _ => break Err(error),
            },
            written => break written,
        }
    };
    out.truncate(start + written.as_ref().copied().unwrap_or_default());
    written.map(drop)
}

/// The keys of the connection have sealed as much as they may.
fn worn_out() -> Unsealed {
    Unsealed { said: "the keys of the TLS connection are worn out".into(), is_alert: false }
}

#[cfg(test)]
mod tests;
