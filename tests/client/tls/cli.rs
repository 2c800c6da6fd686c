//! The flags of the client commands that concern TLS.

use std::fs;
use std::process::Command;

use corelane_test_support::tls::{CertificateValidity, Issuer, Terminator, TlsFault, VERSIONS};
use corelane_test_support::{ExitResult, TestServer, http_options};
use corelane_tls::Pin;
use tempfile::TempDir;

use crate::CORELANE;

/// Calls `echo`, with the root certificates of `roots`.
fn call(target: &str, flags: &[&str], roots: &str) -> ExitResult {
    let mut command = Command::new(CORELANE);
    command.args(["call", target, "echo", "message=hi"]).args(flags);
    command.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
    command.output().expect("the program runs").into()
}

/// Files with certificates.
struct Files(TempDir);

impl Files {
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}

#[test]
fn tls_flags_set_trust_and_identity() {
    let (issuer, clients) = (Issuer::new(), Issuer::named("clients"));
    let server = TestServer::start(http_options());
    let certificate = issuer.server_certificate(CertificateValidity::Valid);
    let config = certificate.server(Some(&clients), &VERSIONS);
    let port = Terminator::start(server.http(), config, TlsFault::NoFault).port();
    let files = Files(TempDir::new().unwrap());
    let ca = files.write("ca.pem", &issuer.pem());
    let other = files.write("other.pem", &Issuer::named("other").pem());
    let client = clients.client();
    let cert = files.write("cert.pem", &client.pem());
    let key = files.write("key.pem", &client.key_pem());
    let pin = Pin::of_public_key(&certificate.public_key()).to_string();
    let url = format!("https://localhost:{port}");
    let identity = ["--cert", &cert, "--key", &key];
    let with = |flags: &[&str], roots: &str| call(&url, &[&identity, flags].concat(), roots);
    for (flags, roots) in [
        (&["--ca", &ca][..], other.as_str()),
        (&["--ca", &ca, "--pin", &pin][..], &other),
        (&[][..], &ca),
    ] {
        let result = with(flags, roots);
        assert_eq!((result.status, result.stdout.as_str()), (0, "hi\n"), "{}", result.stderr);
    }
    let by_address = format!("https://127.0.0.1:{port}");
    let named = [&identity[..], &["--server-name", "localhost"]].concat();
    assert_eq!(call(&by_address, &named, &ca).status, 0);
    for (result, text) in [
        (with(&[], &other), "unknown issuer; pass --ca FILE with the issuer"),
        (with(&["--pin", "4ZRpvOPb5T4SyX0VjrLLOqmZVa8Ym0nFYTmwZwcjIvY="], &ca), "; pass this pin"),
        (call(&by_address, &identity, &ca), "not for 127.0.0.1; pass --server-name NAME"),
        (call(&url, &[], &ca), "requires a client certificate; pass --cert FILE and --key FILE"),
    ] {
        assert_eq!((result.status, result.stdout.as_str()), (1, ""), "{}", result.stderr);
        assert!(result.stderr.contains(text), "{}", result.stderr);
        assert_eq!(result.stderr.lines().count(), 1, "{}", result.stderr);
    }
}

#[test]
fn invalid_tls_flags_are_usage_errors() {
    for (target, flags, text) in [
        ("http://127.0.0.1:1", &["--ca", "a.pem"][..], "https://, wss:// or tls://"),
        ("https://127.0.0.1:1", &["--ca", "/nowhere.pem"], "cannot read /nowhere.pem"),
        ("https://127.0.0.1:1", &["--cert", "a.pem"], "--key"),
        ("tls://127.0.0.1:1", &["--pin", "abc"], "44 characters"),
    ] {
        let result = call(target, flags, "");
        assert_eq!((result.status, result.stdout.as_str()), (2, ""), "{}", result.stderr);
        assert!(result.stderr.contains(text), "{}", result.stderr);
    }
}
