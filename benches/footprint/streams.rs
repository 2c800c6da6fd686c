//! Clients with a listening stream (`subscriptions/listen`, 2026-07-28), one per connection.

use std::io;
use std::net::SocketAddr;

use corelane_base::time::Instant;
use corelane_bench_support::requests::{self, META};
use corelane_bench_support::responses;
use memchr::memmem;

use corelane_bench_support::client_group::{BenchClient, Received};

/// A stream and the time of its last change notification.
#[derive(Debug)]
pub(crate) struct Stream {
    host: SocketAddr,
    id: usize,
    /// Whether the response head has been read.
    has_head: bool,
    /// Whether the subscription was acknowledged.
    is_open: bool,
    received: Vec<u8>,
    /// Time of the last change notification.
    pub(crate) notified_at: Instant,
}

impl Stream {
    /// Creates a stream with the request id `id`.
    pub(crate) const fn new(host: SocketAddr, id: usize) -> Self {
        Self {
            host,
            id,
            has_head: false,
            is_open: false,
            received: Vec::new(),
            notified_at: Instant::ORIGIN,
        }
    }

    /// Reads the response head, which must announce a chunked event stream.
    fn read_head(&mut self) -> io::Result<()> {
        if let Some(head) = responses::head(&self.received)?
            && !self.has_head
        {
            let status = responses::status(head)?;
            let is_chunked = responses::field(head, "transfer-encoding") == Some(b"chunked");
            if status != 200 || !is_chunked {
                return Err(self.unexpected(&self.received));
            }
            let length = head.len();
            self.received.drain(..length);
            self.has_head = true;
        }
        Ok(())
    }

    /// Handles one event, which must be for this stream. Events are searched and not parsed,
    /// because a turn may bring thousands.
    fn read_event(&mut self, event: &[u8], now: Instant) -> io::Result<Received> {
        if event.starts_with(b":") {
            // A keep-alive comment.
            return Ok(Received::Incomplete);
        }
        if subscription(event) == Some(self.id) {
            let has_method = |method: &str| memmem::find(event, method.as_bytes()).is_some();
            if !self.is_open && has_method(r#""notifications/subscriptions/acknowledged""#) {
                self.is_open = true;
                return Ok(Received::Ready);
            }
            if self.is_open && has_method(r#""notifications/tools/list_changed""#) {
                self.notified_at = now;
                return Ok(Received::Responses(1));
            }
        }
        Err(self.unexpected(event))
    }

    fn unexpected(&self, input: &[u8]) -> io::Error {
        let input = String::from_utf8_lossy(input);
        io::Error::other(format!("unexpected input of stream {}: {input}", self.id))
    }
}

/// One chunk of a chunked body (RFC 9112, section 7.1).
#[derive(Debug)]
struct Chunk<'a> {
    text: &'a [u8],
    /// Length including the size line and the line ends.
    bytes: usize,
}

/// Reads the chunk at the start of `arrived`, or `None` if it is incomplete.
fn chunk(arrived: &[u8]) -> io::Result<Option<Chunk<'_>>> {
    let Some(line) = memmem::find(arrived, b"\r\n") else { return Ok(None) };
    let digits = std::str::from_utf8(&arrived[..line]).ok();
    let size = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let size = size.ok_or_else(|| io::Error::other("invalid chunk size"))?;
    let (start, end) = (line + 2, line + 2 + size);
    if arrived.len() < end + 2 {
        return Ok(None);
    }
    if &arrived[end..end + 2] != b"\r\n" {
        return Err(io::Error::other("chunk without CRLF at its end"));
    }
    Ok(Some(Chunk { text: &arrived[start..end], bytes: end + 2 }))
}

/// Returns the subscription id of an event.
fn subscription(event: &[u8]) -> Option<usize> {
    const KEY: &[u8] = br#""io.modelcontextprotocol/subscriptionId":"#;
    let at = memmem::find(event, KEY)? + KEY.len();
    let end = event[at..].iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&event[at..at + end]).ok()?.parse().ok()
}

impl BenchClient for Stream {
    fn first_message(&self) -> Vec<u8> {
        let meta = META.trim_start_matches(',');
        let id = self.id;
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\
             \"notifications\":{{\"toolsListChanged\":true}},{meta}}}}}"
        );
        let fields = requests::modern_fields("subscriptions/listen", None);
        requests::post(self.host, &fields, &body).into()
    }

    fn receive(&mut self, arrived: &[u8], now: Instant) -> io::Result<Received> {
        self.received.extend_from_slice(arrived);
        self.read_head()?;
        if !self.has_head {
            return Ok(Received::Incomplete);
        }
        let (received, mut from, mut count) = (std::mem::take(&mut self.received), 0, 0);
        let mut is_new = false;
        while let Some(chunk) = chunk(&received[from..])? {
            match self.read_event(chunk.text, now)? {
                Received::Ready => is_new = true,
                Received::Responses(more) => count += more,
                _ => {}
            }
            from += chunk.bytes;
        }
        self.received = received[from..].to_vec();
        Ok(match (is_new, count) {
            (true, 0) => Received::Ready,
            (true, _) => {
                return Err(self.unexpected(b"change notification with the acknowledgement"));
            }
            (false, 0) => Received::Incomplete,
            (false, count) => Received::Responses(count),
        })
    }
}
