//! Servers with TLS.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::{HttpClient, HttpDeclaration, HttpTool, call, failed, limits};
use crate::declared::call::Output;

/// A server for the name `localhost` that answers each connection with one response.
struct TlsServer {
    port: u16,
    /// Certificate of its issuer in PEM.
    issuer: String,
    connections: Receiver<()>,
}

impl TlsServer {
    fn start() -> Self {
        let mut issuing = CertificateParams::default();
        issuing.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(issuing, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain = vec![certificate.der().clone()];
        let config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connection_tx, connections) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // The client may close the connection, and the test may have ended.
                let _ended = connection_tx.send(());
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let _closed = stream.and_then(|it| answer(StreamOwned::new(connection, it)));
            }
        });
        Self { port, issuer: issuer.pem(), connections }
    }

    fn tool(&self, host: &str, has_roots: bool) -> HttpTool {
        let issuer = &self.issuer;
        let roots = has_roots.then(|| format!("root_certificates = {issuer:?}"));
        let roots = roots.unwrap_or_default();
        let text = format!(
            "url = \"https://{host}:{}/\"\nprivate_addresses = [\"127.0.0.0/8\"]\n{roots}",
            self.port
        );
        let declaration: HttpDeclaration = toml::from_str(&text).unwrap();
        HttpTool::new(&declaration, &mut HttpClient::new(), limits()).unwrap()
    }
}

fn answer(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) -> std::io::Result<()> {
    let mut reader = BufReader::new(&mut stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4";
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\ntrue").as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

#[test]
fn declared_root_certificate_is_trusted() {
    let server = TlsServer::start();
    let output = call(&server.tool("localhost", true), &json!({}));
    assert_eq!(output, Ok(Output::Json(json!(true))));
}

#[test]
fn untrusted_certificate_is_refused_once() {
    let server = TlsServer::start();
    let text = failed(&server.tool("localhost", false), &json!({}));
    assert!(text.contains("no connection: invalid peer certificate: UnknownIssuer"), "{text}");
    assert!(!text.contains("requests"), "{text}");
    let text = failed(&server.tool("127.0.0.1", true), &json!({}));
    assert!(text.contains("certificate not valid for name"), "{text}");
    assert_eq!(server.connections.try_iter().count(), 2);
}
