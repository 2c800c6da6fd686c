//! The floor: the least that a server can do whose answers a client takes for right.
//!
//! It finds where a request ends, copies the digits of its id into the one answer that there is,
//! and looks at nothing else.

use std::io;

use corelane::engine::clock::Clock;
use corelane::engine::ring::RingOptions;
use corelane::engine::ring::uring::UringRing;
use corelane_load::dialogue::call::ID_DIGITS;
use memchr::memchr;
use memchr::memmem::Finder;

use crate::answering::{listen, piece_together, serve};

/// Where the id stands in a request and in an answer: both begin with the same members.
const ID_AT: usize = r#"{"jsonrpc":"2.0","id":"#.len();

/// What every answer of the modern era says of its server, in the length of a real one.
const SERVER: &str = concat!(
    r#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"floor","#,
    r#""title":"The floor","description":"The least that a server of the Model Context Protocol "#,
    r#"can do on a ring: one answer, whatever it is asked","version":"0.1.0"}}"#
);

/// Serves until the process is killed: posts, or lines.
pub(crate) fn run(is_http: bool, message: &str) -> io::Result<()> {
    let ring = UringRing::new(&RingOptions::default(), Clock::start())?;
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1000000000,\"result\":{{\"content\":[{{\"type\":\"text\",\
         \"text\":\"{message}\"}}],{SERVER}}}}}"
    );
    if is_http {
        let head = format!(
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = Answer { id_at: head.len() + ID_AT, text: format!("{head}{body}") };
        let (end, length) = (Finder::new("\r\n\r\n"), Finder::new("\r\nContent-Length: "));
        let post = |bytes: &[u8]| {
            let text_at = end.find(bytes)? + end.needle().len();
            let digits = &bytes[length.find(&bytes[..text_at])? + length.needle().len()..];
            let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
            let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
            Some((text_at, text_at + length))
        };
        serve(ring, listen()?, answer.to(post))
    } else {
        let answer = Answer { id_at: ID_AT, text: format!("{body}\n") };
        serve(ring, listen()?, answer.to(|bytes| Some((0, memchr(b'\n', bytes)? + 1))))
    }
}

/// The one answer.
struct Answer {
    text: String,
    id_at: usize,
}

impl Answer {
    /// Answers requests, of which `measure` tells where the text and where the whole ends.
    fn to(
        self,
        measure: impl Fn(&[u8]) -> Option<(usize, usize)>,
    ) -> impl FnMut(&[u8], &mut Vec<u8>, &mut Vec<u8>) {
        move |arrived, begun, out| {
            piece_together(arrived, begun, |bytes| {
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
