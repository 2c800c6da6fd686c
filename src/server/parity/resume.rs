//! Resumption: a client presents the token of a session and the numbers of the last chunks it has.
//!
//! Invariants: all streams that the client names continue, or none; a token is valid for one
//! resumption, and the session that is resumed takes the place of the new one. A resumption whose
//! connection is lost before its client has used it does not count.

use std::collections::{HashMap, HashSet};

use super::frontend::ParityFrontend;
use super::resume_tokens::{TokenContents, TokenError};
use super::session::ParitySession;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::protocol::parity::capabilities::Capabilities;
use crate::protocol::parity::envelope::Resume;
use crate::protocol::parity::error::{ErrorCode, ParityError};
use crate::protocol::parity::stream::{OutgoingStream, WindowLimits};

/// A session that continues.
#[derive(Debug)]
pub(super) struct Resumed {
    /// The session.
    pub(super) key: Key,
    /// Its streams, each with the number of its next chunk for the client.
    pub(super) streams: Vec<(String, u64)>,
    /// The texts of the chunks after the acknowledged ones, in order.
    pub(super) chunks: Vec<RepeatedChunk>,
}

/// A chunk that is sent again.
#[derive(Debug)]
pub(super) struct RepeatedChunk {
    /// The stream and its number.
    pub(super) stream: (Box<str>, u32),
    /// The number of the chunk.
    pub(super) seq: u64,
    /// The text.
    pub(super) text: Box<[u8]>,
}

/// Why a session does not continue.
#[derive(Debug)]
pub(super) enum NotResumed {
    /// The client has to begin again, for this reason.
    Restart(&'static str),
    /// The client must not resume it.
    Rejected(ParityError),
}

/// What a client resumes, and with what.
#[derive(Debug)]
pub(super) struct Claim {
    /// The session and its generation.
    pub(super) contents: TokenContents,
    /// The last number received, by stream.
    pub(super) acknowledged: Vec<(Box<str>, u64)>,
    /// The capabilities of the client and the server.
    pub(super) capabilities: Capabilities,
}

/// Opens the token that the client of a new session presents. Any shard can do that.
pub(super) fn open_claim(
    parity: &ParityFrontend,
    new_key: Key,
    request: &Resume<'_>,
) -> Result<Claim, NotResumed> {
    let acknowledged = request.acknowledged().map_err(NotResumed::Rejected)?;
    let acknowledged = acknowledged.into_iter().map(|(id, seq)| (id.into(), seq)).collect();
    let Some(session) = parity.get(new_key) else { return Err(NotResumed::Restart("expired")) };
    let capabilities = *session.protocol.capabilities();
    if !session.is_resumable() {
        return Err(NotResumed::Restart("feature_not_available"));
    }
    match parity.tokens.open(request.token, &identity(session)) {
        Ok(contents) => Ok(Claim { contents, acknowledged, capabilities }),
        Err(TokenError::OtherProcess) => Err(NotResumed::Restart("unknown_server")),
        Err(TokenError::Invalid) => {
            let message = "the resume token is not valid for this caller";
            let error = ParityError::new(ErrorCode::Unauthorized, message);
            Err(NotResumed::Rejected(error))
        }
    }
}

/// Resumes a session of this shard.
///
/// # Errors
///
/// The reason why its client has to start again.
pub(super) fn resume(
    parity: &mut ParityFrontend,
    claim: &Claim,
    now: Instant,
) -> Result<Resumed, &'static str> {
    let TokenContents { session: id, generation } = claim.contents;
    let key = parity.find(id).ok_or("expired")?;
    let settings = parity.settings.session;
    let session = parity.get_mut(key).ok_or("expired")?;
    let is_lost = session.expires_at.is_some();
    if !session.generations.accepts(generation, is_lost) {
        return Err("taken_over");
    }
    let window = session.protocol.window(&settings).ok_or("expired")?;
    session.protocol.skip_exchange(&settings, now);
    if !session.protocol.begin_resume() {
        return Err("expired");
    }
    let continued = continue_streams(session, &claim.acknowledged, &window, now);
    session.protocol.end_resume(continued.is_ok());
    // Chunks that were too old are gone.
    parity.account(key);
    let (streams, chunks) = continued?;
    let session = parity.get_mut(key).ok_or("expired")?;
    session.generations.begin(generation);
    session.expires_at = None;
    session.protocol.reattach(&claim.capabilities, now);
    Ok(Resumed { key, streams, chunks })
}

/// The streams with the numbers of their next chunks, and the chunks to send again.
type Continued = (Vec<(String, u64)>, Vec<RepeatedChunk>);

/// Returns the streams with the numbers of their next chunks, and the chunks to send again.
fn continue_streams(
    session: &mut ParitySession,
    acknowledged: &[(Box<str>, u64)],
    window: &WindowLimits,
    now: Instant,
) -> Result<Continued, &'static str> {
    let streams = &mut session.protocol.streams;
    let known: HashSet<&str> = streams.iter().map(OutgoingStream::id).collect();
    if acknowledged.iter().any(|(id, _)| !known.contains(&**id)) {
        return Err("unknown_stream");
    }
    let acknowledged: HashMap<&str, u64> =
        acknowledged.iter().map(|(id, seq)| (&**id, *seq)).collect();
    let (mut continued, mut chunks) = (Vec::new(), Vec::new());
    streams.resume_each(|stream| {
        let named = acknowledged.get(stream.id()).copied();
        // The client has no chunk of a stream that it does not name.
        let last = named.unwrap_or(0);
        let (id, number) = (stream.id().to_owned(), stream.number());
        let has_ended = stream.has_ended();
        match stream.resume(last, window, now) {
            Ok(texts) => {
                chunks.extend((last + 1..).zip(texts).map(|(seq, text)| RepeatedChunk {
                    stream: (id.as_str().into(), number),
                    seq,
                    text: text.into(),
                }));
                continued.push((id, last + 1));
            }
            Err(_) if named.is_none() && has_ended => {}
            Err(error) => return Err(error.as_str()),
        }
        Ok(())
    })?;
    Ok((continued, chunks))
}

/// Returns a token for the present generation of a session; `None` if it cannot be resumed.
pub(super) fn issue_token(parity: &mut ParityFrontend, key: Key) -> Option<String> {
    let session = parity.get(key).filter(|session| session.is_resumable())?;
    let contents = TokenContents { session: session.id, generation: session.generations.present() };
    let identity = identity(session);
    parity.tokens.issue(contents, &identity)
}

/// Returns the identity of the caller; empty without authentication.
fn identity(session: &ParitySession) -> String {
    let principal = session.state.principal();
    principal.map(|principal| principal.identity()).unwrap_or_default()
}
