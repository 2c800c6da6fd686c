//! Sends requests over HTTP on a thread that may wait: for key sets, about tokens, with spans.
//!
//! Invariants: time and size are bounded; no redirect is followed; keys and tokens go to loopback
//! addresses only by `http`.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
#[cfg(feature = "_tls")]
use std::sync::OnceLock;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::{Clock, unix_ms};
use corelane_tls::{Roots, TlsStream};
#[cfg(feature = "_tls")]
use corelane_tls::{TlsClient, TlsClientOptions, Trust};
use corelane_transport::http::client::response_head::ResponseLimits;
use corelane_transport::http::client::response_reader::{ResponseEvent, ResponseReader};
use url::{Host, Position, Url};

/// Time for one fetch.
const TIMEOUT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 16 << 10;

/// A fetched document.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) body: Vec<u8>,
    /// `max-age` of `Cache-Control` (RFC 9111, section 5.2.2.1).
    pub(super) max_age: Option<Duration>,
}

/// A form to send.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    /// The value of `Authorization`.
    pub(super) authorization: Option<&'a str>,
    /// The encoded form.
    pub(super) body: &'a str,
}

/// A request.
#[derive(Clone, Copy)]
pub(super) struct FetchRequest<'a> {
    /// What the response may be.
    pub(super) accept: &'a str,
    /// Further fields, a line with its end each.
    pub(super) fields: &'a str,
    /// The body of a POST, and its media type; `None` for a GET.
    pub(super) content: Option<(&'a str, &'a [u8])>,
    /// Time for the whole exchange.
    pub(super) timeout: Duration,
}

/// A response, whatever its status.
#[derive(Debug)]
pub(super) struct FetchResponse {
    pub(super) status: u16,
    /// How long its sender is to wait, by `Retry-After`.
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the exporter repeats"))]
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
    /// The head, and what came with it.
    head: Vec<u8>,
}

/// Opens connections to servers of keys, whose certificates are of these authorities.
#[derive(Debug)]
pub(super) struct Fetcher {
    /// `None` for those of the system.
    #[cfg_attr(
        not(feature = "_tls"),
        expect(dead_code, reason = "this build opens no encrypted connection")
    )]
    authorities: Option<Roots>,
    #[cfg(feature = "_tls")]
    of_system: OnceLock<Roots>,
}

/// Parses the URL of a server of keys.
///
/// # Errors
///
/// It is not a URL, or it begins with `http` and does not name this machine.
pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{text} is not a URL: {error}"))?;
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" if cfg!(feature = "_tls") => Ok(url),
        "https" => Err(format!("{text}: this build has no TLS (feature tls)")),
        "http" if is_loopback => Ok(url),
        _ => Err(format!("{text} must begin with https, or with http for this machine")),
    }
}

impl Fetcher {
    /// Trusts the authorities of these PEM files instead of those of the system, if there are any.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why.
    pub(super) fn load(authorities: &[PathBuf]) -> Result<Self, String> {
        let mut all: Option<Roots> = None;
        for path in authorities {
            let name = path.display().to_string();
            let pem = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
            let more = Roots::from_pem(&pem, &name)?;
            all = Some(match all {
                Some(roots) => roots.with(&more),
                None => more,
            });
        }
        Ok(Self {
            authorities: all,
            #[cfg(feature = "_tls")]
            of_system: OnceLock::new(),
        })
    }

    /// Fetches the document at `url`, or the response to a form.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    pub(super) fn fetch(&self, url: &Url, form: Option<&Form<'_>>) -> Result<Fetched, String> {
        let response = match form {
            None => self.send(url, &DOCUMENT)?,
            Some(Form { authorization, body }) => {
                let fields = authorization
                    .map(|value| format!("Authorization: {value}\r\n"))
                    .unwrap_or_default();
                let content = Some((FORM_TYPE, body.as_bytes()));
                self.send(url, &FetchRequest { fields: &fields, content, ..DOCUMENT })?
            }
        };
        response.into_document()
    }

    /// Sends a request. Returns the response, whatever its status.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn send(
        &self,
        url: &Url,
        request: &FetchRequest<'_>,
    ) -> Result<FetchResponse, String> {
        let clock = Clock::start();
        let deadline = clock.now().after(request.timeout);
        let connected = connect(url, request.timeout);
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        let request = write_request(url, request);
        let limit = |stream: &TcpStream| limit_time(stream, &clock, deadline);
        if url.scheme() == "https" {
            let mut stream = self.open_tls(url, stream, limit)?;
            stream.write_all(&request).map_err(|error| error.to_string())?;
            return read_response(&mut stream, || {
                if clock.now() < deadline { Ok(()) } else { Err(timed_out()) }
            });
        }
        let mut stream = stream;
        stream.write_all(&request).map_err(|error| error.to_string())?;
        let watched = stream.try_clone().map_err(|error| error.to_string())?;
        read_response(&mut stream, || limit(&watched))
    }

    #[cfg(feature = "_tls")]
    fn open_tls(
        &self,
        url: &Url,
        stream: TcpStream,
        before_read: impl FnMut(&TcpStream) -> io::Result<()>,
    ) -> Result<TlsStream<TcpStream>, String> {
        let roots = self.authorities.as_ref().unwrap_or_else(|| {
            self.of_system
                .get_or_init(|| Roots::from_der(rustls_native_certs::load_native_certs().certs))
        });
        let client = TlsClient::new(TlsClientOptions {
            server_name: url.host_str().unwrap_or_default().trim_matches(['[', ']']),
            is_http: true,
            trust: Trust::Roots(roots.clone()),
            pins: &[],
            identity: None,
        })?;
        TlsStream::open(&client, stream, before_read).map_err(|error| error.to_string())
    }

    #[cfg(not(feature = "_tls"))]
    #[expect(clippy::unused_self, reason = "used in builds with TLS")]
    fn open_tls(
        &self,
        _: &Url,
        _: TcpStream,
        _: impl FnMut(&TcpStream) -> io::Result<()>,
    ) -> Result<TlsStream<TcpStream>, String> {
        Err("this build has no TLS (feature tls)".to_owned())
    }
}

impl FetchResponse {
    /// Returns the document that was asked for.
    fn into_document(self) -> Result<Fetched, String> {
        if self.status != 200 {
            return Err(format!("the server responds with status {}", self.status));
        }
        Ok(Fetched { body: self.body, max_age: max_age(&self.head) })
    }
}

/// A request for a JSON document.
const DOCUMENT: FetchRequest<'_> =
    FetchRequest { accept: "application/json", fields: "", content: None, timeout: TIMEOUT };

const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Returns the bytes of a request.
fn write_request(url: &Url, request: &FetchRequest<'_>) -> Vec<u8> {
    let FetchRequest { accept, fields, content, .. } = request;
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    let method = if content.is_some() { "POST" } else { "GET" };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}{port}\r\nAccept: {accept}\r\n\
         Connection: close\r\n{fields}"
    );
    let mut bytes = head.into_bytes();
    match content {
        None => bytes.extend_from_slice(b"\r\n"),
        Some((media_type, body)) => {
            let length = body.len();
            let rest = format!("Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n");
            bytes.extend_from_slice(rest.as_bytes());
            bytes.extend_from_slice(body);
        }
    }
    bytes
}

fn connect(url: &Url, timeout: Duration) -> io::Result<TcpStream> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Limits the next read to the time that is left.
fn limit_time(stream: &TcpStream, clock: &Clock, deadline: Instant) -> io::Result<()> {
    let left = deadline.since(clock.now());
    if left.is_zero() {
        return Err(timed_out());
    }
    stream.set_read_timeout(Some(left))
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server takes too long")
}

/// Reads one response; `before_read` is called before each read, to limit its time.
fn read_response(
    stream: &mut impl Read,
    before_read: impl Fn() -> io::Result<()>,
) -> Result<FetchResponse, String> {
    let limits = ResponseLimits { body_bytes_max: BODY_BYTES_MAX, ..ResponseLimits::default() };
    let (mut reader, mut body, mut head) = (ResponseReader::new(), Vec::new(), Vec::new());
    let mut input = vec![0; READ_BYTES];
    loop {
        let length = before_read().and_then(|()| stream.read(&mut input));
        let length = length.map_err(|error| error.to_string())?;
        let received = &input[..length];
        if head.len() < limits.head_bytes_max {
            head.extend_from_slice(received);
        }
        let mut from = 0;
        let is_complete = loop {
            match reader.next(received, &mut from, &limits, &mut body) {
                Ok(ResponseEvent::Complete) => break true,
                Ok(ResponseEvent::HeadComplete) => {}
                Ok(ResponseEvent::NeedMore) if length > 0 => break false,
                Ok(ResponseEvent::NeedMore) => match reader.end_of_stream() {
                    Ok(true) => break true,
                    _ => return Err("the connection ended before the response".to_owned()),
                },
                Err(error) => return Err(error.to_string()),
            }
        };
        if is_complete {
            let status = reader.head().map_or(0, |head| head.status);
            let retry_after = reader.head().and_then(|head| head.retry_delay(unix_ms()));
            return Ok(FetchResponse { status, retry_after, body, head });
        }
    }
}

/// Returns `max-age` of `Cache-Control` in a head and what follows it.
fn max_age(head: &[u8]) -> Option<Duration> {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (head, _) = text.split_once("\r\n\r\n")?;
    let mut values = head.lines().filter_map(|line| line.strip_prefix("cache-control:"));
    let mut directives = values.next()?.split(',').map(str::trim);
    let age = directives.find_map(|directive| directive.strip_prefix("max-age="))?;
    age.trim_matches('"').parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Fetched, String> {
        read_response(&mut text.as_bytes(), || Ok(()))?.into_document()
    }

    #[test]
    fn request_has_fields_and_body() {
        let url = Url::parse("https://as.test:444/in?x=1#y").unwrap();
        let content = Some((FORM_TYPE, &b"token=a"[..]));
        let request = FetchRequest { fields: "Authorization: Basic YTpi\r\n", content, ..DOCUMENT };
        let text = String::from_utf8(write_request(&url, &request)).unwrap();
        assert!(text.starts_with("POST /in?x=1 HTTP/1.1\r\nHost: as.test:444\r\n"), "{text}");
        assert!(text.contains("\r\nAuthorization: Basic YTpi\r\n"), "{text}");
        assert!(text.ends_with("\r\nContent-Length: 7\r\n\r\ntoken=a"), "{text}");
        let text = String::from_utf8(write_request(&url, &DOCUMENT)).unwrap();
        assert!(text.starts_with("GET /in?x=1 HTTP/1.1\r\n") && text.ends_with("\r\n\r\n"));
        assert!(!text.contains("Authorization"));
    }

    #[test]
    fn response_has_body_and_age() {
        let text = "HTTP/1.1 200 OK\r\nCache-Control: public, Max-Age=600\r\n\
                    Content-Length: 2\r\n\r\n{}";
        let fetched = read(text).unwrap();
        assert_eq!(
            (&fetched.body[..], fetched.max_age),
            (&b"{}"[..], Some(Duration::from_mins(10)))
        );
        let fetched = read("HTTP/1.1 200 OK\r\n\r\nmax-age=1").unwrap();
        assert_eq!((&fetched.body[..], fetched.max_age), (&b"max-age=1"[..], None));
    }

    #[test]
    fn redirect_and_error_are_failures() {
        for head in ["302 Found\r\nLocation: http://127.0.0.1/", "404 Not Found", "500 Error"] {
            let text = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
            let status = &head[..3];
            assert_eq!(
                read(&text).unwrap_err(),
                format!("the server responds with status {status}")
            );
        }
    }

    #[test]
    fn truncated_or_large_response_is_a_failure() {
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}").is_err());
        assert!(read("").is_err());
        let large = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
        assert_eq!(read(&large).unwrap_err(), "the body of the response is too large");
    }

    #[test]
    fn plain_http_is_allowed_for_loopback_only() {
        for url in ["http://127.0.0.1:1/k", "http://[::1]/k", "http://localhost/k"] {
            assert!(parse_url(url).is_ok(), "{url}");
        }
        for url in ["http://as.test/k", "http://10.0.0.1/k", "ftp://localhost/k", "keys.json"] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }
}
