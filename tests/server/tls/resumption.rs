//! Sessions that another process resumes, and OCSP staples.

use std::fs;

use corelane::options::ClientCertificateMode;
use corelane_test_support::TestServer;
use corelane_test_support::tls::HandshakeKind::{Full, Resumed};
use corelane_test_support::tls::{Issuer, ResumingClient, VERSIONS};

use super::Authority;

/// Two keys of tickets.
const KEYS: [&str; 2] = [
    "AAECAwQFBgcICQoLDA0OD1lvdXIgc2VjcmV0IGtleSBvZiAzMiBieXRlcyBpcyAx",
    "EBESExQVFhcYGRobHB0eH1lvdXIgc2VjcmV0IGtleSBvZiAzMiBieXRlcyBpcyAy",
];

#[test]
fn process_with_same_ticket_keys_resumes_session() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    let keys = authority.write("tickets.key", KEYS[0]);
    options.tls.ticket_keys = vec![keys.clone()];
    let servers = [(); 2].map(|()| TestServer::start(options.clone()));
    let requests = |client: &ResumingClient| {
        servers.each_ref().map(|server| client.request(server.http()).unwrap())
    };
    for version in VERSIONS {
        let client = authority.issuer.resuming_client(version, None);
        assert_eq!(requests(&client), [Full, Resumed], "{version:?}");
    }
    // The second process gets the next key first, and still opens tickets of the previous one.
    fs::write(&keys, KEYS.map(|key| format!("{key}\n")).concat()).unwrap();
    servers[1].handle().reload_tls(&options).unwrap();
    let client = authority.issuer.resuming_client(VERSIONS[0], None);
    assert_eq!(requests(&client), [Full, Resumed]);
    // A key that is gone opens nothing, and the handshake is a full one.
    fs::write(&keys, KEYS[1]).unwrap();
    servers[1].handle().reload_tls(&options).unwrap();
    let client = authority.issuer.resuming_client(VERSIONS[0], None);
    assert_eq!(requests(&client), [Full, Full]);
    // Unusable keys change nothing.
    fs::write(&keys, "secret").unwrap();
    let error = servers[1].handle().reload_tls(&options).unwrap_err();
    assert!(error.contains("tickets.key:1: not a ticket key"), "{error}");
    assert_eq!(client.request(servers[1].http()).unwrap(), Resumed);
}

#[test]
fn session_of_revoked_certificate_is_not_resumed() {
    let authority = Authority::new();
    let clients = Issuer::named("clients");
    let mut options = authority.server_options();
    options.tls.client_certificates = ClientCertificateMode::Required;
    options.tls.client_authorities = vec![authority.write("clients.pem", &clients.pem())];
    options.tls.revocation_lists = vec![authority.write("crl.pem", &clients.revocation_list(&[]))];
    let server = TestServer::start(options.clone());
    for version in VERSIONS {
        fs::write(&options.tls.revocation_lists[0], clients.revocation_list(&[])).unwrap();
        server.handle().reload_tls(&options).unwrap();
        let identity = clients.numbered_client(7);
        let client = authority.issuer.resuming_client(version, Some(&identity));
        for kind in [Full, Resumed] {
            assert_eq!(client.request(server.http()).unwrap(), kind, "{version:?}");
        }
        fs::write(&options.tls.revocation_lists[0], clients.revocation_list(&[7])).unwrap();
        server.handle().reload_tls(&options).unwrap();
        client.request(server.http()).unwrap_err();
    }
}

#[test]
fn ocsp_staple_is_sent_and_reloaded() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    // `OCSPResponse { responseStatus successful }`; clients verify the rest.
    let staple = [0x30, 3, 0x0a, 1, 0];
    let path = authority.path().join("ocsp.der");
    fs::write(&path, staple).unwrap();
    let client = authority.issuer.resuming_client(VERSIONS[0], None);
    let other = authority.issuer.resuming_client(VERSIONS[1], None);
    options.tls.ocsp_staples = vec![path.clone()];
    let server = TestServer::start(options.clone());
    for client in [&client, &other] {
        client.request(server.http()).unwrap();
        assert_eq!(client.next_staple(), staple);
    }
    fs::write(&path, "expired").unwrap();
    let error = server.handle().reload_tls(&options).unwrap_err();
    assert!(error.contains("ocsp.der is no OCSP response"), "{error}");
    fs::remove_file(&path).unwrap();
    options.tls.ocsp_staples.clear();
    server.handle().reload_tls(&options).unwrap();
    let client = authority.issuer.resuming_client(VERSIONS[0], None);
    client.request(server.http()).unwrap();
    assert_eq!(client.next_staple(), b"");
}
