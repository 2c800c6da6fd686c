//! Warnings about valid options that have no effect or contradict each other.
//!
//! Invariants: a warning is reported only if its first option was set; defaults raise none.

use std::net::SocketAddr;

use corelane_protocol::revision::Revision;
use url::Host;

use crate::config::issue::Diagnostic;
use crate::config::options::{ClientCertificateMode, Options, ProxyProtocol};
use crate::config::rules::Rule;

/// All warnings.
pub static WARNINGS: [Rule; 21] = [
    Rule { keys: &["tcp.address"], check: tcp_is_public },
    Rule { keys: &["http.address"], check: http_is_public },
    Rule { keys: &["admin.address"], check: admin_is_public },
    Rule {
        keys: &["http.address", "admin.address", "admin.token"],
        check: operator_paths_are_open,
    },
    Rule {
        keys: &["tls.client_authorities", "tls.revocation_lists", "tls.client_certificates"],
        check: client_authorities_without_effect,
    },
    Rule { keys: &["tls.client_certificates", "tls.certificates"], check: tls_without_certificate },
    Rule {
        keys: &["auth.client_certificates", "tls.client_certificates"],
        check: certificates_not_asked,
    },
    Rule { keys: &["http.address", "http.hosts", "http.origins"], check: hosts_unset },
    Rule { keys: &["tcp.proxy_protocol", TRUSTED_PROXIES], check: tcp_headers_without_proxies },
    Rule { keys: &["http.proxy_protocol", TRUSTED_PROXIES], check: http_headers_without_proxies },
    Rule { keys: &["http.strict", "http.pinned"], check: strict_without_effect },
    Rule { keys: &["http.legacy", "http.strict", "http.pinned"], check: legacy_without_effect },
    Rule {
        keys: &["http.legacy_sse", "http.strict", "http.pinned", "http.legacy"],
        check: legacy_sse_disabled,
    },
    Rule { keys: &["http.legacy_sse_path", "http.legacy_sse"], check: sse_path_without_effect },
    Rule {
        keys: &["http.legacy_messages_path", "http.legacy_sse"],
        check: messages_path_without_effect,
    },
    Rule { keys: &["websocket.path", "http.address"], check: websocket_without_http },
    Rule { keys: &["websocket.ping_interval", "websocket.idle_timeout"], check: ping_too_late },
    Rule { keys: &["http.replay_bytes_max", "memory_bytes_max"], check: events_above_their_part },
    Rule {
        keys: &["subscription_bytes_max", "memory_bytes_max"],
        check: subscriptions_above_their_part,
    },
    Rule {
        keys: &["task_bytes_max", "memory_bytes_max", "shards"],
        check: results_above_their_part,
    },
    Rule { keys: &["traces.endpoint", "traces.headers"], check: keys_of_traces_unencrypted },
];

fn tcp_is_public(options: &Options) -> Option<Diagnostic> {
    let lacks = lacking(options, options.tls.encrypts_tcp(), options.auth.is_enabled())?;
    public_address(options.tcp.address, lacks, CLIENTS_HINT)
}

fn http_is_public(options: &Options) -> Option<Diagnostic> {
    let lacks = lacking(options, options.tls.encrypts_http(), options.auth.is_enabled())?;
    public_address(options.http.address, lacks, CLIENTS_HINT)
}

fn admin_is_public(options: &Options) -> Option<Diagnostic> {
    let lacks = lacking(options, options.tls.encrypts_admin(), options.admin.token.is_some())?;
    let hint = "set admin.token, and tls.certificates with tls.admin; listen on 127.0.0.1; or \
                restrict the network";
    public_address(options.admin.address, lacks, hint)
}

const CLIENTS_HINT: &str = "set tls.certificates, and auth.api_keys, auth.issuers or \
                            tls.client_certificates; listen on 127.0.0.1 behind a proxy that does \
                            both; or restrict the network";

/// Returns what a listener lacks. Without `auth.insecure_public` it is refused where it lacks
/// authentication, which is no warning.
fn lacking(options: &Options, is_encrypted: bool, has_tokens: bool) -> Option<&'static str> {
    let needs_certificate = options.tls.client_certificates == ClientCertificateMode::Required;
    match (is_encrypted, has_tokens || (is_encrypted && needs_certificate)) {
        (true, true) => None,
        (false, true) => Some("does not encrypt"),
        (_, false) if !options.auth.insecure_public => None,
        (true, false) => Some("does not authenticate clients"),
        (false, false) => Some("neither encrypts nor authenticates clients"),
    }
}

fn public_address(
    address: Option<SocketAddr>,
    lacks: &str,
    hint: &'static str,
) -> Option<Diagnostic> {
    let address = address.filter(|address| !address.ip().is_loopback())?;
    let message = format!("{address} is reachable from other machines, and the server {lacks}");
    Some(Diagnostic::new(message, hint))
}

/// Names the paths that need no token at an address whose other paths do.
fn operator_paths_are_open(options: &Options) -> Option<Diagnostic> {
    let address = options.http.address.filter(|address| !address.ip().is_loopback())?;
    let paths = match (options.admin.address, &options.admin.token) {
        (None, None) => "/, /status, /healthz, /readyz and /metrics",
        (None, Some(_)) => "/, /status, /healthz and /readyz",
        (Some(_), _) => "/ and /status",
    };
    options.auth.is_enabled().then(|| {
        let message = format!("{paths} at {address} need no token");
        let hint = "set admin.address for those of operators, and publish only the MCP endpoint \
                    and /.well-known/ by a proxy or a firewall";
        Diagnostic::new(message, hint)
    })
}

fn client_authorities_without_effect(options: &Options) -> Option<Diagnostic> {
    let tls = &options.tls;
    let is_unused = tls.client_certificates == ClientCertificateMode::Off
        && !(tls.client_authorities.is_empty() && tls.revocation_lists.is_empty());
    is_unused.then(|| {
        let message = "clients are not asked for certificates".to_owned();
        Diagnostic::new(message, "set tls.client_certificates to required or asked")
    })
}

fn tls_without_certificate(options: &Options) -> Option<Diagnostic> {
    let tls = &options.tls;
    let is_unused = tls.client_certificates != ClientCertificateMode::Off && !tls.has_certificate();
    is_unused.then(|| {
        let message = "no listener has TLS".to_owned();
        Diagnostic::new(message, "set tls.certificates and tls.keys")
    })
}

fn certificates_not_asked(options: &Options) -> Option<Diagnostic> {
    let is_off = options.tls.client_certificates == ClientCertificateMode::Off;
    let is_unused = is_off && !options.auth.client_certificates.is_empty();
    is_unused.then(|| {
        let message = "no client can send a certificate".to_owned();
        Diagnostic::new(message, "set tls.client_certificates to asked or required")
    })
}

fn hosts_unset(options: &Options) -> Option<Diagnostic> {
    let http = &options.http;
    let address = http.address.filter(|address| !address.ip().is_loopback())?;
    (http.hosts.is_empty() && http.origins.is_empty()).then(|| {
        let message = format!("browsers are admitted only at {address}, not at a host name");
        Diagnostic::new(
            message,
            "list the host name in http.hosts, and other sites' origins in http.origins",
        )
    })
}

const TRUSTED_PROXIES: &str = "trusted_proxies";

fn tcp_headers_without_proxies(options: &Options) -> Option<Diagnostic> {
    headers_without_proxies(options.tcp.proxy_protocol, options)
}

fn http_headers_without_proxies(options: &Options) -> Option<Diagnostic> {
    headers_without_proxies(options.http.proxy_protocol, options)
}

fn headers_without_proxies(mode: ProxyProtocol, options: &Options) -> Option<Diagnostic> {
    let is_closed = mode == ProxyProtocol::Required && options.proxies.trusted.is_empty();
    is_closed.then(|| {
        let message = "every connection is refused, since no proxy is trusted";
        Diagnostic::new(message, "set trusted_proxies")
    })
}

fn strict_without_effect(options: &Options) -> Option<Diagnostic> {
    let (strict, pinned) = (options.http.strict?, options.http.pinned?);
    let message = format!("{strict} has no effect: http.pinned = {pinned} replaces it");
    Some(Diagnostic::new(message, "remove one of the two"))
}

/// Returns the option that names the only revision served, and the revision.
fn only_revision(options: &Options) -> Option<(&'static str, Revision)> {
    let (revision, is_pinned) = options.http.only_revision()?;
    Some((if is_pinned { "http.pinned" } else { "http.strict" }, revision))
}

fn legacy_without_effect(options: &Options) -> Option<Diagnostic> {
    let legacy = options.http.legacy;
    let (key, only) = only_revision(options)?;
    (legacy == only.is_modern()).then(|| {
        let sessions = if only.is_modern() { "without" } else { "with" };
        let message = format!(
            "{legacy} has no effect: {key} = {only} serves only that revision, {sessions} sessions"
        );
        Diagnostic::new(message, format!("remove it, or set {key} = off"))
    })
}

fn legacy_sse_disabled(options: &Options) -> Option<Diagnostic> {
    let http = &options.http;
    let disabled_by = match only_revision(options) {
        Some((key, only)) => format!("{key} = {only}"),
        None if !http.legacy => "http.legacy = false".to_owned(),
        None => return None,
    };
    http.legacy_sse.then(|| {
        let message = format!("true has no effect: {disabled_by} excludes clients of 2024-11-05");
        Diagnostic::new(message, "remove one of the two")
    })
}

fn sse_path_without_effect(options: &Options) -> Option<Diagnostic> {
    let http = &options.http;
    let is_default = http.legacy_sse_path == Options::default().http.legacy_sse_path;
    (!http.legacy_sse && !is_default).then(|| without_legacy_sse(&http.legacy_sse_path))
}

fn messages_path_without_effect(options: &Options) -> Option<Diagnostic> {
    let http = &options.http;
    let is_default = http.legacy_messages_path == Options::default().http.legacy_messages_path;
    (!http.legacy_sse && !is_default).then(|| without_legacy_sse(&http.legacy_messages_path))
}

fn without_legacy_sse(path: &str) -> Diagnostic {
    let message = format!("{path} has no effect: http.legacy_sse = false");
    Diagnostic::new(message, "remove it, or set http.legacy_sse = true")
}

fn websocket_without_http(options: &Options) -> Option<Diagnostic> {
    let path = options.websocket.path.as_deref()?;
    options.http.address.is_none().then(|| {
        let message =
            format!("{path} has no effect: WebSocket needs HTTP, and http.address is off");
        Diagnostic::new(message, "remove it, or set http.address")
    })
}

fn ping_too_late(options: &Options) -> Option<Diagnostic> {
    let websocket = &options.websocket;
    (websocket.ping_interval >= websocket.idle_timeout).then(|| {
        let message = "idle connections are closed before they are pinged";
        Diagnostic::new(message, "set it below websocket.idle_timeout")
    })
}

fn events_above_their_part(options: &Options) -> Option<Diagnostic> {
    above_part_of_memory(options.http.replay_bytes_max, options.limits.stored_bytes_max())
}

fn subscriptions_above_their_part(options: &Options) -> Option<Diagnostic> {
    let limits = &options.limits;
    above_part_of_memory(limits.subscription_bytes_max, limits.stored_bytes_max())
}

fn results_above_their_part(options: &Options) -> Option<Diagnostic> {
    let shards = usize::from(options.engine.shards.unwrap_or(1)).max(1);
    let limits = &options.limits;
    above_part_of_memory(limits.task_bytes_max, limits.stored_bytes_max() / shards)
}

fn above_part_of_memory(bytes: usize, part: usize) -> Option<Diagnostic> {
    (bytes > part).then(|| {
        let message =
            format!("only {part} of {bytes} bytes are used: an eighth of memory_bytes_max");
        Diagnostic::new(message, "lower it, or raise memory_bytes_max")
    })
}

fn keys_of_traces_unencrypted(options: &Options) -> Option<Diagnostic> {
    let traces = &options.traces;
    let url = traces.endpoint_url().ok()??;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let has_fields = !traces.headers.is_empty() || traces.header_fields.iter().next().is_some();
    (url.scheme() == "http" && !is_local && has_fields).then(|| {
        let message = "header fields, which may be keys, are sent without encryption";
        Diagnostic::new(message, "write https://, or send none")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of(change: impl FnOnce(&mut Options)) -> Vec<&'static str> {
        let mut options = Options::default();
        change(&mut options);
        let warnings = WARNINGS.iter().filter(|rule| (rule.check)(&options).is_some());
        warnings.map(|rule| rule.keys[0]).collect()
    }

    #[test]
    fn warnings_name_existing_options() {
        let mut keys = WARNINGS.iter().flat_map(|rule| rule.keys);
        assert!(keys.all(|key| crate::config::table::find(key).is_some()));
    }

    #[test]
    fn default_options_raise_no_warning() {
        assert!(warnings_of(|_| {}).is_empty());
    }

    #[test]
    fn proxy_headers_need_trusted_proxies() {
        let required = |trusted: &[&str]| {
            warnings_of(|options| {
                options.tcp.proxy_protocol = ProxyProtocol::Required;
                options.http.proxy_protocol = ProxyProtocol::Required;
                options.proxies.trusted = trusted.iter().map(ToString::to_string).collect();
            })
        };
        assert_eq!(required(&[]), ["tcp.proxy_protocol", "http.proxy_protocol"]);
        assert!(required(&["127.0.0.1"]).is_empty());
    }

    #[test]
    fn public_address_is_warned_with_any_hosts() {
        let public = |options: &mut Options| {
            options.http.address = Some(([0; 4], 8080).into());
            options.auth.insecure_public = true;
        };
        assert_eq!(warnings_of(public), ["http.address"; 2]);
        let with_hosts = |options: &mut Options| {
            public(options);
            options.http.hosts = vec!["mcp.example.com".to_owned()];
        };
        assert_eq!(warnings_of(with_hosts), ["http.address"]);
        let with_origins = |options: &mut Options| {
            public(options);
            options.http.origins = vec!["*".to_owned()];
        };
        assert_eq!(warnings_of(with_origins), ["http.address"]);
        let tcp = |address| {
            warnings_of(|options| {
                options.tcp.address = Some(address);
                options.auth.api_keys = vec!["keys.txt".into()];
            })
        };
        assert_eq!(tcp(([10, 0, 0, 1], 8888).into()), ["tcp.address"]);
        assert!(tcp(([127, 0, 0, 2], 8888).into()).is_empty());
        let disabled = warnings_of(|options| options.http.address = None);
        assert!(!disabled.contains(&"http.address"), "{disabled:?}");
    }

    #[test]
    fn legacy_with_strict_profile_is_warned() {
        let strict = |revision, legacy| {
            warnings_of(|options| {
                options.http.strict = Some(revision);
                options.http.legacy = legacy;
            })
        };
        assert_eq!(strict(Revision::V2026_07_28, true), ["http.legacy"]);
        assert!(strict(Revision::V2026_07_28, false).is_empty());
        assert_eq!(strict(Revision::V2025_06_18, false), ["http.legacy"]);
        assert!(strict(Revision::V2025_06_18, true).is_empty());
    }

    #[test]
    fn legacy_sse_without_legacy_is_warned() {
        for (strict, legacy) in [(Some(Revision::V2025_06_18), true), (None, false)] {
            let warnings = warnings_of(|options| {
                (options.http.strict, options.http.legacy) = (strict, legacy);
                options.http.legacy_sse = true;
            });
            assert_eq!(warnings, ["http.legacy_sse"]);
        }
        assert!(warnings_of(|options| options.http.legacy_sse = true).is_empty());
    }

    #[test]
    fn legacy_sse_paths_without_legacy_sse_are_warned() {
        let warned = |legacy_sse| {
            warnings_of(|options| {
                options.http.legacy_sse = legacy_sse;
                options.http.legacy_sse_path = "/events".to_owned();
                options.http.legacy_messages_path = "/post".to_owned();
            })
        };
        assert_eq!(warned(false), ["http.legacy_sse_path", "http.legacy_messages_path"]);
        assert!(warned(true).is_empty());
    }

    #[test]
    fn websocket_path_without_http_is_warned() {
        assert_eq!(warnings_of(|it| it.http.address = None), ["websocket.path"]);
        let off = warnings_of(|it| (it.http.address, it.websocket.path) = (None, None));
        assert!(off.is_empty());
    }

    #[test]
    fn ping_after_idle_timeout_is_warned() {
        let late = warnings_of(|it| it.websocket.ping_interval = it.websocket.idle_timeout);
        assert_eq!(late, ["websocket.ping_interval"]);
    }

    #[test]
    fn keys_of_traces_need_encryption() {
        let with = |endpoint: &str| {
            warnings_of(|options| {
                options.traces.endpoint = Some(endpoint.to_owned());
                options.traces.header_fields.add("api-key", "secret").unwrap();
            })
        };
        assert_eq!(with("http://collector:4318"), ["traces.endpoint"]);
        for endpoint in ["https://collector:4318", "http://localhost:4318", "http://[::1]:4318"] {
            assert!(with(endpoint).is_empty(), "{endpoint}");
        }
    }

    #[test]
    fn bytes_above_an_eighth_of_memory_are_warned() {
        let keys = ["http.replay_bytes_max", "subscription_bytes_max", "task_bytes_max"];
        let with_memory = |bytes| warnings_of(|it| it.limits.memory_bytes_max = bytes);
        assert!(with_memory(512 << 20).is_empty());
        assert_eq!(with_memory((512 << 20) - 1), keys);
        assert_eq!(warnings_of(|it| it.engine.shards = Some(3)), ["task_bytes_max"]);
    }
}
