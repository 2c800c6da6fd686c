//! TLS of the listeners: our client, and others, against a server with certificates.

mod certificates;
mod expiry;
mod handshakes;
mod judges;
mod plaintext;
mod resumption;
mod threads;
mod transports;

use std::fs;
use std::path::{Path, PathBuf};

use corelane::client::{ClientBuilder, ClientError, TlsOptions};
use corelane::{Client, Options};
use corelane_test_support::tls::{Certificate, CertificateValidity, Issuer};
use corelane_test_support::{TestServer, http_and_tcp_options};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;

/// An authority, and a directory with the files of servers.
struct Authority {
    issuer: Issuer,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        Self { issuer: Issuer::new(), directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// Sets a certificate for `localhost` and its key.
    fn certify(&self, options: &mut Options) {
        let certificate = self.issuer.server_certificate(CertificateValidity::Valid);
        self.write_certificate(options, "localhost", &certificate);
    }

    /// Adds a certificate and its key.
    fn write_certificate(&self, options: &mut Options, name: &str, certificate: &Certificate) {
        let tls = &mut options.tls;
        tls.certificates.push(self.write(&format!("{name}.pem"), &certificate.pem()));
        tls.keys.push(self.write(&format!("{name}.key"), &certificate.key_pem()));
    }

    /// Options of a server with a certificate, over TCP, HTTP and WebSocket.
    fn server_options(&self) -> Options {
        let mut options = http_and_tcp_options();
        self.certify(&mut options);
        options
    }

    /// Trusts this authority and no other.
    fn trusting(&self) -> TlsOptions {
        TlsOptions::new().ca(self.issuer.pem().into_bytes())
    }

    /// A client of `localhost` that trusts this authority.
    fn client(&self, scheme: &str, port: u16) -> ClientBuilder {
        Client::builder(format!("{scheme}://localhost:{port}").as_str()).tls(self.trusting())
    }
}

/// Returns the number of handshakes with this result.
fn handshakes(server: &TestServer, result: &str) -> u64 {
    let results = server.handle().tls_handshakes();
    results.into_iter().find(|(name, _)| *name == result).expect("a result").1
}

/// The arguments of the tool `echo`.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Echo {
    message: String,
}

fn echo(client: &Client, message: &str) -> Result<String, ClientError> {
    let result = client.call_tool("echo", &json!({ "message": message })).wait();
    result.map(|result| result.text())
}
