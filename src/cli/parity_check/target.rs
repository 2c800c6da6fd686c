//! The target of the command line: the server that is checked.

use std::ffi::OsString;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use corelane_client::{Target, TlsOptions, tls_client};
use corelane_parity_check::{Address, Duplex, Endpoint, Tls, Transport};
use corelane_tls::{TlsClient, TlsStream};
use url::Url;

/// The path of a URL that names none.
const DEFAULT_PATH: &str = "/parity";

/// TLS as the client commands have it.
#[derive(Debug)]
struct ClientTls(TlsClient);

impl Tls for ClientTls {
    fn open(&self, socket: TcpStream) -> io::Result<Box<dyn Duplex>> {
        let stream = TlsStream::open(&self.0, socket, |_| Ok(())).map_err(io::Error::other)?;
        Ok(Box::new(stream))
    }
}

/// Reads a target: `tcp://`, `tls://`, `ws://`, `wss://`, `http://`, `https://` or `stdio:`.
pub(super) fn parse(text: &str, ca_file: Option<PathBuf>) -> Result<Endpoint, String> {
    let transport = match text.strip_prefix("stdio:") {
        Some(command) => parse_command(command)?,
        None => parse_url(text, ca_file)?,
    };
    Ok(Endpoint { text: text.to_owned(), transport })
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
    let tls = tls.map(|client| Arc::new(ClientTls(client)) as Arc<dyn Tls>);
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
        let parsed = |text| parse(text, None).unwrap().transport;
        assert!(matches!(parsed("tcp://[::1]:7"), Transport::Tcp(_)));
        let Transport::Stdio { arguments, .. } = parsed("stdio:server 'a b'") else {
            panic!("not a program");
        };
        assert_eq!(arguments, ["a b"]);
        assert!(matches!(parsed("ws://localhost/x"), Transport::WebSocket { .. }));
        let Transport::Http { address, path } = parsed("http://[::1]:7") else {
            panic!("not HTTP");
        };
        assert_eq!((address.host.as_str(), address.port, path.as_str()), ("::1", 7, "/parity"));
        for text in ["stdio:", "stdio:'", "unix:/a", "ftp://a", "tcp://a"] {
            assert!(parse(text, None).is_err(), "{text}");
        }
    }
}
