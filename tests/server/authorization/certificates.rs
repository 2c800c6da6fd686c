//! Certificates of TLS clients as credentials, and tokens that are bound to them.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane::client::{ClientBuilder, ClientError, TlsOptions};
use corelane::options::{AuthOptions, ClientCertificateMode};
use corelane::{Client, Options};
use corelane_test_support::TestServer;
use corelane_test_support::tls::{
    Certificate, CertificateValidity, HandshakeKind, Issuer, ResumingClient, version,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::authorization::http::{Response, modern_request, read};
use crate::authorization::{Authority, call, catalog, options, requirements};

const OPERATOR: &str = "spiffe://test/ops/ada";

/// The certificate authorities of a server and of its clients.
struct Tls {
    server: Issuer,
    clients: Issuer,
}

impl Tls {
    fn new() -> Self {
        Self { server: Issuer::new(), clients: Issuer::named("clients") }
    }

    /// Options of a server that asks its clients for certificates.
    fn options(&self, authority: &Authority, auth: AuthOptions) -> Options {
        let mut options = options(auth);
        let certificate = self.server.server_certificate(CertificateValidity::Valid);
        options.tls.certificates = vec![authority.write("server.pem", &certificate.pem()).into()];
        options.tls.keys = vec![authority.write("server.key", &certificate.key_pem()).into()];
        options.tls.client_certificates = ClientCertificateMode::Asked;
        let clients = authority.write("clients.pem", &self.clients.pem());
        options.tls.client_authorities = vec![clients.into()];
        options
    }

    fn start(&self, authority: &Authority, auth: AuthOptions) -> TestServer {
        TestServer::with_catalog(self.options(authority, auth), catalog())
    }

    /// A client of plain TLS, which resumes its sessions.
    fn client_of(&self, identity: Option<&Certificate>) -> ResumingClient {
        self.server.resuming_client(&version::TLS13, identity)
    }

    /// A client whose certificate comes with this chain.
    fn client(&self, target: &str, identity: &Certificate, chain: &str) -> Client {
        self.builder(target, identity, chain).connect_lazy().expect("a client")
    }

    fn builder(&self, target: &str, identity: &Certificate, chain: &str) -> ClientBuilder {
        let (pem, key) = (identity.pem() + chain, identity.key_pem());
        let tls = TlsOptions::new().ca(self.server.pem().into_bytes());
        let tls = tls.client_certificate(pem.into_bytes(), key.into_bytes());
        Client::builder(target).tls(tls)
    }

    /// Sends a call of `whoami` over HTTPS.
    fn post(&self, server: &TestServer, identity: Option<&Certificate>, fields: &str) -> Response {
        let mut stream = self.client_of(identity).open(server.http());
        let request = modern_request(server.http(), "/mcp", &call("whoami"), fields);
        stream.write_all(request.as_bytes()).expect("the request is sent");
        read(&mut stream)
    }
}

fn whoami(client: &Client) -> Result<String, ClientError> {
    client.call_tool("whoami", &json!({})).wait().map(|result| result.text())
}

fn by_certificate() -> AuthOptions {
    let mut auth = AuthOptions::default();
    auth.client_certificates = vec![
        "spiffe://test/ops/* tier=admin scope=tools:deploy".to_owned(),
        "client".to_owned(),
        "sha256:*".to_owned(),
    ];
    auth
}

/// The schemes of the encrypted transports with their ports.
fn targets(server: &TestServer) -> [String; 3] {
    let (tcp, http) = (server.tcp().port(), server.http().port());
    let target = |(scheme, port)| format!("{scheme}://localhost:{port}");
    [("tls", tcp), ("https", http), ("wss", http)].map(target)
}

#[test]
fn certificate_names_caller_on_each_transport() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let server = tls.start(&authority, by_certificate());
    let operator = tls.clients.named_client(&[OPERATOR], &["client"]);
    let by_subject = tls.clients.named_client(&[], &[]);
    let unknown = tls.clients.named_client(&[], &["other"]);
    for target in targets(&server) {
        let client = tls.client(&target, &operator, "");
        assert_eq!(whoami(&client).unwrap(), format!("{OPERATOR} (admin)"), "{target}");
        let deployed = client.call_tool("deploy_app", &json!({})).wait().unwrap();
        assert_eq!(deployed.text(), "deployed");
        let client = tls.client(&target, &tls.clients.client(), "");
        assert_eq!(whoami(&client).unwrap(), "client (user)", "{target}");
        assert!(client.call_tool("deploy_app", &json!({})).wait().is_err(), "{target}");
        let named = whoami(&tls.client(&target, &by_subject, "")).unwrap();
        assert!(named.starts_with("sha256:") && named.ends_with(" (user)"), "{named}");
        assert!(whoami(&tls.client(&target, &unknown, "")).is_err(), "{target}");
    }
    server.close();
}

#[test]
fn https_without_known_certificate_gets_401() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let server = tls.start(&authority, by_certificate());
    let unknown = tls.clients.named_client(&["https://test/x"], &[]);
    for identity in [None, Some(&unknown)] {
        let refused = tls.post(&server, identity, "");
        refused.expect_missing_token("Bearer");
    }
    server.close();
}

#[test]
fn token_takes_precedence_over_certificate() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let mut auth = by_certificate();
    auth.api_keys = authority.key_options().api_keys;
    let server = tls.start(&authority, auth);
    let client = tls.clients.client();
    let by_key = tls.post(&server, Some(&client), "Authorization: Bearer key-ada\r\n");
    assert_eq!(by_key.text(), "ada (admin)");
    let refused = tls.post(&server, Some(&client), "Authorization: Bearer key-x\r\n");
    refused.expect_unknown_key();
    assert_eq!(tls.post(&server, Some(&client), "").text(), "client (user)");
    let counters = server.close();
    assert_eq!((counters.auth.checks_verified, counters.auth.checks_unknown), (2, 1));
}

/// Returns the claims of a token that is bound to the certificate of `identity` (RFC 8705).
fn bound_claims(authority: &Authority, identity: &Certificate) -> Value {
    let mut claims = authority.issuer.claims("ada", "");
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(identity.der()));
    claims["cnf"] = json!({ "x5t#S256": thumbprint });
    claims
}

#[test]
fn bound_token_needs_its_certificate() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let server = tls.start(&authority, authority.jwt_options());
    let (own, other) = (tls.clients.client(), tls.clients.client());
    let claims = bound_claims(&authority, &own);
    let token = authority.issuer.sign(&claims);
    let fields = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(tls.post(&server, Some(&own), &fields).text(), "ada (user)");
    let without = "the token is bound to a client certificate, and the connection has none";
    let another = "the token is bound to another client certificate";
    for (identity, reason) in [(None, without), (Some(&other), another)] {
        tls.post(&server, identity, &fields).expect_invalid_token(reason);
    }
    // The certificate alone stands for no caller.
    let challenge = format!("Bearer {}", requirements());
    tls.post(&server, Some(&own), "").expect_missing_token(&challenge);
    server.close();
}

#[test]
fn metadata_names_binding_to_certificates() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let asking = tls.options(&authority, authority.jwt_options());
    let mut silent = asking.clone();
    silent.tls.client_certificates = ClientCertificateMode::Off;
    silent.tls.client_authorities.clear();
    for (options, expected) in [(asking, json!(true)), (silent, Value::Null)] {
        let server = TestServer::with_catalog(options, catalog());
        let mut stream = tls.client_of(None).open(server.http());
        let place = "/.well-known/oauth-protected-resource/mcp";
        let request = format!("GET {place} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http());
        stream.write_all(request.as_bytes()).expect("the request is sent");
        let document = read(&mut stream).json();
        assert_eq!(document["tls_client_certificate_bound_access_tokens"], expected, "{document}");
        drop(stream);
        server.close();
    }
}

#[test]
fn bound_token_on_tcp_needs_its_certificate() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let server = tls.start(&authority, authority.jwt_options());
    let (own, other) = (tls.clients.client(), tls.clients.client());
    let claims = bound_claims(&authority, &own);
    let mut message = corelane_test_support::messages::modern(call("whoami"));
    message["params"]["_meta"]["auth_token"] = json!(authority.issuer.sign(&claims));
    for (identity, expected) in [(&own, None), (&other, Some(-32010))] {
        let mut stream = tls.client_of(Some(identity)).open(server.tcp());
        stream.write_all(format!("{message}\n").as_bytes()).unwrap();
        let answer = read_line(&mut stream);
        assert_eq!(answer["error"]["code"].as_i64(), expected, "{answer}");
    }
    server.close();
}

#[test]
fn resumed_session_has_certificate_of_first_handshake() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let server = tls.start(&authority, by_certificate());
    let (client, anonymous) = (tls.client_of(Some(&tls.clients.client())), tls.client_of(None));
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let request = modern_request(server.http(), "/mcp", &call("whoami"), "");
        let mut stream = client.open(server.http());
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(read(&mut stream).text(), "client (user)");
        assert_eq!(stream.conn.handshake_kind(), Some(kind));
        // The session of a client without a certificate stays without.
        let mut stream = anonymous.open(server.http());
        stream.write_all(request.as_bytes()).unwrap();
        read(&mut stream).expect_missing_token("Bearer");
        assert_eq!(stream.conn.handshake_kind(), Some(kind));
    }
    server.close();
}

fn read_line(stream: &mut impl std::io::Read) -> Value {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).expect("a byte") == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).expect("JSON")
}

#[test]
fn revoked_certificate_and_expired_authority_are_refused() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let mut options = tls.options(&authority, by_certificate());
    let valid = tls.clients.intermediate(CertificateValidity::Valid);
    let expired = tls.clients.intermediate(CertificateValidity::Expired);
    let lists = tls.clients.revocation_list(&[7])
        + &valid.revocation_list(&[])
        + &expired.revocation_list(&[]);
    options.tls.revocation_lists = vec![authority.write("crl.pem", &lists).into()];
    let server = TestServer::with_catalog(options, catalog());
    for target in targets(&server) {
        let try_with = |identity: &Certificate, chain: &str| {
            let builder = tls.builder(&target, identity, chain);
            builder.connect_blocking().and_then(|client| whoami(&client))
        };
        assert_eq!(try_with(&tls.clients.numbered_client(8), "").unwrap(), "client (user)");
        assert_eq!(try_with(&valid.client(), &valid.pem()).unwrap(), "client (user)");
        // The handshake ends: neither is served as a client without a certificate.
        assert!(try_with(&tls.clients.numbered_client(7), "").is_err(), "{target}");
        assert!(try_with(&expired.client(), &expired.pem()).is_err(), "{target}");
    }
    server.close();
}

#[test]
fn removed_rule_ends_open_connections() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let options = tls.options(&authority, by_certificate());
    let server = TestServer::with_catalog(options.clone(), catalog());
    let mut stream = tls.client_of(Some(&tls.clients.client())).open(server.tcp());
    let message = corelane_test_support::messages::modern(call("whoami"));
    stream.write_all(format!("{message}\n").as_bytes()).unwrap();
    assert!(read_line(&mut stream)["result"].is_object());
    let mut stricter = options;
    stricter.auth.client_certificates = vec!["spiffe://test/*".to_owned()];
    server.handle().reload_auth(&stricter).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).unwrap();
    assert!(rest.is_empty());
    server.close();
}

#[test]
fn withdrawn_authority_ends_open_connections() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let (kept, server_of) = (Issuer::named("kept"), |tls: &Tls| tls.clients.pem());
    let mut options = tls.options(&authority, by_certificate());
    let both = server_of(&tls) + &kept.pem();
    options.tls.client_authorities = vec![authority.write("clients.pem", &both).into()];
    let server = TestServer::with_catalog(options.clone(), catalog());
    let message = corelane_test_support::messages::modern(call("whoami"));
    let open = |identity: &Certificate| {
        let mut stream = tls.client_of(Some(identity)).open(server.tcp());
        stream.write_all(format!("{message}\n").as_bytes()).unwrap();
        assert!(read_line(&mut stream)["result"].is_object());
        stream
    };
    let mut withdrawn = open(&tls.clients.client());
    let mut still = open(&kept.client());
    authority.write("clients.pem", &kept.pem());
    server.handle().reload_tls(&options).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut withdrawn, &mut rest).unwrap();
    assert!(rest.is_empty());
    still.write_all(format!("{message}\n").as_bytes()).unwrap();
    assert!(read_line(&mut still)["result"].is_object());
    // Trusted again, it is accepted again.
    authority.write("clients.pem", &both);
    server.handle().reload_tls(&options).unwrap();
    drop(open(&tls.clients.client()));
    drop((withdrawn, still));
    let counters = server.close();
    assert_eq!(counters.connections.closed_invalid_credential, 1, "{counters}");
}

#[test]
fn revoked_certificate_ends_open_connections() {
    let (authority, tls) = (Authority::new(), Tls::new());
    let mut options = tls.options(&authority, by_certificate());
    let path = authority.write("crl.pem", &tls.clients.revocation_list(&[]));
    options.tls.revocation_lists = vec![path.into()];
    let server = TestServer::with_catalog(options.clone(), catalog());
    let message = corelane_test_support::messages::modern(call("whoami"));
    let request = modern_request(server.http(), "/mcp", &call("whoami"), "");
    let [mut revoked, mut kept] = [7, 8].map(|number| {
        let client = tls.client_of(Some(&tls.clients.numbered_client(number)));
        let (mut tcp, mut http) = (client.open(server.tcp()), client.open(server.http()));
        tcp.write_all(format!("{message}\n").as_bytes()).unwrap();
        assert!(read_line(&mut tcp)["result"].is_object());
        http.write_all(request.as_bytes()).unwrap();
        assert_eq!(read(&mut http).text(), "client (user)");
        (tcp, http)
    });
    authority.write("crl.pem", &tls.clients.revocation_list(&[7]));
    server.handle().reload_tls(&options).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut revoked.0, &mut rest).unwrap();
    std::io::Read::read_to_end(&mut revoked.1, &mut rest).unwrap();
    assert!(rest.is_empty());
    kept.0.write_all(format!("{message}\n").as_bytes()).unwrap();
    assert!(read_line(&mut kept.0)["result"].is_object());
    kept.1.write_all(request.as_bytes()).unwrap();
    assert_eq!(read(&mut kept.1).text(), "client (user)");
    drop((revoked, kept));
    let counters = server.close();
    assert_eq!(counters.connections.closed_invalid_credential, 2, "{counters}");
}
