//! Which servers a client accepts, and the certificate of the client.

use std::path::Path;

use corelane::Client;
use corelane::client::{ClientError, ClientErrorKind, TlsOptions};
use corelane_test_support::tls::{CertificateValidity, Issuer, Terminator, TlsFault, VERSIONS};
use corelane_test_support::{TestServer, http_options, tcp_options};
use corelane_tls::Pin;

use super::{client_of, echo, trusting};

/// Checks that a connection is not secure, for a reason that has `text`.
fn assert_not_secure(result: Result<Client, ClientError>, text: &str) {
    let error = result.expect_err("the connection is not secure");
    assert_eq!(error.kind(), ClientErrorKind::Tls, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn invalid_server_certificate_is_refused() {
    let (issuer, server) = (Issuer::new(), TestServer::start(http_options()));
    let start = |config| Terminator::start(server.http(), config, TlsFault::NoFault).port();
    let port = start(issuer.good_server());
    let connect = |tls| client_of("https", port).tls(tls).connect_blocking();
    assert_not_secure(connect(trusting(&Issuer::named("other"))), "unknown issuer");
    assert_not_secure(connect(trusting(&issuer).server_name("a.example")), "not for a.example");
    let by_address = |tls| {
        Client::builder(format!("https://127.0.0.1:{port}").as_str()).tls(tls).connect_blocking()
    };
    assert_not_secure(by_address(trusting(&issuer)), "is for localhost, not for 127.0.0.1");
    let client = by_address(trusting(&issuer).server_name("localhost")).unwrap();
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
    for (validity, text) in [
        (CertificateValidity::Expired, "has expired"),
        (CertificateValidity::Authority, "is that of an authority"),
    ] {
        let port = start(issuer.server(validity, None, &VERSIONS));
        let refused = client_of("https", port).tls(trusting(&issuer)).connect_blocking();
        assert_not_secure(refused, text);
    }
}

#[test]
fn certificates_of_several_authorities_are_trusted() {
    let (issuer, server) = (Issuer::new(), TestServer::start(tcp_options()));
    let config = issuer.good_server();
    let port = Terminator::start(server.tcp(), config, TlsFault::NoFault).port();
    let tls = trusting(&Issuer::named("other")).additional_ca(issuer.pem().into_bytes());
    let client = client_of("tls", port).tls(tls).connect_blocking().unwrap();
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
}

#[test]
fn pinned_public_key_is_required() {
    let (issuer, server) = (Issuer::new(), TestServer::start(http_options()));
    let certificate = issuer.server_certificate(CertificateValidity::Valid);
    let config = certificate.server(None, &VERSIONS);
    let port = Terminator::start(server.http(), config, TlsFault::NoFault).port();
    let pin = Pin::of_public_key(&certificate.public_key()).to_string();
    let other = Pin::of_public_key(b"another key").to_string();
    let connect = |tls| client_of("https", port).tls(tls).connect_blocking();
    for tls in [trusting(&issuer).pin(&pin), trusting(&issuer).pin(&other).pin(&pin)] {
        assert_eq!(echo(&connect(tls).unwrap(), "hi").unwrap(), "hi");
    }
    let text = format!("not pinned: its pin is {pin}");
    assert_not_secure(connect(trusting(&issuer).pin(&other)), &text);
    // A pin does not replace the checks of the certificate.
    assert_not_secure(connect(trusting(&Issuer::named("other")).pin(&pin)), "unknown issuer");
}

#[test]
fn client_certificate_is_sent_or_missing() {
    let (issuer, clients) = (Issuer::new(), Issuer::named("clients"));
    let (lines, http) = (TestServer::start(tcp_options()), TestServer::start(http_options()));
    let with = |issuer: &Issuer, by: &Issuer| {
        let certificate = by.client();
        let (chain, key) = (certificate.pem(), certificate.key_pem());
        trusting(issuer).client_certificate(chain.into_bytes(), key.into_bytes())
    };
    for version in VERSIONS {
        for (scheme, behind) in [("tls", lines.tcp()), ("https", http.http())] {
            let config = issuer.server(CertificateValidity::Valid, Some(&clients), &[version]);
            let port = Terminator::start(behind, config, TlsFault::NoFault).port();
            let connect = |tls| client_of(scheme, port).tls(tls).connect_blocking();
            let client = connect(with(&issuer, &clients)).unwrap();
            assert_eq!(echo(&client, "hi").unwrap(), "hi", "{scheme} {version:?}");
            let text = "the server requires a client certificate";
            assert_not_secure(connect(trusting(&issuer)), text);
            let text = "the server rejected the client certificate";
            assert_not_secure(connect(with(&issuer, &issuer)), text);
        }
    }
}

#[test]
fn invalid_tls_options_are_refused() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let (certificate, key) = (issuer.client(), other.client());
    let mismatch = TlsOptions::new()
        .client_certificate(certificate.pem().into_bytes(), key.key_pem().into_bytes());
    let no_key = TlsOptions::new()
        .client_certificate(certificate.pem().into_bytes(), certificate.pem().into_bytes());
    for (target, tls, text) in [
        ("http://127.0.0.1:1", TlsOptions::new(), "https://, wss:// or tls://"),
        ("tcp://127.0.0.1:1", trusting(&issuer), "https://, wss:// or tls://"),
        ("https://a", TlsOptions::new().ca(b"x".as_slice()), "contains no certificate"),
        ("https://a", TlsOptions::new().ca(Path::new("/nowhere.pem")), "cannot read /nowhere.pem"),
        ("https://a", trusting(&issuer).pin("abc"), "'abc' is not a pin"),
        ("https://a", trusting(&issuer).server_name("a b"), "'a b'"),
        ("tls://a:1", mismatch.ca(issuer.pem().into_bytes()), "do not work"),
        ("tls://a:1", no_key.ca(issuer.pem().into_bytes()), "no PEM private key"),
    ] {
        let error = Client::builder(target).tls(tls).connect_lazy().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn tls_options_debug_format_omits_key() {
    let certificate = Issuer::new().client();
    let tls = TlsOptions::new()
        .client_certificate(certificate.pem().into_bytes(), certificate.key_pem().into_bytes());
    let text = format!("{tls:?}");
    assert!(text.contains("Text(..)") && !text.contains("BEGIN"), "{text}");
}
