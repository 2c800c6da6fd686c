//! Precedence of sources; every option can be set from each of them.

use std::time::Duration;

use crate::config::issue::Source;
use crate::config::options::{Options, Profile};
use crate::config::read::load::{ConfigInputs, assemble};
use crate::config::table::{self, Row};
use crate::config::unit::Unit;

use super::{format_value, from_file, from_flag, from_variable};

/// Returns a text that is valid for `row` alone and differs from its default.
fn other_than_default(row: &'static Row) -> String {
    let default = row.format_value(&Options::default());
    let candidates = match row.unit {
        Unit::Address => vec!["127.0.0.2:9".to_owned()],
        Unit::Choice(words) => words.iter().map(|&word| word.to_owned()).collect(),
        Unit::Cpus { .. } => vec!["0,2-3".to_owned()],
        Unit::Directory => vec!["/srv/a \"b\"".to_owned()],
        Unit::Files => vec!["/srv/a.pem,/srv/b.pem".to_owned()],
        Unit::Hosts => vec!["mcp.example.com,[::1]:80".to_owned()],
        Unit::Origins => vec!["https://a.example,http://b.example:*".to_owned()],
        Unit::Switch => vec!["false".to_owned(), "true".to_owned()],
        Unit::Text => ["another text", "rate=9/s"].map(str::to_owned).to_vec(),
        // Rules have a grammar of their own.
        Unit::Words => ["another text", "another 4", "ping rate=9/s"].map(str::to_owned).to_vec(),
        Unit::UriPrefix => vec!["docs://another/".to_owned()],
        Unit::EndpointPath | Unit::UrlPath => vec!["/another/path".to_owned()],
        _ => {
            let (least, most) = row.unit.range();
            vec![row.unit.format(least), row.unit.format(most)]
        }
    };
    let mut fit = candidates.into_iter().filter(|text| *text != default);
    fit.find(|text| from_flag(row.key, text).is_ok()).unwrap_or_else(|| panic!("{}", row.key))
}

#[test]
fn every_option_is_set_by_each_source() {
    for row in table::rows() {
        let text = other_than_default(row);
        let flag = from_flag(row.key, &text).unwrap();
        let variable = from_variable(&row.variable(), &text).unwrap();
        let file = from_file(&format!("{} = '{text}'", row.key)).unwrap();
        for effective in [&flag, &variable, &file] {
            assert_eq!(format_value(row, effective), text, "{}", row.key);
            assert_eq!(effective.options, flag.options, "{}", row.key);
        }
        assert_eq!(flag.source(row.key), &Source::Flag { flag: format!("--{}", row.flag()) });
        let name = Source::Environment { variable: row.variable() };
        assert_eq!(variable.source(row.key), &name);
        let line = Source::File { path: "corelane.toml".to_owned(), line: Some(1) };
        assert_eq!(file.source(row.key), &line);
        // Numbers and booleans without quotes.
        let bare = format!("{} = {}", row.key, row.format_toml(&flag.options));
        assert_eq!(from_file(&bare).unwrap().options, flag.options, "{bare}");
    }
}

#[test]
fn setting_one_option_changes_no_other() {
    let defaults = assemble(&ConfigInputs::default()).unwrap();
    for row in table::rows().filter(|row| row.key != "profile") {
        let effective = from_flag(row.key, &other_than_default(row)).unwrap();
        for other in table::rows().filter(|other| other.key != row.key) {
            assert_eq!(
                format_value(other, &effective),
                format_value(other, &defaults),
                "{}",
                row.key
            );
            assert_eq!(effective.source(other.key), &Source::Default);
        }
    }
}

#[test]
fn flag_overrides_environment_overrides_file_overrides_default() {
    let text = "tcp.connections_max = 1\ntcp.idle_timeout = 1\ntcp.first_message_timeout = 1\n";
    let inputs = ConfigInputs {
        file: Some(("corelane.toml".to_owned(), text.to_owned())),
        variables: vec![
            ("CORELANE_TCP_CONNECTIONS_MAX".to_owned(), "2".into()),
            ("CORELANE_TCP_IDLE_TIMEOUT".to_owned(), "2s".into()),
        ],
        flags: vec![("tcp.connections_max", "3".to_owned())],
    };
    let effective = assemble(&inputs).unwrap();
    let tcp = &effective.options.tcp;
    assert_eq!(tcp.connections_max, 3);
    assert_eq!(tcp.idle_timeout, Duration::from_secs(2));
    assert_eq!(tcp.first_message_timeout, Duration::from_millis(1));
    assert!(tcp.nodelay);
    let sources: Vec<String> =
        ["tcp.connections_max", "tcp.idle_timeout", "tcp.first_message_timeout", "tcp.nodelay"]
            .map(|key| effective.source(key).to_string())
            .into();
    assert_eq!(
        sources,
        [
            "flag --tcp-connections-max",
            "environment CORELANE_TCP_IDLE_TIMEOUT",
            "corelane.toml:3",
            "default",
        ]
    );
}

#[test]
fn every_option_has_its_documented_default() {
    let options = assemble(&ConfigInputs::default()).unwrap().options;
    assert_eq!(options, Options::default());
    let values = table::rows().map(|row| (row.key, row.format_value(&options)));
    let values: Vec<(&str, String)> = values.collect();
    let values: Vec<(&str, &str)> = values.iter().map(|(key, text)| (*key, &**text)).collect();
    assert_eq!(values, DEFAULTS);
}

#[test]
fn profile_changes_defaults_and_not_set_options() {
    let effective = from_file("tcp.connections_max = 77\nprofile = \"tiny\"").unwrap();
    let tiny = Options::tiny();
    assert_eq!(effective.options.profile, Profile::Tiny);
    assert_eq!(effective.options.tcp.connections_max, 77);
    assert_eq!(effective.options.limits, tiny.limits);
    assert_eq!(effective.source("message_bytes_max"), &Source::Default);
}

#[test]
fn tiny_profile_limits_are_below_standard_limits() {
    let (standard, tiny) = (Options::default(), Options::tiny());
    let is_limit = |row: &&Row| row.key.contains("_max") || row.key.ends_with("_timeout");
    for row in table::rows().filter(is_limit) {
        let number = |options| row.unit.parse(&row.format_value(options)).unwrap();
        // A timeout of zero is off.
        let is_off = (number(&tiny), number(&standard)) == (0, 0);
        assert!(is_off || number(&tiny) < number(&standard), "{}", row.key);
    }
}

#[test]
fn equivalent_toml_spellings_give_same_options() {
    let sections = "cpus = [0, 2, 3]\nmessage_bytes_max = 0x10_0000\n\
                    [tcp]\nconnections_max = 1_000\nnodelay = false\n[ring]\nbackend = \"poll\"\n";
    let dotted = "cpus = \"0,2-3\"\r\nmessage_bytes_max = \"1MiB\"\r\n\
                  tcp = { connections_max = 1000, nodelay = \"false\" }\r\nring.backend = 'poll'";
    let sections = from_file(sections).unwrap();
    assert_eq!(sections.options, from_file(dotted).unwrap().options);
    assert_eq!(sections.options.limits.message_bytes_max, 1 << 20);
    assert_eq!(sections.source("ring.backend").to_string(), "corelane.toml:7");
}

#[test]
fn name_lists_accept_arrays_and_comma_separated_text() {
    let array = from_file("[http]\nhosts = [\"a.example\", 'b.example:80']\norigins = [\"*\"]\n");
    let text = from_file("http.hosts = \"a.example, b.example:80\"\nhttp.origins = '*'");
    let array = array.unwrap();
    assert_eq!(array.options, text.unwrap().options);
    assert_eq!(array.options.http.hosts, ["a.example", "b.example:80"]);
    let row = table::find("http.hosts").unwrap();
    assert_eq!(row.format_toml(&array.options), r#"["a.example", "b.example:80"]"#);
    for text in ["http.hosts = []", "http.hosts = \"default\""] {
        assert_eq!(from_file(text).unwrap().options, Options::default(), "{text}");
    }
}

#[test]
fn revision_without_quotes_is_accepted() {
    let bare = from_file("http.strict = 2025-06-18").unwrap();
    assert_eq!(bare.options, from_flag("http.strict", "2025-06-18").unwrap().options);
    assert_ne!(bare.options, Options::default());
}

/// Every option with its default, in the order of `--help`.
const DEFAULTS: &[(&str, &str)] = &[
    ("profile", "standard"),
    ("shards", "auto"),
    ("cpus", "auto"),
    ("executor", "auto"),
    ("ring.backend", "auto"),
    ("drain_timeout", "10s"),
    ("drain_delay", "0ms"),
    ("log.level", "info"),
    ("log.format", "text"),
    ("tcp.address", "127.0.0.1:8888"),
    ("tcp.connections_max", "1024"),
    ("tcp.acceptors", "10"),
    ("tcp.backlog_max", "4096"),
    ("tcp.reuse_port", "false"),
    ("tcp.idle_timeout", "5min"),
    ("tcp.first_message_timeout", "30s"),
    ("tcp.half_close_timeout", "0ms"),
    ("tcp.keepalive", "true"),
    ("tcp.nodelay", "true"),
    ("tcp.receive_buffer_bytes", "64KiB"),
    ("tcp.send_buffer_bytes", "64KiB"),
    ("http.address", "127.0.0.1:8080"),
    ("http.path", "/mcp"),
    ("http.connections_max", "10000"),
    ("http.hosts", "default"),
    ("http.origins", "default"),
    ("http.strict", "off"),
    ("http.pinned", "off"),
    ("http.head_bytes_max", "16KiB"),
    ("http.sse_start_delay", "15s"),
    ("http.sse_keepalive_interval", "30s"),
    ("admin.address", "off"),
    ("http.legacy", "true"),
    ("http.legacy_sse", "false"),
    ("http.legacy_sse_path", "/sse"),
    ("http.legacy_messages_path", "/messages"),
    ("http.session_id_query", "false"),
    ("http.second_stream", "replace"),
    ("http.sessions_max", "65536"),
    ("http.session_idle_timeout", "30min"),
    ("http.replay_events_max", "1000"),
    ("http.replay_bytes_max", "64MiB"),
    ("http.sse_retry", "3s"),
    ("websocket.path", "/mcp/ws"),
    ("websocket.connections_max", "1000"),
    ("websocket.ping_interval", "30s"),
    ("websocket.idle_timeout", "5min"),
    ("websocket.first_message_timeout", "5s"),
    ("websocket.fragment_timeout", "30s"),
    ("websocket.outgoing_bytes_max", "100KiB"),
    ("websocket.send_timeout", "5s"),
    ("websocket.strict_delimiter", "false"),
    ("websocket.utf8_close_code", "1007"),
    ("websocket.deflate", "false"),
    ("websocket.deflate_ratio_max", "100"),
    ("tls.certificates", "off"),
    ("tls.keys", "off"),
    ("tls.ocsp_staples", "off"),
    ("tls.ticket_keys", "off"),
    ("tls.tcp", "true"),
    ("tls.http", "true"),
    ("tls.client_certificates", "off"),
    ("tls.client_authorities", "off"),
    ("tls.revocation_lists", "off"),
    ("tls.handshake_timeout", "10s"),
    ("tls.handshakes_max", "1024"),
    ("tls.handshakes_per_address_max", "64"),
    ("tls.check_interval", "10s"),
    ("tls.require", "false"),
    ("auth.api_keys", "off"),
    ("auth.client_certificates", "default"),
    ("auth.resource", "default"),
    ("auth.audiences", "default"),
    ("auth.issuers", "default"),
    ("auth.key_sets", "default"),
    ("auth.introspection", "default"),
    ("auth.introspection_client", "off"),
    ("auth.introspections_max", "64"),
    ("auth.server_authorities", "off"),
    ("auth.algorithms", "default"),
    ("auth.leeway", "1min"),
    ("auth.require_at_jwt", "false"),
    ("auth.tier_claim", "default"),
    ("auth.tiers", "default"),
    ("auth.scopes_supported", "default"),
    ("auth.challenge_scopes", "default"),
    ("auth.scope_implies", "default"),
    ("auth.rules", "default"),
    ("auth.audit", "default"),
    ("auth.anonymous", "false"),
    ("auth.query_token", "false"),
    ("auth.verified_tokens_max", "65536"),
    ("auth.checks_per_turn_max", "4"),
    ("auth.dpop", "off"),
    ("auth.dpop_nonce", "false"),
    ("auth.dpop_window", "5min"),
    ("auth.dpop_proofs_max", "262144"),
    ("auth.check_interval", "10s"),
    ("rate.rules", "default"),
    ("rate.connections", "default"),
    ("rate.connections_per_address_max", "0"),
    ("rate.keys_max", "65536"),
    ("parity.mode", "on"),
    ("parity.path", "/parity"),
    ("parity.handshake_timeout_ms", "5s"),
    ("parity.capabilities_timeout_ms", "5s"),
    ("parity.capabilities_timeout_policy", "continue"),
    ("parity.keepalive_secs", "1min"),
    ("parity.sse_keepalive_secs", "30s"),
    ("parity.idle_timeout_secs", "2min"),
    ("parity.concurrent_max", "64"),
    ("parity.payload_bytes_max", "0"),
    ("parity.resume_window_chunks", "1000"),
    ("parity.resume_window_bytes", "1MiB"),
    ("parity.resume_window_secs", "1min"),
    ("parity.streams_max", "64"),
    ("parity.idempotency_keys_max", "1024"),
    ("stdio.buffer_bytes", "64KiB"),
    ("stdio.sequential", "false"),
    ("message_bytes_max", "16MiB"),
    ("nesting_max", "64"),
    ("requests_in_flight_max", "256"),
    ("request_timeout", "5min"),
    ("client_request_timeout", "5min"),
    ("request_state_ttl", "10min"),
    ("outgoing_bytes_max", "1MiB"),
    ("memory_bytes_max", "1GiB"),
    ("address_share_percent", "75"),
    ("tasks_max", "1024"),
    ("tasks_per_connection_max", "256"),
    ("task_ttl", "10min"),
    ("task_ttl_max", "1h"),
    ("task_bytes_max", "64MiB"),
    ("subscriptions_per_connection_max", "1024"),
    ("subscription_uris_max", "1024"),
    ("subscription_uri_bytes_max", "4KiB"),
    ("subscription_bytes_max", "64MiB"),
    ("overload.calls_max", "0"),
    ("overload.tool_calls_max", "0"),
    ("overload.tool_calls", "default"),
    ("overload.queue_target", "0ms"),
    ("overload.queue_interval", "0ms"),
    ("breaker.failed_percent", "0"),
    ("breaker.slow_percent", "0"),
    ("breaker.slow_after", "1s"),
    ("breaker.tool_errors", "false"),
    ("breaker.window", "10s"),
    ("breaker.calls_min", "20"),
    ("breaker.wait", "5s"),
    ("breaker.wait_max", "1min"),
    ("breaker.probes_max", "3"),
    ("memory_guard.refuse_connections_percent", "0"),
    ("memory_guard.refuse_messages_percent", "0"),
    ("memory_guard.end_streams_percent", "0"),
    ("memory_guard.close_slowest_percent", "0"),
    ("memory_guard.stalled_percent", "0"),
    ("memory_guard.message_bytes_max", "64KiB"),
    ("memory_guard.interval", "500ms"),
    ("server.name", "default"),
    ("server.title", "default"),
    ("server.version", "default"),
    ("server.instructions", "default"),
    ("demo", "auto"),
    ("page_size", "100"),
    ("expose_errors", "false"),
    ("slow_handler_threshold", "10ms"),
    ("resources.directory", "off"),
    ("resources.uri_prefix", "off"),
    ("resources.file_bytes_max", "8MiB"),
    ("resources.entries_max", "10000"),
    ("resources.depth_max", "16"),
    ("resources.hidden", "false"),
    ("prompts.directory", "off"),
    ("watch", "true"),
    ("blocking_threads", "4"),
    ("blocking_queue_max", "1024"),
    ("ring.sockets_max", "20000"),
    ("ring.submissions_max", "4096"),
    ("ring.completions_max", "32768"),
    ("ring.receive_buffers", "1024"),
    ("ring.receive_buffer_bytes", "8KiB"),
    ("ring.burst_buffers_max", "64"),
    ("ring.zero_copy_bytes_min", "off"),
    ("mesh.channel_messages_max", "1024"),
    ("mesh.inbox_messages_max", "4096"),
];
