//! The filter against a server of rustls, in memory: cuts, records, goodbyes, sessions.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{
    AlertDescription, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion, version,
};

use super::*;
use crate::wire::trust::Trust;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// A server of this version, and a client that trusts it.
fn stage(version: &'static SupportedProtocolVersion) -> (Arc<ServerConfig>, TlsClient) {
    let mut issuing = CertificateParams::default();
    issuing.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(issuing, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[version]).unwrap().with_no_client_auth();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let trust = Trust::Roots { roots: Arc::new(roots), source: "the test".into() };
    (Arc::new(config), TlsClient::new(("localhost", true), trust, None).unwrap())
}

/// Both ends of a connection; what the server says reaches the client in pieces.
struct Pair {
    server: ServerConnection,
    filter: TlsFilter,
    scratch: Scratch,
    cut: usize,
}

impl Pair {
    fn new((config, client): &(Arc<ServerConfig>, TlsClient), cut: usize) -> Self {
        let server = ServerConnection::new(config.clone()).unwrap();
        let filter = TlsFilter::new(client).unwrap();
        Self { server, filter, scratch: Scratch::default(), cut }
    }

    /// An open pair.
    fn open(stage: &(Arc<ServerConfig>, TlsClient), cut: usize) -> Self {
        let mut pair = Self::new(stage, cut);
        while pair.filter.is_opening() || pair.server.is_handshaking() {
            assert!(pair.filter.owes() || pair.server.wants_write(), "nobody goes on");
            pair.say(b"");
            let words = pair.answer();
            pair.hear(&words).unwrap();
        }
        assert!(pair.filter.is_open());
        pair
    }

    /// What the client sends, as the server reads it.
    fn say(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::new();
        self.filter.seal(plain, &mut sealed).unwrap();
        let (mut rest, mut heard) = (&sealed[..], Vec::new());
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            self.server.process_new_packets().unwrap();
            // More may come, which is no end.
            let read = self.server.reader().read_to_end(&mut heard);
            assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        }
        heard
    }

    /// What the server has to send.
    fn answer(&mut self) -> Vec<u8> {
        let mut words = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut words).unwrap();
        }
        words
    }

    fn hear(&mut self, words: &[u8]) -> Result<(), Unsealed> {
        words.chunks(self.cut).try_for_each(|piece| self.filter.hear(piece, &mut self.scratch))
    }
}

/// Words of many lengths, more than one record.
fn words() -> Vec<u8> {
    (0..40_000_u32).map(|place| u8::try_from(place % 251).unwrap()).collect()
}

#[test]
fn any_cut_of_the_ciphertext_gives_the_same_plaintext() {
    for version in VERSIONS {
        let stage = stage(version);
        for cut in [1, 2, 5, 6, 17, 1_000, 16_401, usize::MAX] {
            let mut pair = Pair::open(&stage, cut);
            for part in words().chunks(15_001).chain([&b"x"[..], b"\n"]) {
                pair.server.writer().write_all(part).unwrap();
                let said = pair.answer();
                pair.hear(&said).unwrap();
            }
            assert_eq!(pair.scratch.plain, [&words()[..], b"x\n"].concat(), "cut by {cut}");
            assert!(pair.filter.begun.is_empty());
        }
    }
}

#[test]
fn what_is_sealed_is_what_the_server_reads() {
    for version in VERSIONS {
        let mut pair = Pair::open(&stage(version), usize::MAX);
        for length in [1, 200, 16_384, 16_385, 40_000] {
            let words = &words()[..length];
            assert_eq!(pair.say(words), words, "{length}");
        }
        assert_eq!(pair.say(b""), b"");
    }
}

#[test]
fn a_goodbye_is_heard_and_said() {
    for version in VERSIONS {
        let mut pair = Pair::open(&stage(version), 3);
        pair.server.writer().write_all(b"last").unwrap();
        pair.server.send_close_notify();
        let said = pair.answer();
        pair.hear(&said).unwrap();
        assert!(pair.filter.is_ended() && !pair.filter.is_open());
        assert_eq!(pair.scratch.plain, b"last");
        let mut goodbye = Vec::new();
        pair.filter.part(&mut goodbye);
        pair.server.read_tls(&mut &goodbye[..]).unwrap();
        assert!(pair.server.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn a_record_that_was_changed_is_told_and_what_came_before_is_good() {
    for version in VERSIONS {
        let mut pair = Pair::open(&stage(version), usize::MAX);
        pair.server.writer().write_all(b"good").unwrap();
        let mut said = pair.answer();
        pair.server.writer().write_all(b"evil").unwrap();
        let mut changed = pair.answer();
        *changed.last_mut().unwrap() ^= 1;
        said.append(&mut changed);
        let unsealed = pair.hear(&said).unwrap_err();
        assert!(!unsealed.is_alert && unsealed.said.contains("no TLS any more"));
        assert_eq!(pair.scratch.plain, b"good");
        // It is over for good, and the server is told.
        pair.hear(&said).unwrap();
        assert_eq!(pair.scratch.plain, b"good");
        let mut alert = Vec::new();
        pair.filter.part(&mut alert);
        pair.server.read_tls(&mut &alert[..]).unwrap();
        let told = pair.server.process_new_packets().unwrap_err();
        assert_eq!(told, Error::AlertReceived(AlertDescription::BadRecordMac));
    }
}

#[test]
fn a_second_connection_resumes_the_session_of_the_first() {
    for version in VERSIONS {
        let stage = stage(version);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let pair = Pair::open(&stage, usize::MAX);
            kinds.push(pair.filter.connection.handshake_kind());
        }
        assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
        let client = stage.1.apart();
        let pair = Pair::open(&(stage.0, client), usize::MAX);
        assert_eq!(pair.filter.connection.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn a_server_that_speaks_without_is_told() {
    let (_, client) = stage(&version::TLS13);
    for words in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"{\"jsonrpc\":\"2.0\"}\n", b"\n\n\n\n\n\n"]
    {
        let mut filter = TlsFilter::new(&client).unwrap();
        let unsealed = filter.hear(words, &mut Scratch::default()).unwrap_err();
        assert!(unsealed.said.contains("does not speak TLS on this port"), "{unsealed}");
    }
}

#[test]
fn what_was_agreed_on_is_told_with_how_it_was_checked() {
    let stage = stage(&version::TLS13);
    drop(Pair::open(&stage, usize::MAX));
    let told = stage.1.describe();
    assert!(told.starts_with("TLS 1.3 TLS13_AES_256_GCM_SHA384"), "{told}");
    assert!(told.ends_with("certificate checked against the test"), "{told}");
}

#[test]
fn a_filter_says_nothing_of_what_goes_through_it() {
    let mut pair = Pair::open(&stage(&version::TLS13), usize::MAX);
    pair.say(b"s3cr3t");
    assert_eq!(format!("{:?}", pair.filter), "TlsFilter { stage: Open, .. }");
    let read = pair.server.reader().read(&mut [0]);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
}
