//! A server that speaks TLS and hands what it opens to another that speaks without, one thread a
//! connection, and the certificates for it. It can also be told to misbehave.

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

/// What a server does beside what it should.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manners {
    /// Nothing.
    Good,
    /// It sends what is no TLS instead of its second answer.
    Garbles,
    /// It closes the connection instead of its second answer, without a word.
    Cuts,
    /// It says that it closes instead of its second answer, and leaves the connection open.
    TakesLeave,
}

/// How the certificate of a server is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Paper {
    /// For `localhost`, and it holds.
    Good,
    /// It has expired.
    Expired,
}

/// Someone who issues certificates.
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

    /// Writes its own certificate into a file of this name.
    pub(crate) fn file(&self, name: &str) -> String {
        write(name, &self.0.pem())
    }

    /// Issues a certificate to a client: it, and its key, in files.
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

    /// What a server with a certificate of this issuer goes by. Where `wants` is there, it accepts
    /// only clients to whom that has issued a certificate.
    pub(crate) fn server(
        &self,
        paper: Paper,
        wants: Option<&Self>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        if paper == Paper::Expired {
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

    /// A server as it should be.
    pub(crate) fn good_server(&self) -> Arc<ServerConfig> {
        self.server(Paper::Good, None, &[&version::TLS13, &version::TLS12])
    }
}

/// Stands before `behind` on a free port, for as long as the test runs.
pub(crate) fn stand_before(
    behind: SocketAddr,
    config: Arc<ServerConfig>,
    manners: Manners,
) -> SocketAddr {
    serve(move |stream| {
        let server = ServerConnection::new(config.clone()).unwrap();
        thread::spawn(move || Carrier::new(stream, server, behind, manners).carry());
    })
}

/// Hands every connection to `take`, for as long as the test runs.
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

/// A file of the tests.
pub(crate) fn write(name: &str, text: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// One connection, from its encrypted end to the plain one and back.
struct Carrier {
    client: TcpStream,
    server: ServerConnection,
    behind: TcpStream,
    manners: Manners,
    answers: u32,
}

impl Carrier {
    fn new(
        client: TcpStream,
        server: ServerConnection,
        behind: SocketAddr,
        manners: Manners,
    ) -> Self {
        client.set_nodelay(true).unwrap();
        let behind = TcpStream::connect(behind).unwrap();
        behind.set_nodelay(true).unwrap();
        Self { client, server, behind, manners, answers: 0 }
    }

    /// Carries until either end has had enough.
    fn carry(mut self) {
        while self.carry_once().is_some() {}
        self.behind.shutdown(Shutdown::Both).ok();
        self.server.send_close_notify();
        self.say().ok();
        self.client.shutdown(Shutdown::Both).ok();
    }

    /// None at the end.
    fn carry_once(&mut self) -> Option<()> {
        self.say().ok()?;
        let mut ends = [&self.client, &self.behind].map(|end| PollFd::new(end, PollFlags::IN));
        poll(&mut ends, None).ok()?;
        let [is_asked, is_answered] = ends.map(|end| !end.revents().is_empty());
        if is_asked {
            self.ask()?;
        }
        if is_answered { self.answer() } else { Some(()) }
    }

    fn say(&mut self) -> std::io::Result<()> {
        while self.server.wants_write() {
            self.server.write_tls(&mut self.client)?;
        }
        Ok(())
    }

    fn ask(&mut self) -> Option<()> {
        if self.server.read_tls(&mut self.client).ok()? == 0 {
            return None;
        }
        // Where it fails the client is told why.
        self.server.process_new_packets().ok()?;
        let mut plain = Vec::new();
        match self.server.reader().read_to_end(&mut plain) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => return None,
        }
        self.behind.write_all(&plain).ok()
    }

    fn answer(&mut self) -> Option<()> {
        let mut answer = [0; 4_096];
        let length = self.behind.read(&mut answer).ok().filter(|length| *length > 0)?;
        self.answers += 1;
        match self.manners {
            Manners::Garbles if self.answers > 1 => self.client.write_all(b"nonsense").ok()?,
            Manners::Cuts if self.answers > 1 => self.client.shutdown(Shutdown::Both).ok()?,
            Manners::TakesLeave if self.answers > 1 => {
                self.server.send_close_notify();
                self.say().ok()?;
                // The client is to close it.
                return (self.client.read(&mut answer).ok()? > usize::MAX - 1).then_some(());
            }
            _ => self.server.writer().write_all(&answer[..length]).ok()?,
        }
        Some(())
    }
}
