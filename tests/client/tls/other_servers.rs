//! A server with the TLS of OpenSSL, by the standard library of Python.

use std::fs;
use std::path::Path;
use std::process::Command;

use corelane::client::{ClientErrorKind, TlsOptions};
use corelane_test_support::ListeningProcess;
use corelane_test_support::tls::{CertificateValidity, Issuer};
use tempfile::TempDir;

use super::{client_of, echo, trusting};

#[ignore = "needs Python: ./test.sh runs it"]
#[test]
fn python_serves_https_with_client_certificate() {
    let (issuer, files) = (Issuer::new(), TempDir::new().unwrap());
    let write = |name: &str, text: String| {
        let path = files.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let server = issuer.server_certificate(CertificateValidity::Valid);
    let ca = write("ca.pem", issuer.pem());
    let (cert, key) = (write("cert.pem", server.pem()), write("key.pem", server.key_pem()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/tls/server.py");
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new("python3");
        command.arg(&script).arg(port.to_string()).args([&cert, &key, &ca]);
        command
    });
    let port = server.url().split(':').nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
    let client = issuer.client();
    let client_chain = write("client.pem", client.pem());
    let tls = TlsOptions::new()
        .ca(ca.as_path())
        .client_certificate(client_chain, client.key_pem().into_bytes());
    let client = client_of("https", port).tls(tls).connect_blocking().unwrap();
    for text in ["hi".to_owned(), "x".repeat(100_000)] {
        assert_eq!(echo(&client, &text).unwrap(), text);
    }
    let error = client_of("https", port).tls(trusting(&issuer)).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Tls, "{error}");
    assert!(error.to_string().contains("requires a client certificate"), "{error}");
}
