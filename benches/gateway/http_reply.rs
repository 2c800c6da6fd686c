//! Responses of HTTP servers: with a length or in chunks, of JSON or of an event stream that ends.

use std::io;

use corelane_bench_support::responses;
use memchr::memmem;

/// A complete response.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    /// The field `Mcp-Session-Id`.
    pub(crate) session: Option<String>,
    pub(crate) body: Vec<u8>,
    /// Length of head and body as they arrived.
    pub(crate) bytes: usize,
}

impl HttpReply {
    /// Reads the response at the start of `arrived`, or `None` if it is incomplete.
    pub(crate) fn read(arrived: &[u8]) -> io::Result<Option<Self>> {
        let Some(head) = responses::head(arrived)? else { return Ok(None) };
        let (status, rest) = (responses::status(head)?, &arrived[head.len()..]);
        let body = match responses::field(head, "content-length") {
            Some(length) => sized(rest, length)?,
            None if responses::field(head, "transfer-encoding").is_some() => chunked(rest)?,
            None if matches!(status, 202 | 204) => Some((Vec::new(), 0)),
            None => return Err(io::Error::other("a response without its length")),
        };
        let Some((body, length)) = body else { return Ok(None) };
        let session = responses::field(head, "mcp-session-id");
        let session = session.map(|session| String::from_utf8_lossy(session).into_owned());
        Ok(Some(Self { status, session, body, bytes: head.len() + length }))
    }

    /// The JSON of the body, or of the last event of an event stream.
    pub(crate) fn json(&self) -> &[u8] {
        let line = b"data: ";
        let at = memmem::rfind(&self.body, b"\ndata: ").map(|at| at + 1);
        match at.or_else(|| self.body.starts_with(line).then_some(0)) {
            Some(at) => {
                let event = &self.body[at + line.len()..];
                &event[..memchr::memchr(b'\n', event).unwrap_or(event.len())]
            }
            None => &self.body,
        }
    }
}

/// Returns the body with this length, and the length.
fn sized(rest: &[u8], length: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let length = number(length, 10)?;
    Ok(rest.get(..length).map(|body| (body.to_vec(), length)))
}

/// Returns the body of all chunks (RFC 9112, section 7.1), and the length with their heads.
fn chunked(rest: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(end) = memmem::find(&rest[at..], b"\r\n") else { return Ok(None) };
        let size = rest[at..at + end].split(|byte| *byte == b';').next().unwrap_or_default();
        let size = number(size, 16)?;
        let start = at + end + 2;
        let Some(chunk) = rest.get(start..start + size + 2) else { return Ok(None) };
        body.extend_from_slice(&chunk[..size]);
        at = start + size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

fn number(digits: &[u8], radix: u32) -> io::Result<usize> {
    let text = std::str::from_utf8(digits.trim_ascii()).map_err(io::Error::other)?;
    usize::from_str_radix(text, radix).map_err(io::Error::other)
}
