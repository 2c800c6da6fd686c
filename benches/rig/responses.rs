//! HTTP responses in what a load client receives: found by their `Content-Length`, compared with a
//! model, and read in full only where they differ from it.
//!
//! What it keeps true: a response that the model accepts has status 200, the announced length, the
//! wanted id, and a body that is otherwise the model's to the byte. What it leaves unread is the
//! rest of the head, where the date changes.

use std::io;
use std::ops::Range;

use memchr::memmem;

use crate::wording::Wording;

/// The beginning of a response that the model may accept.
const RIGHT: &[u8] = b"HTTP/1.1 200";
/// A head of more bytes than this is not waited for.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// One response, still in what arrived.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    /// With the empty line that ends it.
    head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The line of the `Content-Length`, in the head.
    length: Range<usize>,
}

impl<'a> Response<'a> {
    /// The response at the beginning of `arrived`; `None` until it is all there.
    pub(crate) fn read(arrived: &'a [u8]) -> io::Result<Option<Self>> {
        let Some(head) = head(arrived)? else { return Ok(None) };
        let status = status(head)?;
        let (length, body_bytes) = match find_field(head, "content-length") {
            Some(length) => {
                let value = value(&head[length.clone()]);
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                (length, number.ok_or_else(|| strange("a length that is no number", head))?)
            }
            None if matches!(status, 202 | 204) => (0..0, 0),
            None => return Err(strange("a response without a length", head)),
        };
        let end = head.len() + body_bytes;
        let body = arrived.get(head.len()..end);
        Ok(body.map(|body| Self { status, head, body, length }))
    }

    /// What a field says; its name is in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        field(self.head, name)
    }

    /// Bytes of all of it.
    pub(crate) const fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Refuses another status than this.
    pub(crate) fn expect(&self, status: u16) -> io::Result<()> {
        if self.status == status {
            return Ok(());
        }
        let text = [self.head, self.body].concat();
        Err(strange("not the status that was expected", &text))
    }
}

/// The head at the beginning of `arrived`, with the empty line that ends it; `None` until it is all
/// there.
pub(crate) fn head(arrived: &[u8]) -> io::Result<Option<&[u8]>> {
    match memmem::find(arrived, b"\r\n\r\n") {
        Some(end) => Ok(Some(&arrived[..end + 4])),
        None if arrived.len() > HEAD_BYTES_MAX => Err(strange("a head without end", arrived)),
        None => Ok(None),
    }
}

/// The status that a head tells.
pub(crate) fn status(head: &[u8]) -> io::Result<u16> {
    let digits = head.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.ok_or_else(|| strange("not a response", head))
}

/// What a field of a head says; its name is in lower case.
pub(crate) fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    find_field(head, name).map(|line| value(&head[line]))
}

/// The line of a field, whose name is in lower case, in a head.
fn find_field(head: &[u8], name: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for end in memmem::find_iter(head, b"\r\n") {
        let line = &head[start..end];
        if let Some((found, rest)) = line.split_at_checked(name.len())
            && found.eq_ignore_ascii_case(name.as_bytes())
            && rest.first() == Some(&b':')
        {
            return Some(start..end);
        }
        start = end + 2;
    }
    None
}

fn value(line: &[u8]) -> &[u8] {
    let colon = line.iter().position(|byte| *byte == b':');
    line[colon.map_or(0, |colon| colon + 1)..].trim_ascii()
}

fn strange(what: &str, said: &[u8]) -> io::Error {
    let said = String::from_utf8_lossy(&said[..said.len().min(1024)]);
    io::Error::other(format!("{what}: {said}"))
}

/// What a right answer of one server looks like: the last one that was read in full.
#[derive(Debug)]
pub(crate) struct Model {
    head_bytes: usize,
    length_at: usize,
    /// The line of the `Content-Length` with its end.
    length: Vec<u8>,
    body: Wording,
}

impl Model {
    /// The model that `response` is, the answer to the request `id`.
    pub(crate) fn new(response: &Response<'_>, id: u64) -> io::Result<Self> {
        if response.length.is_empty() {
            return Err(strange("an answer without a length", response.head));
        }
        Ok(Self {
            head_bytes: response.head.len(),
            length_at: response.length.start,
            length: response.head[response.length.start..response.length.end + 2].to_vec(),
            body: Wording::new(response.body, id)?,
        })
    }

    /// The length of the right answer to the request `id` at the beginning of `arrived`; `None`
    /// where it is not there, not all there, or differs from the model.
    #[inline]
    pub(crate) fn accept(&self, arrived: &[u8], id: u64) -> Option<usize> {
        let bytes = self.head_bytes + self.body.bytes();
        let response = arrived.get(..bytes)?;
        let (head, body) = response.split_at(self.head_bytes);
        let is_right = head.starts_with(RIGHT)
            && head.ends_with(b"\r\n\r\n")
            && head[self.length_at..].starts_with(&self.length)
            && self.body.accepts(body, id);
        is_right.then_some(bytes)
    }
}
