//! The server that is checked: its transport and its address.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::client::{Target, TlsOptions, tls_client};
use crate::transport::tls::TlsClient;

/// The path of a URL that names none.
const DEFAULT_PATH: &str = "/parity";

/// A host with a port, and the TLS configuration of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<TlsClient>,
}

/// How messages reach the server.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// One message per line over TCP.
    Tcp(Address),
    /// One message per line over the standard streams of a program.
    Stdio { program: OsString, arguments: Vec<OsString> },
    /// One message per text message of a WebSocket.
    WebSocket { address: Address, path: String },
    /// POST, and Server-Sent Events.
    Http { address: Address, path: String },
}

/// A target of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) text: String,
    pub(crate) transport: Transport,
}

impl Endpoint {
    /// Reads a target: `tcp://`, `tls://`, `ws://`, `wss://`, `http://`, `https://` or `stdio:`.
    pub(crate) fn parse(text: &str, ca_file: Option<PathBuf>) -> Result<Self, String> {
        let transport = match text.strip_prefix("stdio:") {
            Some(command) => parse_command(command)?,
            None => parse_url(text, ca_file)?,
        };
        Ok(Self { text: text.to_owned(), transport })
    }

    /// Returns whether messages are requests of HTTP.
    pub(crate) const fn is_http(&self) -> bool {
        matches!(self.transport, Transport::Http { .. })
    }

    /// Returns whether each connection is a program of its own.
    pub(crate) const fn is_program(&self) -> bool {
        matches!(self.transport, Transport::Stdio { .. })
    }

    /// Returns whether messages are texts of a WebSocket.
    pub(crate) const fn is_websocket(&self) -> bool {
        matches!(self.transport, Transport::WebSocket { .. })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Address {
    /// Returns the value of `Host`.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn parse_command(command: &str) -> Result<Transport, String> {
    let words = shlex::split(command).ok_or("a quote of the command is not closed")?;
    let mut words = words.into_iter().map(OsString::from);
    let program = words.next().ok_or("the command is missing")?;
    Ok(Transport::Stdio { program, arguments: words.collect() })
}

fn parse_url(text: &str, ca_file: Option<PathBuf>) -> Result<Transport, String> {
    let target: Target = text.parse().map_err(|error| format!("{error}"))?;
    let url: Url = text.parse().map_err(|error| format!("'{text}' is not a URL: {error}"))?;
    let options = ca_file.map(|file| TlsOptions::new().ca(file));
    let tls = tls_client(&target, options.as_ref()).map_err(|error| error.to_string())?;
    let host = url.host_str().ok_or("the host is missing")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_or_known_default().ok_or("the port is missing")?;
    let address = Address { host, port, tls };
    let path = match (url.path(), url.query()) {
        ("/" | "", None) => DEFAULT_PATH.to_owned(),
        (path, None) => path.to_owned(),
        (path, Some(query)) => format!("{path}?{query}"),
    };
    match url.scheme() {
        "tcp" | "tls" => Ok(Transport::Tcp(address)),
        "ws" | "wss" => Ok(Transport::WebSocket { address, path }),
        "http" | "https" => Ok(Transport::Http { address, path }),
        scheme => Err(format!("'{scheme}' has no parity dialect")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_text_names_transport() {
        let parse = |text| Endpoint::parse(text, None).unwrap();
        assert!(matches!(parse("tcp://[::1]:7").transport, Transport::Tcp(_)));
        let Transport::Stdio { arguments, .. } = parse("stdio:server 'a b'").transport else {
            panic!("not a program");
        };
        assert_eq!(arguments, ["a b"]);
        assert!(parse("ws://localhost/x").is_websocket());
        let Transport::Http { address, path } = parse("http://[::1]:7").transport else {
            panic!("not HTTP");
        };
        assert_eq!((address.authority().as_str(), path.as_str()), ("[::1]:7", "/parity"));
        for text in ["stdio:", "stdio:'", "unix:/a", "ftp://a", "tcp://a"] {
            assert!(Endpoint::parse(text, None).is_err(), "{text}");
        }
    }
}
