//! Options of TLS.

use crate::config::options::ClientCertificateMode;
use crate::config::table::{MINUTE, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

pub(super) static TLS: Section = Section {
    heading: "TLS",
    rows: &[
        Row {
            key: "tls.certificates",
            short: Some("tls_cert"),
            unit: Unit::Files,
            description: "PEM files, each with a certificate and its chain. A client gets the \
                          first that is for the name it asks for, otherwise the first. Read again \
                          on SIGHUP.",
            cost: "one signature for each full handshake",
            source: "RFC 8446; RFC 6066, section 3",
            is_reloadable: true,
            field: |options| &mut options.tls.certificates,
        },
        Row {
            key: "tls.keys",
            short: Some("tls_key"),
            unit: Unit::Files,
            description: "PEM files with the private keys, in the order of the certificates. Read \
                          again on SIGHUP.",
            cost: "none",
            source: "RFC 8446; RFC 5958",
            is_reloadable: true,
            field: |options| &mut options.tls.keys,
        },
        Row {
            key: "tls.ocsp_staples",
            short: Some("tls_ocsp"),
            unit: Unit::Files,
            description: "Files with OCSP responses in DER, in the order of the certificates, for \
                          clients that ask for them. Read again on SIGHUP.",
            cost: "their size in each full handshake",
            source: "RFC 6066, section 8; RFC 6960",
            is_reloadable: true,
            field: |options| &mut options.tls.ocsp_staples,
        },
        Row {
            key: "tls.ticket_keys",
            short: None,
            unit: Unit::Files,
            description: "Files with keys of session tickets, so that processes that share them \
                          resume each other's sessions: a line of `openssl rand -base64 48` each, \
                          the current one first and up to two previous ones; off has random keys. \
                          Read again on SIGHUP.",
            cost: "sessions are as secret as the files",
            source: "RFC 8446, section 4.6.1; RFC 5077",
            is_reloadable: true,
            field: |options| &mut options.tls.ticket_keys,
        },
        Row {
            key: "tls.tcp",
            short: None,
            unit: Unit::Switch,
            description: "Whether the TCP listener is encrypted, if there is a certificate.",
            cost: "none",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.tls.tcp,
        },
        Row {
            key: "tls.http",
            short: None,
            unit: Unit::Switch,
            description: "Whether the listener of HTTP and WebSocket is encrypted, if there is a \
                          certificate.",
            cost: "none",
            source: "RFC 9110, section 4.2.2; RFC 6455, section 3",
            is_reloadable: false,
            field: |options| &mut options.tls.http,
        },
        Row {
            key: "tls.client_certificates",
            short: None,
            unit: Unit::Choice(ClientCertificateMode::NAMES),
            description: "Whether clients are asked for a certificate, and must have one. Read \
                          again on SIGHUP.",
            cost: "about 0.1 ms of CPU more for each handshake",
            source: "RFC 8446, section 4.3.2",
            is_reloadable: true,
            field: |options| &mut options.tls.client_certificates,
        },
        Row {
            key: "tls.client_authorities",
            short: Some("tls_client_ca"),
            unit: Unit::Files,
            description: "PEM files with the authorities that issue the certificates of clients. \
                          Read again on SIGHUP.",
            cost: "none",
            source: "RFC 5280",
            is_reloadable: true,
            field: |options| &mut options.tls.client_authorities,
        },
        Row {
            key: "tls.revocation_lists",
            short: Some("tls_crl"),
            unit: Unit::Files,
            description: "PEM files with lists of revoked certificates. With one, the certificate \
                          of a client must be covered by a list of its issuer. Read again on \
                          SIGHUP.",
            cost: "memory for the lists",
            source: "RFC 5280, section 5",
            is_reloadable: true,
            field: |options| &mut options.tls.revocation_lists,
        },
        Row {
            key: "tls.handshake_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 100, max: 10 * MINUTE },
            description: "Time from the accept to the end of the handshake; then the connection \
                          is closed.",
            cost: "a silent client keeps its connection for that long",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.tls.handshake_timeout,
        },
        Row {
            key: "tls.handshakes_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Handshakes in progress on each shard; a further connection is reset.",
            cost: "the TLS state of each",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.tls.handshakes_max,
        },
        Row {
            key: "tls.handshakes_per_address_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Handshakes in progress from one client address (IPv6: /64 prefix) on \
                          each shard; a further connection is reset. 127.0.0.1 and ::1 are exempt.",
            cost: "one address can use up tls.handshakes_max",
            source: "RFC 6177: a client controls a /64",
            is_reloadable: false,
            field: |options| &mut options.tls.handshakes_per_address_max,
        },
        Row {
            key: "tls.check_interval",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 60 * MINUTE },
            description: "Interval at which the files are looked at: changed ones are read again, \
                          and used if all of them are valid; 0 leaves that to SIGHUP.",
            cost: "a thread",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.tls.check_interval,
        },
        Row {
            key: "tls.require",
            short: Some("require_tls"),
            unit: Unit::Switch,
            description: "Refuse to listen without TLS on an address that other machines reach.",
            cost: "none",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.tls.require,
        },
    ],
};
