//! The HTTP+SSE transport of 2024-11-05. It is not loaded, but recognized, so that its server is
//! not taken for one without MCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane_tls::TlsStream;
use corelane_transport::http::client::event_reader::EventReader;
use corelane_transport::http::client::request_writer::RequestFields;
use corelane_transport::http::client::response_head::{ResponseError, ResponseLimits};
use corelane_transport::http::client::response_reader::{ResponseEvent, ResponseReader};

use crate::generator::RunConfig;
use crate::mcp::RequestSettings;
use crate::target::{Era, Target, Transport};

/// How long a connection, and each read, may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Reads of a response, at most, of 1 KiB each.
const READS_MAX: usize = 16;
const LIMITS: ResponseLimits =
    ResponseLimits { head_bytes_max: 16 << 10, body_bytes_max: 16 << 10 };
/// Path that most servers of this transport have.
const USUAL_PATH: &str = "/sse";

/// Returns the path at which the server opens an event stream of this transport, if it does: that
/// of the target, or the usual one.
///
/// Source: 2024-11-05 `basic/transports`: the first event is `endpoint`.
pub(super) fn find_event_stream(target: &Target, config: &RunConfig) -> Option<String> {
    let Target::Address { transport: Transport::Http, authority, path, .. } = target else {
        return None;
    };
    let mut paths = vec![path.as_str()];
    if path != USUAL_PATH {
        paths.push(USUAL_PATH);
    }
    paths.into_iter().find(|path| opens_event_stream(config, authority, path)).map(str::to_owned)
}

fn opens_event_stream(config: &RunConfig, authority: &str, path: &str) -> bool {
    let fields = config.request_settings.fields.clone();
    let settings = RequestSettings::new(Transport::Http, Era::Legacy, authority, path, fields);
    let Ok(settings) = settings else { return false };
    let mut request = Vec::new();
    settings.writer().write_get(&mut request, &RequestFields::default());
    request_first_event(config, &request).unwrap_or(false)
}

/// Sends a request; returns whether the first event of the response is `endpoint`.
fn request_first_event(config: &RunConfig, request: &[u8]) -> io::Result<bool> {
    let address = config.endpoint.addresses().first().ok_or(io::ErrorKind::NotFound)?;
    let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    match &config.tls {
        None => read_first_event(stream, request),
        Some(tls) => {
            let stream = TlsStream::open(tls.client(), stream, |_| Ok(()));
            read_first_event(stream.map_err(io::Error::other)?, request)
        }
    }
}

fn read_first_event(mut stream: impl Read + Write, request: &[u8]) -> io::Result<bool> {
    stream.write_all(request)?;
    let (mut response, mut buffer) = (StreamStart::default(), [0; 1_024]);
    for _ in 0..READS_MAX {
        let length = stream.read(&mut buffer)?;
        let is_endpoint = response.receive(&buffer[..length]).unwrap_or(Some(false));
        if length == 0 || is_endpoint.is_some() {
            return Ok(is_endpoint.unwrap_or(false));
        }
    }
    Ok(false)
}

/// The beginning of a response.
#[derive(Debug, Default)]
struct StreamStart {
    response: ResponseReader,
    body: Vec<u8>,
    events: EventReader,
}

impl StreamStart {
    /// Returns whether the response is an event stream that begins with `endpoint`, once that is
    /// known.
    fn receive(&mut self, bytes: &[u8]) -> Result<Option<bool>, ResponseError> {
        let mut from = 0;
        loop {
            let part = self.response.next(bytes, &mut from, &LIMITS, &mut self.body)?;
            match self.response.head() {
                None => return Ok(None),
                Some(head) if !head.is_event_stream() => return Ok(Some(false)),
                Some(_) => {}
            }
            if self.events.next(&self.body, &mut 0, LIMITS.body_bytes_max)? {
                return Ok(Some(self.events.event().event_type == b"endpoint"));
            }
            self.body.clear();
            match part {
                ResponseEvent::HeadComplete => {}
                ResponseEvent::NeedMore => return Ok(None),
                ResponseEvent::Complete => return Ok(Some(false)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_endpoint_event_is_recognized() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
        let chunked = "charset=utf-8\r\nTransfer-Encoding: chunked";
        for (response, expected) in [
            (format!("{head}event: endpoint\r\ndata: /messages\r\n\r\n"), Some(true)),
            (
                head.replace("charset=utf-8", chunked)
                    + "f\r\nevent:endpoint\n\r\n8\r\ndata:/m\n\r\n1\r\n\n\r\n",
                Some(true),
            ),
            (format!("{head}event: message\ndata: endpoint\n\n"), Some(false)),
            (head.replace("200", "404") + "event: endpoint\ndata: 1\n\n", Some(false)),
            ("HTTP/1.1 200 OK\r\n\r\nevent: endpoint\ndata: 1\n\n".to_owned(), Some(false)),
            (head.trim_end().to_owned(), None),
        ] {
            for length in [response.len(), 1] {
                let (mut start, mut seen) = (StreamStart::default(), None);
                for bytes in response.as_bytes().chunks(length) {
                    let is_endpoint = start.receive(bytes).unwrap();
                    seen = seen.or(is_endpoint);
                }
                assert_eq!(seen, expected, "{response} in pieces of {length}");
            }
        }
    }
}
