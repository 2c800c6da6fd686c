//! TLS options of the listeners.

use std::path::PathBuf;
use std::time::Duration;

use super::declare::{MINUTE, options};
use super::value::{Choice, choice};

options! {
    /// TLS of the listeners for clients: TCP, and HTTP with WebSocket. Off without a certificate.
    pub struct ListenerTlsOptions at |options| options.tls;

    group TLS {
        /// PEM files, each with a certificate and its chain. A client gets the first that is for
        /// the name it asks for, otherwise the first. Read again on SIGHUP.
        ///
        /// Without one the listeners are not encrypted.
        #[option("tls.certificates" | "tls_cert", Files, reload)]
        #[cost = "one signature for each full handshake"]
        #[source = "RFC 8446; RFC 6066, section 3"]
        pub certificates: Vec<PathBuf> = Vec::new();

        /// PEM files with the private keys, in the order of the certificates. Read again on SIGHUP.
        #[option("tls.keys" | "tls_key", Files, reload)]
        #[cost = "none"]
        #[source = "RFC 8446; RFC 5958"]
        pub keys: Vec<PathBuf> = Vec::new();

        /// Files with OCSP responses in DER, in the order of the certificates, for clients that ask
        /// for them. Read again on SIGHUP.
        #[option("tls.ocsp_staples" | "tls_ocsp", Files, reload)]
        #[cost = "their size in each full handshake"]
        #[source = "RFC 6066, section 8; RFC 6960"]
        pub ocsp_staples: Vec<PathBuf> = Vec::new();

        /// Files with keys of session tickets, so that processes that share them resume each
        /// other's sessions: a line of `openssl rand -base64 48` each, the current one first and up
        /// to two previous ones; off has random keys. Read again on SIGHUP.
        ///
        /// Who gets a key can decrypt recorded sessions of TLS 1.2. Random keys are renewed every 6
        /// h.
        #[option("tls.ticket_keys", Files, reload)]
        #[cost = "sessions are as secret as the files"]
        #[source = "RFC 8446, section 4.6.1; RFC 5077"]
        pub ticket_keys: Vec<PathBuf> = Vec::new();

        /// Whether the TCP listener is encrypted, if there is a certificate.
        #[option("tls.tcp", Switch, restart)]
        #[cost = "none"]
        pub tcp: bool = true;

        /// Whether the listener of HTTP and WebSocket is encrypted, if there is a certificate.
        #[option("tls.http", Switch, restart)]
        #[cost = "none"]
        #[source = "RFC 9110, section 4.2.2; RFC 6455, section 3"]
        pub http: bool = true;

        /// Whether the listener of `admin.address` is encrypted, if there is a certificate.
        ///
        /// Clients need a certificate there, too, where `tls.client_certificates` is required.
        #[option("tls.admin", Switch, restart)]
        #[cost = "none"]
        pub admin: bool = false;

        /// Whether clients are asked for a certificate, and must have one. Read again on SIGHUP.
        #[option("tls.client_certificates", Choice(ClientCertificateMode::NAMES), reload)]
        #[cost = "about 0.1 ms of CPU more for each handshake"]
        #[source = "RFC 8446, section 4.3.2"]
        pub client_certificates: ClientCertificateMode = ClientCertificateMode::Off;

        /// PEM files with the authorities that issue the certificates of clients. Read again on
        /// SIGHUP.
        #[option("tls.client_authorities" | "tls_client_ca", Files, reload)]
        #[cost = "none"]
        #[source = "RFC 5280"]
        pub client_authorities: Vec<PathBuf> = Vec::new();

        /// PEM files with lists of revoked certificates. With one, the certificate of a client must
        /// be covered by a list of its issuer. Read again on SIGHUP.
        ///
        /// Without one nothing is revoked.
        #[option("tls.revocation_lists" | "tls_crl", Files, reload)]
        #[cost = "memory for the lists"]
        #[source = "RFC 5280, section 5"]
        pub revocation_lists: Vec<PathBuf> = Vec::new();

        /// Time from the accept to the end of the handshake; then the connection is closed.
        #[option("tls.handshake_timeout", Milliseconds { min: 100, max: 10 * MINUTE }, restart)]
        #[cost = "a silent client keeps its connection for that long"]
        pub handshake_timeout: Duration = Duration::from_secs(10), tiny Duration::from_millis(200);

        /// Handshakes in progress on each shard. For a further one the oldest ends that has begun
        /// more than a second ago, of the network with most; if there is none, the connection is
        /// reset.
        ///
        /// Connections from which no byte has arrived do not count: there may be 16 times as many,
        /// each for `tls.handshake_timeout`, and for 3 s while more than half of them are open.
        #[option("tls.handshakes_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "3 KiB each and what has arrived of its messages, of memory_bytes_max"]
        pub handshakes_max: u32 = 1024, tiny 4;

        /// Handshakes in progress from one client address (IPv6: /64 prefix) on each shard, and 16
        /// times as many connections from which no byte has arrived. For a further one the oldest
        /// of the address ends, or else the connection is reset. 127.0.0.1 and `::1` are exempt
        /// without `trusted_proxies`.
        #[option("tls.handshakes_per_address_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "one address can use up tls.handshakes_max"]
        #[source = "RFC 6177: a client controls a /64"]
        pub handshakes_per_address_max: u32 = 64, tiny 3;

        /// Percent of the time of a shard for handshakes; further ones are done on threads in the
        /// background, one for two shards. 0 has threads do all of them, 100 none.
        ///
        /// Calls wait for a handshake only on its shard.
        #[option("tls.handshake_percent", Count { min: 0, max: 100 }, restart)]
        #[cost = "percent of the calls wait for a handshake, up to 0.5 ms"]
        pub handshake_percent: u8 = 1, tiny 0;

        /// Interval at which the files are looked at: changed ones are read again, and used if all
        /// of them are valid; 0 leaves that to SIGHUP.
        ///
        /// [`Handle::reload_tls`](crate::Handle::reload_tls) reads them at once.
        #[option("tls.check_interval", Milliseconds { min: 0, max: 60 * MINUTE }, restart)]
        #[cost = "a thread"]
        pub check_interval: Duration = Duration::from_secs(10), tiny Duration::from_millis(100);

        /// Refuse to listen without TLS on an address that other machines reach.
        ///
        /// `admin.address` is one, too. Otherwise `check` and the log warn.
        #[option("tls.require" | "require_tls", Switch, restart)]
        #[cost = "none"]
        pub require: bool = false;
    }
}

choice! {
    /// Whether a server asks its clients for certificates (RFC 8446 section 4.3.2).
    #[non_exhaustive]
    pub enum ClientCertificateMode {
        /// No.
        #[default]
        Off = "off",
        /// Clients without one are served; one that is not trusted ends the handshake.
        Asked = "asked",
        /// Clients without one are not served.
        Required = "required",
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

    /// Returns whether the listener of operators is encrypted.
    pub(crate) const fn encrypts_admin(&self) -> bool {
        self.admin && self.has_certificate()
    }

    /// Returns whether there is a certificate, so that listeners may be encrypted.
    pub const fn has_certificate(&self) -> bool {
        !self.certificates.is_empty()
    }
}
