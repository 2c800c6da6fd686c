//! Tests of the TLS filter against a rustls server in memory: cuts, records, close, resumption.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{
    AlertDescription, HandshakeKind, ServerConfig, ServerConnection, SupportedProtocolVersion,
    version,
};

use super::*;
use crate::client::TlsClientOptions;
use crate::provider;
use crate::trust::{Roots, Trust};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Returns a server of this TLS version, and a client that trusts it.
fn server_and_client(version: &'static SupportedProtocolVersion) -> (Arc<ServerConfig>, TlsClient) {
    let mut issuing = CertificateParams::default();
    issuing.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(issuing, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider::default().unwrap()));
    let builder = builder.with_protocol_versions(&[version]).unwrap().with_no_client_auth();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let client = TlsClient::new(TlsClientOptions {
        server_name: "localhost",
        is_http: true,
        trust: Trust::Roots(Roots::from_der([issuer.der()])),
        pins: &[],
        identity: None,
    });
    (Arc::new(config), client.unwrap())
}

/// Both ends of a connection; the client receives data in pieces of `cut` bytes.
struct Pair {
    server: ServerConnection,
    filter: TlsFilter,
    scratch: TlsScratch,
    cut: usize,
}

impl Pair {
    fn new(configs: &(Arc<ServerConfig>, TlsClient), cut: usize) -> Self {
        let (config, client) = configs;
        let server = ServerConnection::new(config.clone()).unwrap();
        let filter = TlsFilter::new(client).unwrap();
        Self { server, filter, scratch: TlsScratch::default(), cut }
    }

    /// Creates a pair with a complete handshake.
    fn open(configs: &(Arc<ServerConfig>, TlsClient), cut: usize) -> Self {
        let mut pair = Self::new(configs, cut);
        while pair.filter.is_handshaking() || pair.server.is_handshaking() {
            assert!(pair.filter.has_output() || pair.server.wants_write(), "handshake is stuck");
            pair.send(b"");
            let reply = pair.server_output();
            pair.receive(&reply).unwrap();
        }
        assert!(pair.filter.is_open());
        pair
    }

    /// Sends data of the client; returns what the server reads.
    fn send(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut ciphertext = Vec::new();
        self.filter.encrypt(plain, &mut ciphertext).unwrap();
        let (mut rest, mut received) = (&ciphertext[..], Vec::new());
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            self.server.process_new_packets().unwrap();
            // The stream does not end here.
            let read = self.server.reader().read_to_end(&mut received);
            assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        }
        received
    }

    /// Returns the data that the server has to send.
    fn server_output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut output).unwrap();
        }
        output
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        bytes.chunks(self.cut).try_for_each(|piece| self.filter.receive(piece, &mut self.scratch))
    }
}

/// Returns data of more than one record.
fn payload() -> Vec<u8> {
    (0..40_000_u32).map(|place| u8::try_from(place % 251).unwrap()).collect()
}

#[test]
fn tls_decrypts_same_plaintext_in_any_cut() {
    for version in VERSIONS {
        let configs = server_and_client(version);
        for cut in [1, 2, 5, 6, 17, 1_000, 16_401, usize::MAX] {
            let mut pair = Pair::open(&configs, cut);
            for part in payload().chunks(15_001).chain([&b"x"[..], b"\n"]) {
                pair.server.writer().write_all(part).unwrap();
                let output = pair.server_output();
                pair.receive(&output).unwrap();
            }
            assert_eq!(pair.scratch.plaintext, [&payload()[..], b"x\n"].concat(), "cut by {cut}");
            assert!(pair.filter.partial_record.is_empty());
        }
    }
}

#[test]
fn tls_server_reads_what_client_encrypts() {
    for version in VERSIONS {
        let mut pair = Pair::open(&server_and_client(version), usize::MAX);
        for length in [1, 200, 16_384, 16_385, 40_000] {
            let data = &payload()[..length];
            assert_eq!(pair.send(data), data, "{length}");
        }
        assert_eq!(pair.send(b""), b"");
    }
}

#[test]
fn tls_close_notify_is_received_and_sent() {
    for version in VERSIONS {
        let mut pair = Pair::open(&server_and_client(version), 3);
        pair.server.writer().write_all(b"last").unwrap();
        pair.server.send_close_notify();
        let output = pair.server_output();
        pair.receive(&output).unwrap();
        assert!(pair.filter.is_closed() && !pair.filter.is_open());
        assert_eq!(pair.scratch.plaintext, b"last");
        let mut close_notify = Vec::new();
        pair.filter.close(&mut close_notify);
        pair.server.read_tls(&mut &close_notify[..]).unwrap();
        assert!(pair.server.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn tls_altered_record_fails_after_valid_plaintext() {
    for version in VERSIONS {
        let mut pair = Pair::open(&server_and_client(version), usize::MAX);
        pair.server.writer().write_all(b"good").unwrap();
        let mut output = pair.server_output();
        pair.server.writer().write_all(b"evil").unwrap();
        let mut changed = pair.server_output();
        *changed.last_mut().unwrap() ^= 1;
        output.append(&mut changed);
        let error = pair.receive(&output).unwrap_err();
        assert!(!error.is_alert() && error.to_string().contains("invalid TLS data"));
        assert_eq!(pair.scratch.plaintext, b"good");
        // No more is decrypted, and the server receives an alert.
        pair.receive(&output).unwrap();
        assert_eq!(pair.scratch.plaintext, b"good");
        let mut alert = Vec::new();
        pair.filter.close(&mut alert);
        pair.server.read_tls(&mut &alert[..]).unwrap();
        let error = pair.server.process_new_packets().unwrap_err();
        assert_eq!(error, Error::AlertReceived(AlertDescription::BadRecordMac));
    }
}

#[test]
fn tls_second_connection_resumes_session() {
    for version in VERSIONS {
        let configs = server_and_client(version);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let pair = Pair::open(&configs, usize::MAX);
            kinds.push(pair.filter.side.handshake_kind());
        }
        assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
        let client = configs.1.with_own_sessions();
        let pair = Pair::open(&(configs.0, client), usize::MAX);
        assert_eq!(pair.filter.side.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn tls_handshake_with_plaintext_server_fails() {
    let (_, client) = server_and_client(&version::TLS13);
    for reply in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"{\"jsonrpc\":\"2.0\"}\n", b"\n\n\n\n\n\n"]
    {
        let mut filter = TlsFilter::new(&client).unwrap();
        let error = filter.receive(reply, &mut TlsScratch::default()).unwrap_err();
        assert_eq!(error.kind(), TlsErrorKind::NotTls, "{error}");
    }
}

#[test]
fn tls_client_knows_negotiated_parameters() {
    let configs = server_and_client(&version::TLS13);
    assert_eq!(configs.1.negotiated(), None);
    drop(Pair::open(&configs, usize::MAX));
    assert_eq!(configs.1.negotiated(), Some("TLS 1.3 TLS13_AES_256_GCM_SHA384"));
}

#[test]
fn tls_debug_output_contains_no_data() {
    let mut pair = Pair::open(&server_and_client(&version::TLS13), usize::MAX);
    pair.send(b"s3cr3t");
    assert_eq!(format!("{:?}", pair.filter), "TlsFilter { state: Open, .. }");
    let read = pair.server.reader().read(&mut [0]);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
}
