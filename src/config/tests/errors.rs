//! Errors and warnings about an invalid configuration.

use crate::config::issue::ConfigErrors;
use crate::config::read::load::{ConfigInputs, EffectiveConfig, assemble};
use crate::config::table;
use crate::config::unit::Unit;
use proptest::prelude::*;

use super::{from_file, from_flag, from_variable};

/// Returns the errors of an invalid configuration, one per line.
#[track_caller]
fn expect_errors(result: Result<EffectiveConfig, ConfigErrors>) -> String {
    match result {
        Ok(effective) => panic!("accepted: {:?}", effective.options),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn unknown_key_is_reported_with_line_and_suggestion() {
    assert_eq!(
        expect_errors(from_file("shards = 1\n\n[tcp]\nconections_max = 5\n")),
        "corelane.toml:4: tcp.conections_max: no such option; did you mean tcp.connections_max?"
    );
    assert_eq!(
        expect_errors(from_file("max_message_bytes = 5")),
        "corelane.toml:1: max_message_bytes: no such option; did you mean message_bytes_max?"
    );
    assert_eq!(
        expect_errors(from_file("colour = 1")),
        "corelane.toml:1: colour: no such option; `corelane check --all` shows every option"
    );
}

#[test]
fn unknown_section_is_reported_once() {
    assert_eq!(
        expect_errors(from_file("[tpc]\naddress = \"off\"\nnodelay = true\n")),
        "corelane.toml:1: tpc: no such section; did you mean [tcp]?"
    );
}

#[test]
fn section_and_value_mismatch_is_reported() {
    assert_eq!(
        expect_errors(from_file("tcp = 8888")),
        "corelane.toml:1: tcp: this is a section, not a whole number; \
         write its options under [tcp]"
    );
    assert_eq!(
        expect_errors(from_file("[shards]\nnumber = 3")),
        "corelane.toml:1: shards: expects a whole number, found a section; write digits, or auto"
    );
}

#[test]
fn wrong_toml_type_is_named() {
    for (text, found) in [
        ("nesting_max = 1.5", "a number with a fraction"),
        ("nesting_max = 1979-05-27", "a date"),
        ("nesting_max = [1]", "a list"),
        ("nesting_max = true", "true or false"),
        ("nesting_max = {}", "a section"),
    ] {
        let expected = format!(
            "corelane.toml:1: nesting_max: expects a whole number, found {found}; write digits"
        );
        assert_eq!(expect_errors(from_file(text)), expected);
    }
    assert_eq!(
        expect_errors(from_file("cpus = [0, {}]")),
        "corelane.toml:1: cpus: expects a list of cpus, found a list; \
         write a list such as 0,2-5, or auto"
    );
}

#[test]
fn out_of_range_value_names_range_and_source() {
    assert_eq!(
        expect_errors(from_file("nesting_max = 0")),
        "corelane.toml:1: nesting_max: 0 is out of range; write a value from 1 to 1024"
    );
    assert_eq!(
        expect_errors(from_file("nesting_max = -1")),
        "corelane.toml:1: nesting_max: \"-1\" is not a whole number; write digits"
    );
    assert_eq!(
        expect_errors(from_variable("CORELANE_MESSAGE_BYTES_MAX", "2GiB")),
        "environment CORELANE_MESSAGE_BYTES_MAX: message_bytes_max: 2GiB is out of range; \
         write a value from 256 to 1GiB"
    );
    assert_eq!(
        expect_errors(from_flag("tcp.idle_timeout", "5m")),
        "flag --tcp-idle-timeout: tcp.idle_timeout: \"5m\" is not a time; \
         write milliseconds, or a time such as 500ms, 30s, 5min, 1h or 1d"
    );
}

#[test]
fn invalid_host_or_origin_reports_guard_error() {
    assert_eq!(
        expect_errors(from_file("http.hosts = [\"a.example\", \"https://b.example\"]")),
        "corelane.toml:1: http.hosts: \"https://b.example\" is not a host: name, name:port, an \
         address (IPv6 in brackets), or *; \
         write a list such as mcp.example.com,192.0.2.1:8080, or default"
    );
    assert_eq!(
        expect_errors(from_variable("CORELANE_HTTP_ORIGINS", "https://a.example,b.example")),
        "environment CORELANE_HTTP_ORIGINS: http.origins: \"b.example\" is not an origin: \
         scheme://host, scheme://host:port, scheme://host:*, or *; \
         write a list such as https://app.example.com,http://dev.example:*, or default"
    );
    for text in ["http.hosts = [1]", "http.hosts = 8080", "http.hosts = true"] {
        assert!(
            expect_errors(from_file(text)).contains("expects a list of hosts, found "),
            "{text}"
        );
    }
}

#[test]
fn unknown_pinned_revision_is_rejected() {
    assert_eq!(
        expect_errors(from_flag("http.strict", "latest")),
        "flag --http-strict: http.strict: \"latest\" is not an allowed value; \
         write one of off, 2025-06-18, 2025-11-25, 2026-07-28"
    );
}

#[test]
fn every_option_rejects_empty_and_foreign_text() {
    for row in table::rows() {
        // Almost any text is a text, and the path of a directory.
        let foreign: &[&str] = match row.unit {
            Unit::Directory | Unit::File | Unit::Files => &["~"],
            Unit::Text | Unit::Words => &[" \t", "\u{7f}"],
            _ => &["¾", "none of it"],
        };
        for text in ["", "\u{0}"].iter().chain(foreign) {
            let errors = expect_errors(from_flag(row.key, text));
            assert!(errors.starts_with("flag --"), "{errors}");
            assert!(errors.contains(row.key) && errors.contains("; "), "{errors}");
        }
    }
}

#[test]
fn invalid_toml_reports_every_broken_line() {
    let errors = expect_errors(from_file("shards = 1\ncpus = \nnesting_max = [\n"));
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines[0].starts_with("corelane.toml:2: "), "{errors}");
    assert!(lines.len() > 1 && lines.iter().all(|line| line.contains("TOML")), "{errors}");
    let twice = expect_errors(from_file("shards = 1\nshards = 2\n"));
    assert!(twice.starts_with("corelane.toml:2: duplicate key"), "{twice}");
}

#[test]
fn errors_of_all_sources_are_reported_together() {
    let inputs = ConfigInputs {
        file: Some(("corelane.toml".to_owned(), "nesting_max = 0\nshrads = 1".to_owned())),
        variables: vec![("CORELANE_TCP".to_owned(), "8888".into())],
        flags: vec![("executor", "tokio".to_owned()), ("ring.receive_buffers", "3".to_owned())],
    };
    let ConfigErrors(errors) = assemble(&inputs).unwrap_err();
    let keys: Vec<&str> = errors.iter().map(|error| error.key.as_str()).collect();
    assert_eq!(keys, ["nesting_max", "shrads", "tcp.address", "executor", "ring.receive_buffers"]);
}

#[test]
fn overridden_value_is_validated() {
    let inputs = ConfigInputs {
        file: Some(("corelane.toml".to_owned(), "shards = 0".to_owned())),
        flags: vec![("shards", "2".to_owned())],
        ..ConfigInputs::default()
    };
    assert!(expect_errors(assemble(&inputs)).starts_with("corelane.toml:1: shards: "));
}

#[test]
fn contradicting_options_are_reported_at_set_option() {
    assert_eq!(
        expect_errors(from_flag("http.address", "127.0.0.1:8888")),
        "flag --http: http.address: 127.0.0.1:8888 is in use by tcp.address = 127.0.0.1:8888; \
         set another port for one of them, or off"
    );
    assert_eq!(
        expect_errors(from_file("task_ttl = \"2h\"")),
        "corelane.toml:1: task_ttl: 7200000 ms is above task_ttl_max = 3600000 ms; \
         lower it, or raise task_ttl_max"
    );
    let errors = expect_errors(from_file("shards = 3\ncpus = \"0-1\""));
    assert!(errors.starts_with("corelane.toml:1: shards: 3 shards need 3 cpus, only 2 are listed"));
}

#[test]
fn rules_skip_options_with_invalid_values() {
    let errors = expect_errors(from_file("shards = 3\ncpus = \"0-x\""));
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn misspelled_variable_is_an_error() {
    for (name, known) in [
        ("CORELANE_TCP_IDLE_TIMOUT", "CORELANE_TCP_IDLE_TIMEOUT"),
        ("CORELANE_SHRADS", "CORELANE_SHARDS"),
        ("CORELANE_HTTP_ADRES", "CORELANE_HTTP_ADDRESS"),
        ("CORELANE_CONFG", "CORELANE_CONFIG"),
    ] {
        let expected = format!(
            "environment {name}: no option has this variable; did you mean {known}? Correct or \
             unset it"
        );
        assert_eq!(expect_errors(from_variable(name, "1")), expected);
    }
}

#[test]
fn other_unknown_variable_is_a_warning() {
    for name in [
        "CORELANE_PORT",
        "CORELANE_PORT_8080_TCP",
        "CORELANE_PORT_8080_TCP_ADDR",
        "CORELANE_PORT_8080_TCP_PORT",
        "CORELANE_PORT_8080_TCP_PROTO",
        "CORELANE_SERVICE_HOST",
        "CORELANE_SERVICE_PORT",
        "CORELANE_SERVICE_PORT_HTTP",
    ] {
        let effective = from_variable(name, "tcp://10.0.0.1:80").unwrap();
        let expected = format!("environment {name}: no option has this variable; it is ignored; ");
        assert!(effective.warnings[0].to_string().starts_with(&expected), "{name}");
    }
    for name in ["CORELANE_CONFIG", "CORELANE_TOKEN"] {
        assert!(from_variable(name, "x").unwrap().warnings.is_empty(), "{name}");
    }
}

#[test]
fn both_variables_of_an_option_must_agree() {
    let inputs = |other: &str| ConfigInputs {
        variables: vec![
            ("CORELANE_HTTP".to_owned(), ":8081".into()),
            ("CORELANE_HTTP_ADDRESS".to_owned(), other.into()),
        ],
        ..ConfigInputs::default()
    };
    let errors = expect_errors(assemble(&inputs(":8082")));
    assert_eq!(
        errors,
        "environment CORELANE_HTTP_ADDRESS: http.address: :8082 differs from :8081 of \
         environment CORELANE_HTTP; set one of the two variables"
    );
    let effective = assemble(&inputs(":8081")).unwrap();
    assert_eq!(effective.options.http.address, Some(([0, 0, 0, 0], 8081).into()));
}

#[test]
fn options_without_effect_are_warned_where_set() {
    let warnings = |text: &str| -> Vec<String> {
        from_file(text).unwrap().warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings("[http]\nstrict = 2026-07-28\nlegacy_sse = true\n"),
        ["corelane.toml:3: http.legacy_sse: true has no effect: http.strict = 2026-07-28 \
             excludes clients of 2024-11-05; remove one of the two"]
    );
    assert_eq!(
        warnings("[http]\nlegacy = false\nstrict = \"2025-06-18\"\n"),
        ["corelane.toml:2: http.legacy: false has no effect: http.strict = 2025-06-18 serves \
             only that revision, with sessions; remove it, or set http.strict = off"]
    );
    assert_eq!(
        warnings("http.address = \"0.0.0.0:8080\"\nauth.insecure_public = true"),
        [
            "corelane.toml:1: http.address: 0.0.0.0:8080 is reachable from other machines, and \
             the server neither encrypts nor authenticates clients; set tls.certificates, and \
             auth.api_keys, auth.issuers or tls.client_certificates; listen on 127.0.0.1 behind a \
             proxy that does both; or restrict the network",
            "corelane.toml:1: http.address: browsers are admitted only at 0.0.0.0:8080, not at a \
             host name; list the host name in http.hosts, and other sites' origins in http.origins",
        ]
    );
    assert_eq!(
        warnings(
            "[http]\naddress = \"off\"\n[websocket]\npath = \"/ws\"\nping_interval = \"1h\"\n"
        ),
        [
            "corelane.toml:4: websocket.path: /ws has no effect: WebSocket needs HTTP, and \
             http.address is off; remove it, or set http.address",
            "corelane.toml:5: websocket.ping_interval: idle connections are closed before they \
             are pinged; set it below websocket.idle_timeout"
        ]
    );
    assert!(warnings("http.strict = 2026-07-28").is_empty());
}

#[test]
fn invalid_or_used_websocket_path_is_rejected() {
    let error = |text: &str| from_file(text).unwrap_err().to_string();
    assert_eq!(
        error("websocket.path = \"ws\""),
        "corelane.toml:1: websocket.path: \"ws\" does not begin with /; \
         write a path such as /mcp/ws, or off"
    );
    assert_eq!(
        error("websocket.path = \"/mcp\""),
        "corelane.toml:1: websocket.path: /mcp is in use by http.path; set another path, or off"
    );
}

#[test]
fn invalid_or_used_endpoint_path_is_rejected() {
    let error = |text: &str| from_file(text).unwrap_err().to_string();
    assert_eq!(
        error("http.path = \"mcp\""),
        "corelane.toml:1: http.path: \"mcp\" does not begin with /; write a path such as /mcp"
    );
    assert_eq!(
        error("http.path = \"/mcp?a=b\""),
        "corelane.toml:1: http.path: \"/mcp?a=b\" has characters that are not allowed in a path; \
         write a path such as /mcp"
    );
    assert_eq!(
        error("http.path = \"/metrics\""),
        "corelane.toml:1: http.path: /metrics is in use by the server itself; set another path"
    );
    assert_eq!(
        error("http.path = \"/mcp/ws\""),
        "corelane.toml:1: http.path: /mcp/ws is in use by websocket.path; set another path"
    );
    assert_eq!(
        error("[http]\npath = \"/a\"\nlegacy_sse_path = \"/a\""),
        "corelane.toml:3: http.legacy_sse_path: /a is in use by http.path; set another path"
    );
    assert_eq!(
        error("http.legacy_messages_path = \"off\""),
        "corelane.toml:1: http.legacy_messages_path: \"off\" does not begin with /; \
         write a path such as /mcp"
    );
    let swapped = "[http]\npath = \"/sse\"\nlegacy_sse_path = \"/mcp\"\nlegacy_sse = true";
    let options = from_file(swapped).unwrap().options;
    assert_eq!((&*options.http.path, &*options.http.legacy_sse_path), ("/sse", "/mcp"));
}

#[cfg(unix)]
#[test]
fn variable_that_is_not_utf8_is_rejected() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let variables = vec![("CORELANE_SHARDS".to_owned(), OsString::from_vec(vec![0xFF]))];
    let errors = expect_errors(assemble(&ConfigInputs { variables, ..ConfigInputs::default() }));
    assert!(errors.starts_with("environment CORELANE_SHARDS: shards: the value is not UTF-8"));
}

proptest! {
    #[test]
    fn arbitrary_file_never_panics(text in "(\\PC|\n|[=\\[\\]{}\"'.#,0-9a-z_]){0,200}") {
        let _result: Result<_, _> = from_file(&text);
    }

    #[test]
    fn arbitrary_value_never_panics(
        index in 0..table::rows().count(),
        text in "\\PC{0,20}|[0-9]{0,30}[a-zA-Z,-]{0,4}",
    ) {
        let row = table::rows().nth(index).unwrap();
        if let Ok(effective) = from_flag(row.key, &text) {
            let shown = row.format_value(&effective.options);
            let again = from_flag(row.key, &shown).unwrap();
            prop_assert_eq!(again.options, effective.options);
        }
    }
}
