//! The HTTP+SSE transport of 2024-11-05. It is not loaded, but recognized, so that its server is
//! not taken for one without MCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane_tls::TlsStream;

use crate::generator::RunConfig;
use crate::target::{Target, Transport};

/// How long a connection, and each read, may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a response that are read.
const RESPONSE_BYTES_MAX: usize = 16 << 10;
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
    let fields = config.request_settings.fields.iter();
    let fields = fields.map(|field| format!("{}: {}\r\n", field.name(), field.value()));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAccept: text/event-stream\r\n{}\r\n",
        fields.collect::<String>()
    );
    request_first_event(config, &request).is_ok_and(|response| is_endpoint_event(&response))
}

/// Sends a request and reads until the first event is complete, at most the limit.
fn request_first_event(config: &RunConfig, request: &str) -> io::Result<Vec<u8>> {
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

fn read_first_event(mut stream: impl Read + Write, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let (mut response, mut buffer) = (Vec::new(), [0; 1_024]);
    while response.len() < RESPONSE_BYTES_MAX && !is_endpoint_event(&response) {
        match stream.read(&mut buffer)? {
            0 => break,
            length => response.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(response)
}

/// Returns whether a response is an event stream that has begun with the event `endpoint`.
fn is_endpoint_event(response: &[u8]) -> bool {
    let text = String::from_utf8_lossy(response);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut lines = head.lines();
    let is_ok = lines.next().is_some_and(|status| status.split(' ').nth(1) == Some("200"));
    let is_stream = lines.map(str::to_ascii_lowercase).any(|line| {
        line.strip_prefix("content-type:").is_some_and(|kind| kind.contains("text/event-stream"))
    });
    let is_endpoint =
        |line: &str| line.strip_prefix("event:").is_some_and(|event| event.trim() == "endpoint");
    is_ok && is_stream && body.lines().any(is_endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_endpoint_event_is_recognized() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
        for (response, expected) in [
            (format!("{head}event: endpoint\r\ndata: /messages\r\n\r\n"), true),
            (format!("{head}1c\r\nevent:endpoint\ndata: /messages\n\n"), true),
            (format!("{head}event: message\ndata: endpoint\n\n"), false),
            (head.replace("200", "404") + "event: endpoint\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nevent: endpoint\n".to_owned(), false),
            (head.trim_end().to_owned(), false),
        ] {
            assert_eq!(is_endpoint_event(response.as_bytes()), expected, "{response}");
        }
    }
}
