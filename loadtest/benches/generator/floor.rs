//! The floor server: the cheapest server whose responses a client accepts.
//!
//! It finds the end of a request, copies the digits of its id into a fixed response, and parses
//! nothing else.

use std::io;

use corelane_bench_support::ring_server::{listen, serve, split_messages};
use corelane_engine::clock::Clock;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::uring::UringRing;
use corelane_load::mcp::request_template::ID_DIGITS;
use memchr::memchr;
use memchr::memmem::Finder;

/// Position of the id in a request and in a response: both begin with the same members.
const ID_AT: usize = r#"{"jsonrpc":"2.0","id":"#.len();

/// Metadata of a modern response, as long as that of a real server.
const METADATA: &str = concat!(
    r#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"floor","#,
    r#""title":"The floor","description":"The least that a server of the Model Context Protocol "#,
    r#"can do on a ring: one answer, whatever it is asked","version":"0.1.0"}}"#
);

/// Serves HTTP or lines until the process is killed.
pub(crate) fn run(is_http: bool, message: &str) -> io::Result<()> {
    let ring = UringRing::new(&RingOptions::default(), Clock::start())?;
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1000000000,\"result\":{{\"content\":[{{\"type\":\"text\",\
         \"text\":\"{message}\"}}],{METADATA}}}}}"
    );
    if is_http {
        let head = format!(
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = FixedResponse { id_at: head.len() + ID_AT, text: format!("{head}{body}") };
        let (end, length) = (Finder::new("\r\n\r\n"), Finder::new("\r\nContent-Length: "));
        let post = |bytes: &[u8]| {
            let text_at = end.find(bytes)? + end.needle().len();
            let digits = &bytes[length.find(&bytes[..text_at])? + length.needle().len()..];
            let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
            let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
            Some((text_at, text_at + length))
        };
        serve(ring, listen()?, answer.into_service(post))
    } else {
        let answer = FixedResponse { id_at: ID_AT, text: format!("{body}\n") };
        serve(ring, listen()?, answer.into_service(|bytes| Some((0, memchr(b'\n', bytes)? + 1))))
    }
}

/// The fixed response.
struct FixedResponse {
    text: String,
    id_at: usize,
}

impl FixedResponse {
    /// Returns a service that answers requests; `measure` returns the start and end of the JSON
    /// text.
    fn into_service(
        self,
        measure: impl Fn(&[u8]) -> Option<(usize, usize)>,
    ) -> impl FnMut(&[u8], &mut Vec<u8>, &mut Vec<u8>) {
        move |arrived, buffered, out| {
            split_messages(arrived, buffered, |bytes| {
                let (text_at, end) = measure(bytes)?;
                let id = bytes.get(text_at + ID_AT..end)?.get(..ID_DIGITS)?;
                let start = out.len() + self.id_at;
                out.extend_from_slice(self.text.as_bytes());
                out[start..start + ID_DIGITS].copy_from_slice(id);
                Some(end)
            });
        }
    }
}
