//! Servers with TLS, with certificates of unknown issuers.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

/// An address of this process alone, where the port of PostgreSQL is free.
fn own_address() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 54, high, low.max(1))
}

/// Starts a server at `address` with TLS, and writes the certificate of its issuer to `ca.pem`.
fn start(address: Ipv4Addr) -> TestServer {
    let mut server = TestServer::new();
    let mut issuing = CertificateParams::default();
    issuing.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(issuing, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![address.to_string()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let texts = [("server.key", key.serialize_pem()), ("server.crt", certificate.pem())];
    for (name, text) in texts {
        let path = server.data().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        chown(&path, server_user(), None).unwrap();
    }
    std::fs::write(server.folder.path().join("ca.pem"), issuer.pem()).unwrap();
    let access = "hostssl all all all trust\nlocal all all trust\n";
    std::fs::write(server.data().join("pg_hba.conf"), access).unwrap();
    server.run_with(&["-c", "ssl=on", "-c", &format!("listen_addresses={address}")]);
    server
}

/// Whether the connection is encrypted.
const SSL: &str = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

fn call_at(server: &TestServer, address: &str) -> Result<Output, String> {
    let url = format!("postgres://postgres@{address}");
    let tool = server.try_tool_at(&url, json!({ "query": SSL })).unwrap();
    let called = server.runtime.block_on(tool.call(Call::default()));
    called.map_err(|failure| failure.to_string())
}

#[test]
#[ignore = "needs PostgreSQL"]
fn ssl_mode_decides_about_unknown_certificate() {
    let address = own_address();
    let server = start(address);
    let call = |query: &str| call_at(&server, &format!("{address}/postgres{query}"));
    let encrypted = Ok(Output::JsonText("{\"rows\":[{\"ssl\":true}],\"truncated\":false}".into()));
    for query in [
        "",
        "?sslmode=require",
        "?sslmode=require&sslrootcert=ca.pem",
        "?sslmode=verify-full&sslrootcert=ca.pem",
    ] {
        assert_eq!(call(query), encrypted, "{query}");
    }
    let other = format!("localhost/postgres?hostaddr={address}&sslrootcert=ca.pem");
    let connect = |mode: &str| call_at(&server, &format!("{other}&sslmode={mode}"));
    assert_eq!(connect("verify-ca"), encrypted);
    let name = connect("verify-full").unwrap_err();
    assert!(name.contains("certificate"), "{name}");
    let unknown = call("?sslmode=verify-full").unwrap_err();
    assert!(unknown.contains("certificate") && unknown.contains("UnknownIssuer"), "{unknown}");
    let plain = call("?sslmode=disable").unwrap_err();
    assert!(plain.contains("refuses the user"), "{plain}");
}
