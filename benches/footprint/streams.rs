//! Listening streams (`subscriptions/listen`, revision 2026-07-28) as guests of a
//! [`Crowd`](crate::crowd::Crowd): one a connection.

use std::io;
use std::net::SocketAddr;

use corelane::base::time::Moment;
use memchr::memmem;

use crate::crowd::{Guest, Heard};
use crate::requests::{self, META};
use crate::responses;

/// A stream of events, and when it was last told of a change.
#[derive(Debug)]
pub(crate) struct Stream {
    host: SocketAddr,
    id: usize,
    /// The head has been read.
    is_answered: bool,
    /// The subscription was acknowledged.
    is_open: bool,
    heard: Vec<u8>,
    /// When the last change was heard of.
    pub(crate) told_at: Moment,
}

impl Stream {
    /// A stream of `host` that will have this number.
    pub(crate) const fn new(host: SocketAddr, id: usize) -> Self {
        Self {
            host,
            id,
            is_answered: false,
            is_open: false,
            heard: Vec::new(),
            told_at: Moment::ORIGIN,
        }
    }

    /// Reads the head of the response once, which must be a chunked stream of events.
    fn read_head(&mut self) -> io::Result<()> {
        if let Some(head) = responses::head(&self.heard)?
            && !self.is_answered
        {
            let status = responses::status(head)?;
            let is_chunked = responses::field(head, "transfer-encoding") == Some(b"chunked");
            if status != 200 || !is_chunked {
                return Err(self.strange(&self.heard));
            }
            let length = head.len();
            self.heard.drain(..length);
            self.is_answered = true;
        }
        Ok(())
    }

    /// Looks at one event; it must be for this stream. A turn may bring thousands, so they are
    /// searched and not parsed.
    fn read_event(&mut self, event: &[u8], now: Moment) -> io::Result<Heard> {
        if event.starts_with(b":") {
            // A comment that keeps the connection.
            return Ok(Heard::Nothing);
        }
        if subscription(event) == Some(self.id) {
            let says = |method: &str| memmem::find(event, method.as_bytes()).is_some();
            if !self.is_open && says(r#""notifications/subscriptions/acknowledged""#) {
                self.is_open = true;
                return Ok(Heard::Open);
            }
            if self.is_open && says(r#""notifications/tools/list_changed""#) {
                self.told_at = now;
                return Ok(Heard::Answers(1));
            }
        }
        Err(self.strange(event))
    }

    fn strange(&self, said: &[u8]) -> io::Error {
        let said = String::from_utf8_lossy(said);
        io::Error::other(format!("stream {} did not expect {said}", self.id))
    }
}

/// One chunk of a chunked body, still in what arrived (RFC 9112, section 7.1).
#[derive(Debug)]
struct Chunk<'a> {
    text: &'a [u8],
    /// Bytes of all of it, with its size and its line ends.
    bytes: usize,
}

/// The chunk at the beginning of `arrived`; `None` until it is all there.
fn chunk(arrived: &[u8]) -> io::Result<Option<Chunk<'_>>> {
    let Some(line) = memmem::find(arrived, b"\r\n") else { return Ok(None) };
    let digits = std::str::from_utf8(&arrived[..line]).ok();
    let size = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let size = size.ok_or_else(|| io::Error::other("a chunk without a size"))?;
    let (start, end) = (line + 2, line + 2 + size);
    if arrived.len() < end + 2 {
        return Ok(None);
    }
    if &arrived[end..end + 2] != b"\r\n" {
        return Err(io::Error::other("a chunk that does not end"));
    }
    Ok(Some(Chunk { text: &arrived[start..end], bytes: end + 2 }))
}

/// The stream that an event names.
fn subscription(event: &[u8]) -> Option<usize> {
    const KEY: &[u8] = br#""io.modelcontextprotocol/subscriptionId":"#;
    let at = memmem::find(event, KEY)? + KEY.len();
    let end = event[at..].iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&event[at..at + end]).ok()?.parse().ok()
}

impl Guest for Stream {
    fn greet(&self) -> Vec<u8> {
        let meta = META.trim_start_matches(',');
        let id = self.id;
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\
             \"notifications\":{{\"toolsListChanged\":true}},{meta}}}}}"
        );
        let fields = requests::modern_fields("subscriptions/listen", None);
        requests::post(self.host, &fields, &body).into()
    }

    fn hear(&mut self, arrived: &[u8], now: Moment) -> io::Result<Heard> {
        self.heard.extend_from_slice(arrived);
        self.read_head()?;
        if !self.is_answered {
            return Ok(Heard::Nothing);
        }
        let (heard, mut from, mut answers) = (std::mem::take(&mut self.heard), 0, 0);
        let mut is_new = false;
        while let Some(chunk) = chunk(&heard[from..])? {
            match self.read_event(chunk.text, now)? {
                Heard::Open => is_new = true,
                Heard::Answers(count) => answers += count,
                _ => {}
            }
            from += chunk.bytes;
        }
        self.heard = heard[from..].to_vec();
        Ok(match (is_new, answers) {
            (true, 0) => Heard::Open,
            (true, _) => return Err(self.strange(b"a change before the stream was used")),
            (false, 0) => Heard::Nothing,
            (false, count) => Heard::Answers(count),
        })
    }
}
