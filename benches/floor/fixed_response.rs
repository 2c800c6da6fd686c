//! A minimal HTTP server: finds the end of a request and sends the same response.
//!
//! It searches the empty line and the `Content-Length` as this bench writes it; no method, no other
//! field, no JSON. Its response has the size of a correct one, so the kernel transfers as much as
//! for a real server.

use std::io;

use corelane_bench_support::requests::{Era, FIRST_ID, message};
use memchr::memmem::Finder;

/// Server info in the response of the modern era.
const SERVER: &str = concat!(
    r#","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"corelane","#,
    r#""title":"Corelane","description":"A thread-per-core engine that serves the Model Context "#,
    r#"Protocol over io_uring","version":"0.1.0"}}"#
);

/// The response and the patterns that delimit requests.
#[derive(Debug)]
pub(crate) struct FixedResponse {
    response: Vec<u8>,
    end: Finder<'static>,
    length: Finder<'static>,
}

impl FixedResponse {
    /// Creates the response to the first call of the echo tool.
    pub(crate) fn new(era: Era, message_bytes: usize) -> Self {
        let server = match era {
            Era::Legacy => "",
            Era::Modern => SERVER,
        };
        let message = message(message_bytes);
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"result\":{{\"content\":[{{\"type\":\"text\",\
             \"text\":\"{message}\"}}]{server}}}}}"
        );
        let response = format!(
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self {
            response: response.into_bytes(),
            end: Finder::new(b"\r\n\r\n"),
            length: Finder::new(b"\r\nContent-Length: "),
        }
    }

    /// Appends the response to the request at the start of `bytes` and returns the length of the
    /// request, or `None` if it is incomplete.
    pub(crate) fn respond(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let length = self.request_bytes(bytes)?;
        out.extend_from_slice(&self.response);
        Some(length)
    }

    /// Returns the length of a complete request.
    fn request_bytes(&self, bytes: &[u8]) -> Option<usize> {
        let end = self.end.find(bytes)?;
        let text = self.length.find(&bytes[..end]).map_or(0, |at| {
            let digits = bytes[at + self.length.needle().len()..].iter();
            let digits = digits.take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
        });
        let length = end + self.end.needle().len() + text;
        (length <= bytes.len()).then_some(length)
    }
}

/// Reads the era and the message length from the command line of the child.
pub(crate) fn read(era: &str, message_bytes: &str) -> io::Result<FixedResponse> {
    let era = [Era::Legacy, Era::Modern].into_iter().find(|known| known.name() == era);
    let era = era.ok_or_else(|| io::Error::other("unknown era: expected legacy or modern"))?;
    Ok(FixedResponse::new(era, message_bytes.parse().map_err(io::Error::other)?))
}
