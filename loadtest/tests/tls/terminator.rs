//! A TLS terminator in front of a plain server, with test certificates. It can also misbehave.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion, version};

/// Misbehaviour of the terminator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TlsFault {
    /// None.
    NoFault,
    /// Sends invalid TLS data instead of the second response.
    InvalidData,
    /// Closes the connection instead of the second response, without `close_notify`.
    CloseWithoutNotify,
    /// Sends `close_notify` instead of the second response, and leaves the connection open.
    CloseNotifyOnly,
}

/// Validity of a server certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CertificateValidity {
    /// Valid for `localhost`.
    Valid,
    /// Expired.
    Expired,
}

/// A certificate authority.
pub(crate) struct Issuer(CertifiedIssuer<'static, KeyPair>);

impl Issuer {
    pub(crate) fn new() -> Self {
        Self::named("the issuer of the tests")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the CA certificate to a file.
    pub(crate) fn file(&self, name: &str) -> String {
        write(name, &self.0.pem())
    }

    /// Writes a client certificate and its key to files.
    pub(crate) fn client(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let file = |part: &str, text: &str| write(&format!("{name}-{part}.pem"), text);
        (file("cert", &certificate.pem()), file("key", &key.serialize_pem()))
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// Returns the configuration of a server with a certificate of this issuer. With `wants`, it
    /// requires a client certificate of that issuer.
    pub(crate) fn server(
        &self,
        paper: CertificateValidity,
        wants: Option<&Self>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        if paper == CertificateValidity::Expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder = match wants {
            None => builder.with_no_client_auth(),
            Some(issuer) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(issuer.roots(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain = vec![certificate.der().clone()];
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// Returns the configuration of a valid server.
    pub(crate) fn good_server(&self) -> Arc<ServerConfig> {
        self.server(CertificateValidity::Valid, None, &[&version::TLS13, &version::TLS12])
    }
}

/// Starts a terminator in front of `behind` on a free port, until the end of the test.
pub(crate) fn start_terminator(
    behind: SocketAddr,
    config: Arc<ServerConfig>,
    manners: TlsFault,
) -> SocketAddr {
    serve(move |stream| {
        let server = ServerConnection::new(config.clone()).unwrap();
        thread::spawn(move || TlsProxy::new(stream, server, behind, manners).run());
    })
}

/// Passes every accepted connection to `take`, until the end of the test.
pub(crate) fn serve(mut take: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            take(stream);
        }
    });
    address
}

/// Writes a file of the tests.
pub(crate) fn write(name: &str, text: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// One terminated connection.
struct TlsProxy {
    client: TcpStream,
    server: ServerConnection,
    behind: TcpStream,
    manners: TlsFault,
    answers: u32,
}

impl TlsProxy {
    fn new(
        client: TcpStream,
        server: ServerConnection,
        behind: SocketAddr,
        manners: TlsFault,
    ) -> Self {
        client.set_nodelay(true).unwrap();
        let behind = TcpStream::connect(behind).unwrap();
        behind.set_nodelay(true).unwrap();
        Self { client, server, behind, manners, answers: 0 }
    }

    /// Copies data until either end closes.
    fn run(mut self) {
        while self.forward_once().is_some() {}
        self.behind.shutdown(Shutdown::Both).ok();
        self.server.send_close_notify();
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
        match self.manners {
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
