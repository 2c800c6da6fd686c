//! The messages of the storm: those of clients, and the reading of those of the server.

use std::fmt::Write;

use serde::Deserialize;

use crate::Outcome;
use crate::session::Stream;

/// A message of the server.
#[derive(Debug)]
pub(crate) enum Message {
    Acknowledged(Box<Acknowledgement>),
    /// The response to the request of a stream.
    Opened,
    Chunk(Chunk),
    Keepalive,
}

/// A chunk of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// The number of the stream within its session.
    pub(crate) stream: usize,
    pub(crate) seq: u64,
    /// The number that the handler has sent.
    pub(crate) progress: u64,
}

/// What a `handshakeAck` says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Acknowledgement {
    pub(crate) resume_token: String,
    pub(crate) resumed: Option<bool>,
    #[serde(default)]
    pub(crate) streams: Vec<NextChunk>,
}

/// Where a stream continues.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NextChunk {
    pub(crate) stream_id: String,
    pub(crate) next_seq: u64,
}

impl NextChunk {
    /// Returns the numbers of the stream and of its chunk.
    pub(crate) fn place(&self) -> Option<(usize, u64)> {
        Some((self.stream_id.strip_prefix('s')?.parse().ok()?, self.next_seq))
    }
}

/// The handshake without its last bracket.
const HANDSHAKE: &str = concat!(
    r#"{"type":"handshake","protocolVersion":"1.0","#,
    r#""capabilities":{"tools":true,"streaming":true,"resume":true}"#
);
const CHUNK: &[u8] = br#"{"type":"stream.chunk","streamId":"s"#;
const SEQ: &[u8] = br#"","seq":"#;
const PROGRESS: &[u8] = br#","chunkType":"progress","data":{"progress":"#;

/// Returns the handshake of a new session.
pub(crate) fn handshake() -> Vec<u8> {
    format!("{HANDSHAKE}}}\n").into()
}

/// Returns the handshake that resumes a session.
pub(crate) fn resumption(token: &str, streams: &[Stream]) -> Vec<u8> {
    let mut text = format!("{HANDSHAKE},\"resumeToken\":\"{token}\",\"lastAckSeq\":{{");
    for (number, stream) in (1..).zip(streams) {
        let comma = if number == 1 { "" } else { "," };
        // Writing to a string does not fail.
        let _written = write!(text, "{comma}\"s{number}\":{}", stream.last_seq);
    }
    text.push_str("}}\n");
    text.into()
}

/// What each stream is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TicksRequest {
    /// Chunks that come at once.
    pub(crate) burst: u32,
    /// Time between two further chunks.
    pub(crate) interval_ms: u64,
}

/// Returns the requests of the streams of a session.
pub(crate) fn requests(streams: usize, ticks: TicksRequest) -> Vec<u8> {
    let TicksRequest { burst, interval_ms } = ticks;
    let arguments = format!("{{\"burst\":{burst},\"interval_ms\":{interval_ms}}}");
    let request = |id| {
        format!(
            "{{\"type\":\"request\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\
             \"name\":\"ticks\",\"arguments\":{arguments}}},\"stream\":true}}\n"
        )
    };
    (1..=streams).map(request).collect::<String>().into()
}

/// Reads a message of the server; an error if it is none that the storm expects.
pub(crate) fn read(line: &[u8]) -> Outcome<Message> {
    if let Some(chunk) = read_chunk(line) {
        return Ok(Message::Chunk(chunk));
    }
    if line.starts_with(br#"{"type":"handshakeAck""#) {
        return Ok(Message::Acknowledged(serde_json::from_slice(line)?));
    }
    let is_response = line.starts_with(br#"{"type":"response""#);
    if is_response && line.windows(10).any(|part| part == br#""streamId""#) {
        return Ok(Message::Opened);
    }
    if line.starts_with(br#"{"type":"keepalive""#) {
        return Ok(Message::Keepalive);
    }
    Err(format!("unexpected message: {}", String::from_utf8_lossy(line)).into())
}

fn read_chunk(line: &[u8]) -> Option<Chunk> {
    let (stream, rest) = read_number(line.strip_prefix(CHUNK)?)?;
    let (seq, rest) = read_number(rest.strip_prefix(SEQ)?)?;
    let (progress, _) = read_number(rest.strip_prefix(PROGRESS)?)?;
    Some(Chunk { stream: usize::try_from(stream).ok()?, seq, progress })
}

fn read_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at(end);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}
