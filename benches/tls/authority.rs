//! A certificate for `localhost`, and the configurations of clients and of the floor.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::{SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    CipherSuite, ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use tempfile::TempDir;

/// The suites that Corelane prefers for the kind of this certificate.
const PREFERRED: [CipherSuite; 2] =
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
/// Sessions that a client stores.
const SESSIONS: usize = 1024;

/// An authority with one certificate: ECDSA with P-256.
pub(crate) struct Authority {
    directory: TempDir,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> io::Result<Self> {
        let generate = || KeyPair::generate().map_err(io::Error::other);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, generate()?).map_err(io::Error::other)?;
        let key = generate()?;
        let params = CertificateParams::new(vec!["localhost".to_owned()]);
        let signed = params.and_then(|params| params.signed_by(&key, &issuer));
        let certificate = signed.map_err(io::Error::other)?;
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).map_err(io::Error::other)?;
        let directory = tempfile::tempdir()?;
        std::fs::write(directory.path().join("cert.pem"), certificate.pem())?;
        std::fs::write(directory.path().join("key.pem"), key.serialize_pem())?;
        let chain = vec![certificate.der().clone()];
        Ok(Self { directory, roots: Arc::new(roots), chain, key })
    }

    /// Returns the directory with the files.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the arguments of an encrypted server.
    pub(crate) fn arguments(&self) -> [String; 4] {
        let file = |name: &str| self.path().join(name).display().to_string();
        ["--tls-cert".into(), file("cert.pem"), "--tls-key".into(), file("key.pem")]
    }

    /// Returns the configuration of a client with this version and group.
    pub(crate) fn client(
        &self,
        version: &'static SupportedProtocolVersion,
        group: &'static dyn SupportedKxGroup,
        resumes: bool,
    ) -> io::Result<Arc<ClientConfig>> {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![group];
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[version]).map_err(io::Error::other)?;
        let roots = Arc::clone(&self.roots);
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.resumption =
            if resumes { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
        Ok(Arc::new(config))
    }

    /// Returns the configuration of a server in memory, as Corelane's is.
    pub(crate) fn server(&self) -> io::Result<Arc<ServerConfig>> {
        let mut provider = aws_lc_rs::default_provider();
        let is_preferred = |suite: &SupportedCipherSuite| PREFERRED.contains(&suite.suite());
        provider.cipher_suites.sort_by_key(|suite| !is_preferred(suite));
        let builder = ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(io::Error::other)?;
        let config = builder.with_no_client_auth().with_single_cert(self.chain.clone(), key);
        let mut config = config.map_err(io::Error::other)?;
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(io::Error::other)?;
        config.ignore_client_order = true;
        config.send_tls13_tickets = 1;
        Ok(Arc::new(config))
    }
}
