//! The directory of a run: files that the server offers, its certificate, and the keys of callers.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use corelane_engine::clock::unix_ms;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

pub(crate) const ISSUER: &str = "https://issuer.example";
/// The audience of tokens, and the URL that proofs name.
pub(crate) const RESOURCE: &str = "https://server.example/mcp";
/// The API key of the honest clients.
pub(crate) const API_KEY: &str = "api-key-of-the-honest-clients";
/// An API key of hostile peers, which is valid at times.
pub(crate) const HOSTILE_KEY: &str = "api-key-of-the-hostile-peers";
/// The key in the key set.
pub(crate) const KEY_ID: &str = "1";
/// Size of the large file: the default of `resources.file_bytes_max`.
pub(crate) const LARGE_FILE_BYTES: usize = 8 << 20;
/// Time for which tokens are valid.
const TOKEN_SECONDS: u64 = 24 * 3600;

/// A directory with a small and a large file, certificates and keys; removed when dropped.
#[derive(Debug)]
pub(crate) struct Files(TempDir);

impl Files {
    /// Writes the files.
    pub(crate) fn create() -> io::Result<Self> {
        let files = Self(TempDir::new()?);
        let write = |name: &str, bytes: &[u8]| fs::write(files.path().join(name), bytes);
        fs::create_dir(files.path().join("served"))?;
        write("served/large.txt", "large ".repeat(LARGE_FILE_BYTES / 6).as_bytes())?;
        write("served/small.txt", b"small")?;
        write_api_keys(files.path(), false)?;
        let issuer = Signer::generate()?;
        let (x, y) = issuer.coordinates();
        let members = format!(r#""kid":"{KEY_ID}","alg":"ES256","x":"{x}","y":"{y}""#);
        let keys = format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256",{members}}}]}}"#);
        write("keys.json", keys.as_bytes())?;
        for caller in Caller::ALL {
            let key = Signer::generate()?;
            write(&format!("{}.token", caller.name()), key.token(&issuer, caller).as_bytes())?;
            write(&format!("{}.key", caller.name()), &key.pkcs8)?;
        }
        files.write_certificate()?;
        Ok(files)
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn write_certificate(&self) -> io::Result<()> {
        let generate = || KeyPair::generate().map_err(io::Error::other);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, generate()?).map_err(io::Error::other)?;
        let key = generate()?;
        let params = CertificateParams::new(vec!["localhost".to_owned()]);
        let signed = params.and_then(|params| params.signed_by(&key, &issuer));
        let certificate = signed.map_err(io::Error::other)?;
        fs::write(self.path().join("authority.der"), issuer.der())?;
        fs::write(self.path().join("cert.pem"), certificate.pem())?;
        fs::write(self.path().join("key.pem"), key.serialize_pem())
    }
}

/// Writes the API keys: that of the honest clients, and that of hostile peers if it is valid.
pub(crate) fn write_api_keys(directory: &Path, has_hostile: bool) -> io::Result<()> {
    let line = |name: &str, key: &str| {
        let hash = digest(&SHA256, key.as_bytes());
        let hash = hash.as_ref().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        format!("{name}:{hash}\n")
    };
    let hostile = if has_hostile { line("hostile", HOSTILE_KEY) } else { String::new() };
    let next = directory.join("api-keys.next");
    fs::write(&next, line("honest", API_KEY) + &hostile)?;
    fs::rename(next, directory.join("api-keys.txt"))
}

/// Returns the URI of a file of the directory that the server offers.
pub(crate) fn uri(directory: &Path, name: &str) -> String {
    format!("file://{}", directory.join("served").join(name).display())
}

/// Returns the configuration of clients that trust the certificate in `directory` and do each
/// handshake in full.
pub(crate) fn tls_client(directory: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from(fs::read(directory.join("authority.der"))?);
    roots.add(authority).map_err(io::Error::other)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The owner of a token that is bound to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    Honest,
    Hostile,
}

impl Caller {
    const ALL: [Self; 2] = [Self::Honest, Self::Hostile];

    const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Hostile => "hostile",
        }
    }
}

/// A key that signs tokens or proofs (ES256).
struct Signer {
    pkcs8: Vec<u8>,
    key: EcdsaKeyPair,
}

impl Signer {
    fn generate() -> io::Result<Self> {
        let generated =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::from_pkcs8(generated.map_err(io::Error::other)?.as_ref().to_vec())
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> io::Result<Self> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8);
        Ok(Self { key: key.map_err(io::Error::other)?, pkcs8 })
    }

    /// Returns both coordinates of the public key.
    fn coordinates(&self) -> (String, String) {
        let point = self.key.public_key().as_ref();
        (BASE64_URL.encode(&point[1..33]), BASE64_URL.encode(&point[33..]))
    }

    /// Returns the public key with its members in the order of RFC 7638.
    fn jwk(&self) -> String {
        let (x, y) = self.coordinates();
        format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)
    }

    /// Returns a token of `issuer` that is bound to this key.
    fn token(&self, issuer: &Self, caller: Caller) -> String {
        let (subject, now) = (caller.name(), unix_ms() / 1_000);
        let thumbprint = BASE64_URL.encode(digest(&SHA256, self.jwk().as_bytes()));
        let header = format!(r#"{{"alg":"ES256","typ":"at+jwt","kid":"{KEY_ID}"}}"#);
        let claims = format!(
            r#"{{"iss":"{ISSUER}","sub":"{subject}","aud":"{RESOURCE}","client_id":"bench",
            "jti":"{subject}","iat":{now},"exp":{},"cnf":{{"jkt":"{thumbprint}"}}}}"#,
            now + TOKEN_SECONDS
        );
        issuer.sign(&header, &claims)
    }

    fn sign(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", BASE64_URL.encode(header), BASE64_URL.encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.map_or_else(|_| String::new(), |bytes| BASE64_URL.encode(bytes));
        format!("{message}.{signature}")
    }
}

/// A token and the proofs of its key (RFC 9449).
pub(crate) struct ProofKey {
    signer: Signer,
    token: String,
    proofs: AtomicU64,
}

impl ProofKey {
    /// Reads the token and the key of a caller.
    pub(crate) fn read(directory: &Path, caller: Caller) -> io::Result<Self> {
        let file = |extension: &str| directory.join(format!("{}.{extension}", caller.name()));
        let signer = Signer::from_pkcs8(fs::read(file("key"))?)?;
        Ok(Self { signer, token: fs::read_to_string(file("token"))?, proofs: AtomicU64::new(0) })
    }

    /// Returns the header fields of one POST of the MCP endpoint: the token and a new proof.
    pub(crate) fn fields(&self) -> String {
        let (token, now) = (&self.token, unix_ms() / 1_000);
        let number = self.proofs.fetch_add(1, Ordering::Relaxed);
        let header = format!(r#"{{"typ":"dpop+jwt","alg":"ES256","jwk":{}}}"#, self.signer.jwk());
        let hash = BASE64_URL.encode(digest(&SHA256, token.as_bytes()));
        let process = std::process::id();
        let claims = format!(
            r#"{{"jti":"{process}-{number}","htm":"POST","htu":"{RESOURCE}","iat":{now},
            "ath":"{hash}"}}"#
        );
        let proof = self.signer.sign(&header, &claims);
        format!("Authorization: DPoP {token}\r\nDPoP: {proof}\r\n")
    }
}
