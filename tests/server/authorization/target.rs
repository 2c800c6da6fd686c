//! A server under test that is known by its URL, and the tokens for it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane_test_support::tls::TargetClient;
use serde_json::Value;
use url::{Position, Url};

use crate::authorization::http::{Response, exchange_over, modern_request};

/// A server with tokens for it.
pub(crate) struct Target {
    url: Url,
    /// For `https://`.
    tls: Option<TargetClient>,
    description: Value,
}

/// A connection, encrypted or not.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Target {
    /// The server of a description: `url`, `resource` and tokens; the file `ca` has the authorities
    /// of an `https://` URL in PEM, instead of those of the system.
    pub(crate) fn new(description: Value) -> Self {
        let url = Url::parse(description["url"].as_str().expect("url")).expect("a URL");
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let authorities = description["ca"].as_str();
                let authorities = authorities.map(|path| fs::read(path).expect("the file ca"));
                Some(TargetClient::new(authorities.as_deref()))
            }
            scheme => panic!("{scheme}: the URL begins with neither http:// nor https://"),
        };
        Self { url, tls, description }
    }

    /// The path of the endpoint.
    pub(crate) fn path(&self) -> &str {
        self.url.path()
    }

    /// A text of the description.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.description[name].as_str().unwrap_or_else(|| panic!("{name} is missing"))
    }

    /// Sends a request without body.
    pub(crate) fn get(&self, path: &str) -> Response {
        let host = self.host();
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }

    /// Sends a message of 2026-07-28.
    pub(crate) fn post(&self, path: &str, message: &Value, fields: &str) -> Response {
        self.exchange(&modern_request(self.host(), path, message, fields))
    }

    /// The value of `Host`.
    fn host(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    fn exchange(&self, request: &str) -> Response {
        exchange_over(&mut *self.open(), request)
    }

    fn open(&self) -> Box<dyn Stream> {
        let addresses = self.url.socket_addrs(|| None).expect("an address");
        let stream = TcpStream::connect(&*addresses).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let Some(tls) = &self.tls else { return Box::new(stream) };
        let host = self.url.host_str().expect("a host").trim_matches(['[', ']']);
        Box::new(tls.handshake(host, stream).expect("a handshake"))
    }
}
