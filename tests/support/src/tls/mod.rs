//! Certificates, and a TLS terminator in front of a plain server, which can also misbehave.

#![expect(clippy::unwrap_used, reason = "test setup")]

mod resuming_client;
mod target_client;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, PublicKeyData, RevokedCertParams, SanType,
    date_time_ymd,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
pub use rustls::{HandshakeKind, ServerConfig, SupportedProtocolVersion, version};

pub use self::resuming_client::ResumingClient;
pub use self::target_client::TargetClient;
use crate::TIMEOUT;

/// The versions of TLS that a server supports.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Misbehaviour of the terminator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsFault {
    /// None.
    NoFault,
    /// Sends invalid TLS data instead of the second response.
    InvalidData,
    /// Closes the connection instead of the second response, without `close_notify`.
    CloseWithoutNotify,
    /// Sends `close_notify` instead of the second response, and leaves the connection open.
    CloseNotifyOnly,
    /// Sends no `close_notify` when the server has closed the connection.
    EndWithoutNotify,
}

/// Validity of a server certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateValidity {
    /// Valid for `localhost`.
    Valid,
    /// Expired.
    Expired,
    /// Valid for `localhost`, but that of an authority.
    Authority,
}

/// A certificate authority.
pub struct Issuer(CertifiedIssuer<'static, KeyPair>);

/// A certificate for `localhost` or of a client, and its key.
pub struct Certificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Certificate {
    /// Returns the certificate in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Returns the certificate in DER.
    pub fn der(&self) -> &[u8] {
        self.certificate.der()
    }

    /// Returns the private key in PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns the `SubjectPublicKeyInfo` in DER.
    pub fn public_key(&self) -> Vec<u8> {
        self.key.subject_public_key_info()
    }

    /// Returns the configuration of a server with this certificate. With `clients`, it requires a
    /// client certificate of that issuer.
    pub fn server(
        &self,
        clients: Option<&Issuer>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(issuer) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(issuer.roots(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let chain: Vec<CertificateDer<'static>> = vec![self.certificate.der().clone()];
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self::new()
    }
}

impl Issuer {
    pub fn new() -> Self {
        Self::named("the issuer of the tests")
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Returns the CA certificate in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate of a client.
    pub fn client(&self) -> Certificate {
        self.numbered_client(1)
    }

    /// Issues a certificate of a client with this serial number.
    pub fn numbered_client(&self, serial: u64) -> Certificate {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.serial_number = Some(serial.into());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// Issues a certificate of a client with these alternative names, URIs first.
    pub fn named_client(&self, uris: &[&str], names: &[&str]) -> Certificate {
        let mut params = CertificateParams::default();
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        let names = names.iter().map(|name| SanType::DnsName((*name).try_into().unwrap()));
        params.subject_alt_names = uris.chain(names).collect();
        params.distinguished_name.push(DnType::CommonName, "a client of the tests");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// Issues the certificate of another authority.
    pub fn intermediate(&self, validity: CertificateValidity) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an intermediate of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if validity == CertificateValidity::Expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::signed_by(params, key, &self.0).unwrap())
    }

    /// Issues a revocation list with these serial numbers, in PEM.
    pub fn revocation_list(&self, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(4096, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }

    /// Issues a certificate of a server.
    pub fn server_certificate(&self, validity: CertificateValidity) -> Certificate {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        match validity {
            CertificateValidity::Valid => {}
            CertificateValidity::Expired => {
                params.not_before = date_time_ymd(2019, 1, 1);
                params.not_after = date_time_ymd(2020, 1, 1);
            }
            CertificateValidity::Authority => {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
        }
        self.issue(&params)
    }

    /// Issues a certificate of a server with this name.
    pub fn server_certificate_for(&self, name: &str) -> Certificate {
        self.issue(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    fn issue(&self, params: &CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        Certificate { certificate: params.signed_by(&key, &self.0).unwrap(), key }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// Returns the configuration of a server with a certificate of this issuer, as
    /// [`Certificate::server`].
    pub fn server(
        &self,
        validity: CertificateValidity,
        clients: Option<&Self>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        self.server_certificate(validity).server(clients, versions)
    }

    /// Returns the configuration of a valid server.
    pub fn good_server(&self) -> Arc<ServerConfig> {
        self.server(CertificateValidity::Valid, None, &VERSIONS)
    }
}

/// What a client sends with the end of its handshake, and after its request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestEnd {
    /// `close_notify`, and the end of the stream.
    CloseNotify,
    /// The end of the stream, without `close_notify`.
    EndOfStream,
    /// Bytes that are no TLS.
    Garbage,
}

impl Issuer {
    /// Sends the end of the handshake, `request` and `end` in one write to a server for
    /// `localhost`. Returns the response.
    pub fn request_with_handshake(
        &self,
        server: SocketAddr,
        request: &[u8],
        end: RequestEnd,
    ) -> Vec<u8> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&version::TLS13]).unwrap();
        let config = builder.with_root_certificates(self.roots()).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(server).unwrap();
        client.write_tls(&mut stream).unwrap();
        while client.is_handshaking() {
            client.read_tls(&mut stream).unwrap();
            client.process_new_packets().unwrap();
        }
        client.set_buffer_limit(None);
        client.writer().write_all(request).unwrap();
        let mut last = Vec::new();
        match end {
            RequestEnd::CloseNotify => client.send_close_notify(),
            RequestEnd::EndOfStream | RequestEnd::Garbage => {}
        }
        while client.wants_write() {
            client.write_tls(&mut last).unwrap();
        }
        if end == RequestEnd::Garbage {
            last.extend([0xff; 32]);
        }
        stream.write_all(&last).unwrap();
        if end != RequestEnd::Garbage {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let mut response = Vec::new();
        // Ends with the connection, or with an error if the server resets it.
        while client.read_tls(&mut stream).is_ok_and(|read| read > 0)
            && client.process_new_packets().is_ok()
        {
            client.reader().read_to_end(&mut response).ok();
        }
        response
    }
}

/// A complete handshake.
#[derive(Debug)]
pub struct Handshake {
    pub kind: HandshakeKind,
    /// The protocol that was agreed on (RFC 7301).
    pub alpn: Option<Vec<u8>>,
}

/// A running terminator, until the end of the test.
pub struct Terminator {
    address: SocketAddr,
    handshakes: Receiver<Handshake>,
}

impl Terminator {
    /// Starts a terminator in front of `behind` on a free port.
    pub fn start(behind: SocketAddr, config: Arc<ServerConfig>, fault: TlsFault) -> Self {
        let (sender, handshakes) = channel();
        let address = serve(move |stream| {
            let server = ServerConnection::new(config.clone()).unwrap();
            let sender = sender.clone();
            thread::spawn(move || TlsProxy::new(stream, server, behind, fault, sender).run());
        });
        Self { address, handshakes }
    }

    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits for the next complete handshake.
    pub fn next_handshake(&self) -> Handshake {
        self.handshakes.recv_timeout(TIMEOUT).expect("a handshake in time")
    }
}

/// Passes every accepted connection to `take`, until the end of the test.
pub fn serve(mut take: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            take(stream);
        }
    });
    address
}

/// One terminated connection.
struct TlsProxy {
    client: TcpStream,
    server: ServerConnection,
    behind: TcpStream,
    fault: TlsFault,
    answers: u32,
    /// Told of the handshake, then `None`.
    handshakes: Option<Sender<Handshake>>,
}

impl TlsProxy {
    fn new(
        client: TcpStream,
        server: ServerConnection,
        behind: SocketAddr,
        fault: TlsFault,
        handshakes: Sender<Handshake>,
    ) -> Self {
        client.set_nodelay(true).unwrap();
        let behind = TcpStream::connect(behind).unwrap();
        behind.set_nodelay(true).unwrap();
        Self { client, server, behind, fault, answers: 0, handshakes: Some(handshakes) }
    }

    /// Copies data until either end closes.
    fn run(mut self) {
        while self.forward_once().is_some() {}
        self.behind.shutdown(Shutdown::Both).ok();
        if self.fault != TlsFault::EndWithoutNotify {
            self.server.send_close_notify();
        }
        self.flush_tls().ok();
        self.client.shutdown(Shutdown::Both).ok();
    }

    /// Returns `None` at the end.
    fn forward_once(&mut self) -> Option<()> {
        self.flush_tls().ok()?;
        let mut ends = [&self.client, &self.behind].map(|end| PollFd::new(end, PollFlags::IN));
        poll(&mut ends, None).ok()?;
        let [is_asked, is_answered] = ends.map(|end| !end.revents().is_empty());
        if is_asked {
            self.forward_request()?;
        }
        if is_answered { self.forward_response() } else { Some(()) }
    }

    fn flush_tls(&mut self) -> std::io::Result<()> {
        while self.server.wants_write() {
            self.server.write_tls(&mut self.client)?;
        }
        Ok(())
    }

    fn forward_request(&mut self) -> Option<()> {
        if self.server.read_tls(&mut self.client).ok()? == 0 {
            return None;
        }
        // After an error an alert is still sent.
        self.server.process_new_packets().ok()?;
        if !self.server.is_handshaking()
            && let Some(handshakes) = self.handshakes.take()
        {
            // Fails if the test does not count handshakes.
            let alpn = self.server.alpn_protocol().map(<[u8]>::to_vec);
            handshakes.send(Handshake { kind: self.server.handshake_kind()?, alpn }).ok();
        }
        let mut plain = Vec::new();
        match self.server.reader().read_to_end(&mut plain) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => return None,
        }
        self.behind.write_all(&plain).ok()
    }

    fn forward_response(&mut self) -> Option<()> {
        let mut answer = [0; 4_096];
        let length = self.behind.read(&mut answer).ok().filter(|length| *length > 0)?;
        self.answers += 1;
        match self.fault {
            TlsFault::InvalidData if self.answers > 1 => self.client.write_all(b"nonsense").ok()?,
            TlsFault::CloseWithoutNotify if self.answers > 1 => {
                self.client.shutdown(Shutdown::Both).ok()?;
            }
            TlsFault::CloseNotifyOnly if self.answers > 1 => {
                self.server.send_close_notify();
                self.flush_tls().ok()?;
                // Waits until the client closes.
                return (self.client.read(&mut answer).ok()? > usize::MAX - 1).then_some(());
            }
            _ => self.server.writer().write_all(&answer[..length]).ok()?,
        }
        Some(())
    }
}
