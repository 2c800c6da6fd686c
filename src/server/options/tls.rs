//! TLS options of the listeners.

use std::path::PathBuf;
use std::time::Duration;

/// TLS of the listeners for clients: TCP, and HTTP with WebSocket. Off without a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ListenerTlsOptions {
    /// PEM files with a certificate and its chain each. A client gets the first whose certificate
    /// is for the name that it asks for (SNI), and otherwise the first. Default: none, so that
    /// listeners are not encrypted.
    pub certificates: Vec<PathBuf>,
    /// PEM files with the private keys, in the order of the certificates.
    pub keys: Vec<PathBuf>,
    /// Files with OCSP responses in DER (RFC 6960), in the order of the certificates, that are sent
    /// to clients that ask for them. Default: none.
    pub ocsp_staples: Vec<PathBuf>,
    /// Files with the keys of session tickets, so that processes with the same files resume each
    /// other's sessions: a line with the output of `openssl rand -base64 48` for each key, the
    /// current one first and up to two previous ones. Cost: who gets a key can decrypt recorded
    /// sessions of TLS 1.2. Default: none, random keys that are renewed every 6 h.
    pub ticket_keys: Vec<PathBuf>,
    /// Whether the TCP listener is encrypted, with a certificate. Default true.
    pub tcp: bool,
    /// Whether the HTTP listener is encrypted, with a certificate. Default true.
    pub http: bool,
    /// Whether clients have certificates. Default [`ClientCertificateMode::Off`].
    pub client_certificates: ClientCertificateMode,
    /// PEM files with the authorities that issue the certificates of clients.
    pub client_authorities: Vec<PathBuf>,
    /// PEM files with certificate revocation lists. With one, every certificate of a client must be
    /// covered by a list of its issuer. Default: none, nothing is revoked.
    pub revocation_lists: Vec<PathBuf>,
    /// Time from the accept to the end of the handshake; then the connection is closed. Default
    /// 10 s.
    pub handshake_timeout: Duration,
    /// Handshakes in progress on each shard; a further connection is reset. Cost: the TLS state of
    /// each. Default 1,024.
    pub handshakes_max: u32,
    /// Handshakes in progress from one client address on each shard; a further connection is reset.
    /// An IPv6 /64 prefix counts as one address; 127.0.0.1 and `::1` are exempt. Default 64.
    pub handshakes_per_address_max: u32,
    /// Interval at which the files are looked at: changed ones are read again, and used if all of
    /// them are valid. Zero leaves that to [`Handle::reload_tls`](crate::Handle::reload_tls).
    /// Cost: a thread. Default 10 s.
    pub check_interval: Duration,
    /// Whether the server refuses to listen on an address that other machines reach without TLS.
    /// Default false: `check` and the log warn.
    pub require: bool,
}

/// Whether a server asks its clients for certificates (RFC 8446 section 4.3.2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ClientCertificateMode {
    /// No.
    #[default]
    Off,
    /// Clients without one are served; one that is not trusted ends the handshake.
    Asked,
    /// Clients without one are not served.
    Required,
}

impl Default for ListenerTlsOptions {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            keys: Vec::new(),
            ocsp_staples: Vec::new(),
            ticket_keys: Vec::new(),
            tcp: true,
            http: true,
            client_certificates: ClientCertificateMode::Off,
            client_authorities: Vec::new(),
            revocation_lists: Vec::new(),
            handshake_timeout: Duration::from_secs(10),
            handshakes_max: 1024,
            handshakes_per_address_max: 64,
            check_interval: Duration::from_secs(10),
            require: false,
        }
    }
}

impl ListenerTlsOptions {
    /// Returns the files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let server = self.certificates.iter().chain(&self.keys).chain(&self.ocsp_staples);
        let server = server.chain(&self.ticket_keys);
        server.chain(&self.client_authorities).chain(&self.revocation_lists)
    }

    /// Returns whether the TCP listener is encrypted.
    pub(crate) const fn encrypts_tcp(&self) -> bool {
        self.tcp && self.has_certificate()
    }

    /// Returns whether the HTTP listener is encrypted.
    pub(crate) const fn encrypts_http(&self) -> bool {
        self.http && self.has_certificate()
    }

    /// Returns whether there is a certificate, so that listeners may be encrypted.
    pub const fn has_certificate(&self) -> bool {
        !self.certificates.is_empty()
    }
}
