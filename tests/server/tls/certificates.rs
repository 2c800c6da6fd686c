//! Certificates of the server and of clients.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use corelane::client::{ClientErrorKind, TlsOptions};
use corelane::options::{ClientCertificateMode, ListenerTlsOptions};
use corelane_test_support::TestServer;
use corelane_test_support::tls::{CertificateValidity, Issuer};

use super::{Authority, echo};

#[test]
fn client_certificate_is_required() {
    let authority = Authority::new();
    let clients = Issuer::named("clients");
    let mut options = authority.server_options();
    options.tls.client_certificates = ClientCertificateMode::Required;
    options.tls.client_authorities = vec![authority.write("clients.pem", &clients.pem())];
    let server = TestServer::start(options);
    for (scheme, port) in [("https", server.http().port()), ("tls", server.tcp().port())] {
        let connect = |tls: TlsOptions| authority.client(scheme, port).tls(tls).connect_blocking();
        let error = connect(authority.trusting()).unwrap_err();
        assert!(error.to_string().contains("requires a client certificate"), "{error}");
        let with = |issuer: &Issuer| {
            let identity = issuer.client();
            let (pem, key) = (identity.pem().into_bytes(), identity.key_pem().into_bytes());
            connect(authority.trusting().client_certificate(pem, key))
        };
        let error = with(&Issuer::named("others")).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Tls, "{error}");
        assert_eq!(echo(&with(&clients).unwrap(), "hi").unwrap(), "hi");
    }
}

#[test]
fn revoked_client_certificate_is_refused() {
    let authority = Authority::new();
    let (clients, others) = (Issuer::named("clients"), Issuer::named("others"));
    let mut options = authority.server_options();
    options.tls.client_certificates = ClientCertificateMode::Required;
    options.tls.client_authorities = vec![
        authority.write("clients.pem", &clients.pem()),
        authority.write("others.pem", &others.pem()),
    ];
    options.tls.revocation_lists = vec![authority.write("crl.pem", &clients.revocation_list(&[7]))];
    let server = TestServer::start(options.clone());
    let connect = |issuer: &Issuer, serial| {
        let identity = issuer.numbered_client(serial);
        let (pem, key) = (identity.pem().into_bytes(), identity.key_pem().into_bytes());
        let tls = authority.trusting().client_certificate(pem, key);
        let client = authority.client("https", server.http().port()).tls(tls);
        client.connect_blocking().and_then(|client| echo(&client, "hi"))
    };
    assert_eq!(connect(&clients, 8).unwrap(), "hi");
    // No list of its issuer covers the last one.
    for error in [connect(&clients, 7).unwrap_err(), connect(&others, 8).unwrap_err()] {
        assert_eq!(error.kind(), ClientErrorKind::Tls, "{error}");
    }
    fs::write(&options.tls.revocation_lists[0], clients.revocation_list(&[7, 8])).unwrap();
    server.handle().reload_tls(&options).unwrap();
    assert_eq!(connect(&clients, 8).unwrap_err().kind(), ClientErrorKind::Tls);
    assert_eq!(connect(&clients, 9).unwrap(), "hi");
}

#[test]
fn client_certificate_that_is_asked_may_lack() {
    let authority = Authority::new();
    let clients = Issuer::named("clients");
    let mut options = authority.server_options();
    options.tls.client_certificates = ClientCertificateMode::Asked;
    options.tls.client_authorities = vec![authority.write("clients.pem", &clients.pem())];
    let server = TestServer::start(options);
    let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
}

#[test]
fn certificate_is_chosen_by_name() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    let other = authority.issuer.server_certificate_for("other.example");
    authority.write_certificate(&mut options, "other", &other);
    let server = TestServer::start(options);
    for name in ["localhost", "other.example"] {
        let tls = authority.trusting().server_name(name);
        let client = authority.client("https", server.http().port()).tls(tls);
        assert_eq!(echo(&client.connect_blocking().unwrap(), "hi").unwrap(), "hi", "{name}");
    }
    let tls = authority.trusting().server_name("third.example");
    let client = authority.client("https", server.http().port()).tls(tls);
    let error = client.connect_blocking().unwrap_err();
    assert!(error.to_string().contains("is for localhost"), "{error}");
}

#[test]
fn reload_replaces_certificate() {
    let authority = Authority::new();
    let options = authority.server_options();
    let server = TestServer::start(options.clone());
    let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
    let renewed = Issuer::named("renewed");
    let certificate = renewed.server_certificate(CertificateValidity::Valid);
    fs::write(&options.tls.certificates[0], certificate.pem()).unwrap();
    // The certificate is for another key.
    let error = server.handle().reload_tls(&options).unwrap_err();
    assert!(error.contains("private key"), "{error}");
    let fresh = authority.client("tls", server.tcp().port()).connect_blocking().unwrap();
    assert_eq!(echo(&fresh, "hi").unwrap(), "hi");
    fs::write(&options.tls.keys[0], certificate.key_pem()).unwrap();
    server.handle().reload_tls(&options).unwrap();
    // The old connection stays.
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
    let refused = authority.client("tls", server.tcp().port()).connect_blocking().unwrap_err();
    assert!(refused.to_string().contains("issuer"), "{refused}");
    let tls = TlsOptions::new().ca(renewed.pem().into_bytes());
    let client = authority.client("tls", server.tcp().port()).tls(tls);
    assert_eq!(echo(&client.connect_blocking().unwrap(), "hi").unwrap(), "hi");
}

#[test]
fn server_with_unusable_files_does_not_start() {
    let authority = Authority::new();
    let good = authority.server_options();
    let start = |change: &dyn Fn(&mut corelane::Options)| {
        let mut options = good.clone();
        change(&mut options);
        TestServer::try_start(options).map(drop).unwrap_err().to_string()
    };
    let missing = authority.path().join("missing.pem");
    let text = start(&|options| options.tls.certificates = vec![missing.clone()]);
    assert!(text.contains("missing.pem"), "{text}");
    let text = start(&|options| options.tls.keys.clear());
    assert!(text.contains("each certificate needs its key"), "{text}");
    let text = start(&|options| options.tls.keys = options.tls.certificates.clone());
    assert!(text.contains("no PEM private key"), "{text}");
    let required = ClientCertificateMode::Required;
    let text = start(&|options| options.tls.client_certificates = required);
    assert!(text.contains("tls.client_authorities"), "{text}");
    let text = start(&|options| {
        options.tls = ListenerTlsOptions::default();
        options.tls.require = true;
        options.http.address = Some(([0, 0, 0, 0], 0).into());
    });
    assert!(text.contains("tls.require"), "{text}");
    let text = start(&|options| {
        options.tls.require = true;
        options.admin.address = Some(([0, 0, 0, 0], 0).into());
    });
    assert!(text.contains("tls.require"), "{text}");
}

#[test]
fn changed_files_are_read_again() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.tls.check_interval = Duration::from_millis(20);
    // The files are replaced through a symbolic link, as secrets of Kubernetes are.
    let renewed = Issuer::named("renewed");
    let certificate = renewed.server_certificate(CertificateValidity::Valid);
    let folders = ["old", "new"].map(|name| authority.path().join(name));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
    }
    fs::rename(&options.tls.certificates[0], folders[0].join("a.pem")).unwrap();
    fs::rename(&options.tls.keys[0], folders[0].join("a.key")).unwrap();
    fs::write(folders[1].join("a.pem"), certificate.pem()).unwrap();
    fs::write(folders[1].join("a.key"), certificate.key_pem()).unwrap();
    let link = authority.path().join("current");
    symlink(&folders[0], &link).unwrap();
    options.tls.certificates = vec![link.join("a.pem")];
    options.tls.keys = vec![link.join("a.key")];
    let server = TestServer::start(options);
    let port = server.tcp().port();
    let client = authority.client("tls", port).connect_blocking().unwrap();
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
    let next = authority.path().join("next");
    symlink(&folders[1], &next).unwrap();
    fs::rename(&next, &link).unwrap();
    let tls = TlsOptions::new().ca(renewed.pem().into_bytes());
    let connect = || authority.client("tls", port).tls(tls.clone()).connect_blocking();
    // Until the files have been looked at, the old certificate is refused.
    let renewed = (0..1_000_000).find_map(|_| connect().ok()).expect("the files are read");
    assert_eq!(echo(&renewed, "hi").unwrap(), "hi");
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
}
