//! One request of HTTP/1.1 on a connection of its own, and its response as it arrives; what a proxy
//! in front of the server may have done to it, as text of a failure.

use std::io::{self, Write};
use std::time::Duration;

use super::MESSAGE_BYTES_MAX;
use super::byte_stream::ByteStream;

/// The end of a chunk.
const CRLF: &[u8] = b"\r\n";

/// A request of HTTP to write.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<Vec<u8>>,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

/// An event of an event stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SseEvent {
    pub name: String,
    pub data: String,
    pub id: Option<String>,
}

/// How the end of a body is found.
enum Framing {
    /// The bytes that have not arrived.
    Length(usize),
    Chunked,
    UntilClose,
}

/// A request that was sent, with what has arrived of its response.
pub struct Exchange {
    stream: ByteStream,
    /// Bytes that are not decoded.
    input: Vec<u8>,
    head: Option<Head>,
    framing: Framing,
    body: Vec<u8>,
    is_complete: bool,
}

impl Head {
    /// Returns the value of a header; names have no case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns whether the body is an event stream.
    pub fn is_event_stream(&self) -> bool {
        self.header("content-type").is_some_and(|value| value.starts_with("text/event-stream"))
    }
}

impl Exchange {
    /// Sends a request. A server may respond, and close the connection, before it has read the
    /// body: what goes wrong there is found by the next read.
    pub fn start(
        mut stream: ByteStream,
        authority: &str,
        request: &HttpRequest,
    ) -> io::Result<Self> {
        let HttpRequest { method, path, headers, body } = request;
        let mut text = Vec::new();
        write!(text, "{method} {path} HTTP/1.1\r\nHost: {authority}\r\n")?;
        for (name, value) in headers {
            write!(text, "{name}: {value}\r\n")?;
        }
        if let Some(body) = body {
            let length = body.len();
            write!(text, "Content-Type: application/json\r\nContent-Length: {length}\r\n")?;
        }
        write!(text, "Connection: close\r\n\r\n")?;
        stream.write_all(&text)?;
        stream.write_all(body.as_deref().unwrap_or_default()).and_then(|()| stream.flush()).ok();
        Ok(Self {
            stream,
            input: Vec::new(),
            head: None,
            framing: Framing::UntilClose,
            body: Vec::new(),
            is_complete: false,
        })
    }

    pub const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Returns whether the whole response has arrived.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the body so far.
    pub fn body(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Waits until one of the responses goes on, or `timeout` is over.
    pub fn wait_for_input<'a>(exchanges: impl Iterator<Item = &'a Self>, timeout: Duration) {
        ByteStream::wait_for_input(exchanges.map(|exchange| &exchange.stream), timeout);
    }

    /// Reads what arrives within `timeout`.
    pub fn advance(&mut self, timeout: Duration) -> io::Result<()> {
        if self.is_complete {
            return Ok(());
        }
        let Some(bytes) = self.stream.read_within(timeout)? else { return Ok(()) };
        if bytes.is_empty() {
            self.is_complete = true;
            return match (&self.head, &self.framing) {
                (Some(_), Framing::UntilClose) => Ok(()),
                (Some(_), _) => Err(io::Error::other("the response ended before its body")),
                (None, _) => Err(io::Error::other("the connection closed without a response")),
            };
        }
        self.input.extend_from_slice(&bytes);
        if self.input.len() + self.body.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("the response is too long"));
        }
        self.decode()
    }

    fn decode(&mut self) -> io::Result<()> {
        if self.head.is_none() && !self.decode_head()? {
            return Ok(());
        }
        match &mut self.framing {
            Framing::UntilClose => self.body.append(&mut self.input),
            Framing::Length(left) => {
                let length = self.input.len().min(*left);
                self.body.extend(self.input.drain(..length));
                *left -= length;
                self.is_complete = *left == 0;
            }
            Framing::Chunked => self.decode_chunks()?,
        }
        Ok(())
    }

    fn decode_head(&mut self) -> io::Result<bool> {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(&self.input).map_err(io::Error::other)?;
        let httparse::Status::Complete(length) = parsed else { return Ok(false) };
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let head = Head {
            status: response.code.unwrap_or_default(),
            headers: response
                .headers
                .iter()
                .map(|field| (field.name.to_owned(), text(field.value)))
                .collect(),
        };
        self.input.drain(..length);
        let is_chunked = head.header("transfer-encoding").is_some();
        self.framing = match head.header("content-length").and_then(|text| text.parse().ok()) {
            _ if is_chunked => Framing::Chunked,
            _ if matches!(head.status, 204 | 304) => Framing::Length(0),
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        };
        self.head = Some(head);
        Ok(true)
    }

    fn decode_chunks(&mut self) -> io::Result<()> {
        while !self.is_complete {
            let parsed = httparse::parse_chunk_size(&self.input)
                .map_err(|_| io::Error::other("the size of a chunk is not valid"))?;
            let httparse::Status::Complete((start, size)) = parsed else { return Ok(()) };
            let length = usize::try_from(size).ok().filter(|size| *size <= MESSAGE_BYTES_MAX);
            let length = length.ok_or_else(|| io::Error::other("a chunk is too long"))?;
            let end = start + length;
            if self.input.len() < end + CRLF.len() {
                return Ok(());
            }
            self.body.extend_from_slice(&self.input[start..end]);
            self.input.drain(..end + CRLF.len());
            self.is_complete = size == 0;
        }
        Ok(())
    }

    /// Takes the next complete event of an event stream; comments are skipped.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        loop {
            let text = String::from_utf8_lossy(&self.body).replace("\r\n", "\n");
            let (block, rest) = text.split_once("\n\n")?;
            let event = parse_event(block);
            self.body = rest.as_bytes().to_vec();
            if event.is_some() {
                return event;
            }
        }
    }
}

/// Reads the fields of an event; `None` without data.
fn parse_event(block: &str) -> Option<SseEvent> {
    let mut event = SseEvent { name: "message".to_owned(), ..SseEvent::default() };
    let mut lines = Vec::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.name),
            "data" => lines.push(value),
            "id" => event.id = Some(value.to_owned()),
            _ => {}
        }
    }
    event.data = lines.join("\n");
    (!lines.is_empty()).then_some(event)
}

/// Status of a request without a valid token.
const UNAUTHORIZED: u16 = 401;

/// Returns why an event stream has not begun: `head` is that of an earlier response.
pub fn explain_missing_event(head: Option<&Head>) -> String {
    let name = describe_proxy(head);
    format!(
        "{name} may buffer the stream (nginx: `proxy_http_version 1.1` and `proxy_buffering off`)"
    )
}

/// Returns why an event stream may have ended within its body.
pub fn explain_cut_stream(head: Option<&Head>) -> String {
    let name = describe_proxy(head);
    format!(
        "{name} may end a response that is silent for less than the time between keepalives \
         (nginx: `proxy_read_timeout`)"
    )
}

/// Returns why a token may not have reached the server, if the response is that to a request
/// without one: it has a challenge without an error code (RFC 6750, section 3).
pub fn explain_missing_token(head: &Head) -> Option<String> {
    let challenge = head.header("www-authenticate")?.to_ascii_lowercase();
    let is_missing = challenge.starts_with("bearer") && !challenge.contains("error=");
    let name = describe_proxy(Some(head));
    (head.status == UNAUTHORIZED && is_missing).then(|| {
        format!(
            "the token has not arrived: {name} may not forward Authorization (nginx: \
             `proxy_set_header Authorization $http_authorization`)"
        )
    })
}

/// Names the program that sent a response, which is the proxy if there is one.
pub fn describe_proxy(head: Option<&Head>) -> String {
    match head.and_then(|head| head.header("via").or_else(|| head.header("server"))) {
        Some(name) => format!("the proxy '{name}'"),
        None => "a proxy".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the exchange of a response, if it can be decoded.
    fn decoded(response: &str) -> io::Result<Exchange> {
        let stream = ByteStream::start(&"cat".into(), &[])?;
        let mut exchange = Exchange::start(stream, "localhost", &HttpRequest::default())?;
        exchange.input = response.into();
        exchange.decode().map(|()| exchange)
    }

    #[test]
    fn body_ends_by_length_or_last_chunk() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        for (head, rest, body, is_complete) in [
            (chunked, "2;a=b\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n", "ab0123456789", true),
            (chunked, "2\r\nab\r\n3\r\nab", "ab", false),
            (length, "ab", "ab", false),
            (length, "abcd", "abc", true),
        ] {
            let exchange = decoded(&format!("{head}{rest}")).unwrap();
            assert_eq!((exchange.body().as_str(), exchange.is_complete()), (body, is_complete));
        }
        for size in ["x", "-1", "100000000"] {
            assert!(decoded(&format!("{chunked}{size}\r\n")).is_err(), "{size}");
        }
    }

    #[test]
    fn event_fields_are_read() {
        let event = parse_event("event: keepalive\nid: a:1\ndata: {\ndata:  }").unwrap();
        let wanted = SseEvent {
            name: "keepalive".to_owned(),
            data: "{\n }".to_owned(),
            id: Some("a:1".to_owned()),
        };
        assert_eq!(event, wanted);
        assert_eq!(parse_event(": comment"), None);
    }
}
