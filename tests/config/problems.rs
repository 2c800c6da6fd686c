//! What an operator is told about a configuration that is wrong.

use corelane::config::table;
use corelane::config::unit::Unit;
use corelane::config::{Effective, Inputs, Problems, assemble};
use proptest::prelude::*;

use crate::{from_file, from_flag, from_variable};

/// The problems of a configuration that must have some, one a line.
#[track_caller]
fn complaints(result: Result<Effective, Problems>) -> String {
    match result {
        Ok(effective) => panic!("accepted: {:?}", effective.options),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_key_that_was_meant() {
    assert_eq!(
        complaints(from_file("shards = 1\n\n[tcp]\nconections_max = 5\n")),
        "corelane.toml:4: tcp.conections_max: no such option; did you mean tcp.connections_max?"
    );
    assert_eq!(
        complaints(from_file("max_message_bytes = 5")),
        "corelane.toml:1: max_message_bytes: no such option; did you mean message_bytes_max?"
    );
    assert_eq!(
        complaints(from_file("colour = 1")),
        "corelane.toml:1: colour: no such option; `corelane check` shows every option"
    );
}

#[test]
fn an_unknown_section_is_told_once() {
    assert_eq!(
        complaints(from_file("[tpc]\naddress = \"off\"\nnodelay = true\n")),
        "corelane.toml:1: tpc: no such section; did you mean [tcp]?"
    );
}

#[test]
fn a_section_and_a_value_in_each_other_s_place_are_told_apart() {
    assert_eq!(
        complaints(from_file("tcp = 8888")),
        "corelane.toml:1: tcp: this is a section, not a whole number; \
         write its options under [tcp]"
    );
    assert_eq!(
        complaints(from_file("[shards]\nnumber = 3")),
        "corelane.toml:1: shards: expects a whole number, found a section; write digits, or auto"
    );
}

#[test]
fn every_wrong_kind_of_toml_value_is_named() {
    for (text, found) in [
        ("nesting_max = 1.5", "a number with a fraction"),
        ("nesting_max = 1979-05-27", "a date"),
        ("nesting_max = [1]", "a list"),
        ("nesting_max = true", "true or false"),
        ("nesting_max = {}", "a section"),
    ] {
        let wanted = format!(
            "corelane.toml:1: nesting_max: expects a whole number, found {found}; write digits"
        );
        assert_eq!(complaints(from_file(text)), wanted);
    }
    assert_eq!(
        complaints(from_file("cpus = [0, {}]")),
        "corelane.toml:1: cpus: expects a list of cpus, found a list; \
         write a list such as 0,2-5, or auto"
    );
}

#[test]
fn a_value_out_of_range_names_the_range_and_its_place() {
    assert_eq!(
        complaints(from_file("nesting_max = 0")),
        "corelane.toml:1: nesting_max: 0 is out of range; write a value from 1 to 1024"
    );
    assert_eq!(
        complaints(from_file("nesting_max = -1")),
        "corelane.toml:1: nesting_max: \"-1\" is not a whole number; write digits"
    );
    assert_eq!(
        complaints(from_variable("CORELANE_MESSAGE_BYTES_MAX", "2GiB")),
        "environment CORELANE_MESSAGE_BYTES_MAX: message_bytes_max: 2GiB is out of range; \
         write a value from 256 to 1GiB"
    );
    assert_eq!(
        complaints(from_flag("tcp.idle_ms_max", "5m")),
        "flag --tcp-idle-ms-max: tcp.idle_ms_max: \"5m\" is not a time; \
         write milliseconds, or a time such as 500ms, 30s, 5min, 1h or 1d"
    );
}

#[test]
fn a_name_that_is_none_is_refused_in_the_words_of_the_guard() {
    assert_eq!(
        complaints(from_file("http.hosts = [\"a.example\", \"https://b.example\"]")),
        "corelane.toml:1: http.hosts: \"https://b.example\" is not a host: name, name:port, an \
         address (IPv6 in brackets), or *; \
         write a list such as mcp.example.com,192.0.2.1:8080, or default"
    );
    assert_eq!(
        complaints(from_variable("CORELANE_HTTP_ORIGINS", "https://a.example,b.example")),
        "environment CORELANE_HTTP_ORIGINS: http.origins: \"b.example\" is not an origin: \
         scheme://host, scheme://host:port, scheme://host:*, or *; \
         write a list such as https://app.example.com,http://dev.example:*, or default"
    );
    for text in ["http.hosts = [1]", "http.hosts = 8080", "http.hosts = true"] {
        assert!(complaints(from_file(text)).contains("expects a list of hosts, found "), "{text}");
    }
}

#[test]
fn a_revision_that_cannot_be_pinned_is_refused() {
    assert_eq!(
        complaints(from_flag("http.strict", "latest")),
        "flag --http-strict: http.strict: \"latest\" is none of its words; \
         write one of off, 2025-06-18, 2025-11-25, 2026-07-28"
    );
}

#[test]
fn every_option_refuses_an_empty_and_a_foreign_text() {
    for row in table::rows() {
        // Almost any text is the path of some directory.
        let foreign: &[&str] =
            if row.unit == Unit::Directory { &["~"] } else { &["¾", "none of it"] };
        for text in ["", "\u{0}"].iter().chain(foreign) {
            let complaint = complaints(from_flag(row.key, text));
            assert!(complaint.starts_with("flag --"), "{complaint}");
            assert!(complaint.contains(row.key) && complaint.contains("; "), "{complaint}");
        }
    }
}

#[test]
fn broken_toml_is_told_with_every_line_that_is_broken() {
    let complaint = complaints(from_file("shards = 1\ncpus = \nnesting_max = [\n"));
    let lines: Vec<&str> = complaint.lines().collect();
    assert!(lines[0].starts_with("corelane.toml:2: "), "{complaint}");
    assert!(lines.len() > 1 && lines.iter().all(|line| line.contains("TOML")), "{complaint}");
    let twice = complaints(from_file("shards = 1\nshards = 2\n"));
    assert!(twice.starts_with("corelane.toml:2: duplicate key"), "{twice}");
}

#[test]
fn all_problems_of_all_sources_come_at_once() {
    let inputs = Inputs {
        file: Some(("corelane.toml".to_owned(), "nesting_max = 0\nshrads = 1".to_owned())),
        variables: vec![("CORELANE_TCP".to_owned(), "8888".into())],
        flags: vec![("executor", "tokio".to_owned()), ("ring.receive_buffers", "3".to_owned())],
    };
    let Problems(problems) = assemble(&inputs).unwrap_err();
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["nesting_max", "shrads", "tcp.address", "executor", "ring.receive_buffers"]);
}

#[test]
fn a_value_that_is_beaten_is_judged_all_the_same() {
    let inputs = Inputs {
        file: Some(("corelane.toml".to_owned(), "shards = 0".to_owned())),
        flags: vec![("shards", "2".to_owned())],
        ..Inputs::default()
    };
    assert!(complaints(assemble(&inputs)).starts_with("corelane.toml:1: shards: "));
}

#[test]
fn options_that_contradict_each_other_are_told_where_one_was_set() {
    assert_eq!(
        complaints(from_flag("http.address", "127.0.0.1:8888")),
        "flag --http: http.address: 127.0.0.1:8888 is taken by tcp.address = 127.0.0.1:8888; \
         give one of them another port, or off"
    );
    assert_eq!(
        complaints(from_file("task_ttl_ms = \"2h\"")),
        "corelane.toml:1: task_ttl_ms: 7200000 ms is above task_ttl_ms_max = 3600000 ms; \
         lower it, or raise task_ttl_ms_max"
    );
    let complaint = complaints(from_file("shards = 3\ncpus = \"0-1\""));
    assert!(complaint.starts_with("corelane.toml:1: shards: 3 shards do not fit on 2 cpus"));
}

#[test]
fn a_rule_does_not_judge_an_option_that_could_not_be_read() {
    let complaint = complaints(from_file("shards = 3\ncpus = \"0-x\""));
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn an_unknown_variable_is_a_warning_since_others_may_have_set_it() {
    let effective = from_variable("CORELANE_TCP_IDLE_MAX", "1").unwrap();
    assert_eq!(
        effective.warnings[0].to_string(),
        "environment CORELANE_TCP_IDLE_MAX: no option has this variable; it is ignored; \
         did you mean CORELANE_TCP_IDLE_MS_MAX?"
    );
    assert!(from_variable("CORELANE_CONFIG", "x").unwrap().warnings.is_empty());
}

#[test]
fn what_is_odd_is_a_warning_where_it_was_given() {
    let warnings = |text: &str| -> Vec<String> {
        from_file(text).unwrap().warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings("[http]\nstrict = 2026-07-28\nsse_pair = true\n"),
        ["corelane.toml:3: http.sse_pair: true has no effect: http.strict = 2026-07-28 shuts out \
          clients of 2024-11-05; leave one of them out"]
    );
    assert_eq!(
        warnings("[http]\nlegacy = false\nstrict = \"2025-06-18\"\n"),
        ["corelane.toml:2: http.legacy: false has no effect: http.strict = 2025-06-18 alone \
          is served, with sessions; leave it out, or set http.strict = off"]
    );
    assert_eq!(
        warnings("http.address = \"0.0.0.0:8080\""),
        ["corelane.toml:1: http.address: 0.0.0.0:8080 is reached from elsewhere, and pages are \
          let in only where they were loaded from its address: under a name browsers are \
          refused; list the name in http.hosts, and foreign pages in http.origins"]
    );
    assert_eq!(
        warnings("[http]\naddress = \"off\"\n[websocket]\npath = \"/ws\"\nping_ms = \"1h\"\n"),
        [
            "corelane.toml:4: websocket.path: /ws has no effect: http.address is off, and there is \
             no other door; leave it out, or give an address with http.address",
            "corelane.toml:5: websocket.ping_ms: peers that are silent are closed before they are \
             asked by a ping; ping sooner, or raise websocket.idle_ms_max"
        ]
    );
    assert!(warnings("http.strict = 2026-07-28").is_empty());
}

#[test]
fn a_path_that_is_none_or_taken_is_refused() {
    let refusal = |text: &str| from_file(text).unwrap_err().to_string();
    assert_eq!(
        refusal("websocket.path = \"ws\""),
        "corelane.toml:1: websocket.path: \"ws\" does not begin with /; \
         write a path such as /mcp/ws, or off"
    );
    assert_eq!(
        refusal("websocket.path = \"/mcp\""),
        "corelane.toml:1: websocket.path: /mcp is taken; write another path, or off"
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let variables = vec![("CORELANE_SHARDS".to_owned(), OsString::from_vec(vec![0xFF]))];
    let complaint = complaints(assemble(&Inputs { variables, ..Inputs::default() }));
    assert!(complaint.starts_with("environment CORELANE_SHARDS: shards: its value is not UTF-8"));
}

proptest! {
    #[test]
    fn no_file_makes_it_panic(text in "(\\PC|\n|[=\\[\\]{}\"'.#,0-9a-z_]){0,200}") {
        let _result: Result<_, _> = from_file(&text);
    }

    #[test]
    fn no_text_makes_an_option_panic(
        place in 0..table::rows().count(),
        text in "\\PC{0,20}|[0-9]{0,30}[a-zA-Z,-]{0,4}",
    ) {
        let row = table::rows().nth(place).unwrap();
        if let Ok(effective) = from_flag(row.key, &text) {
            let shown = row.show(&effective.options);
            let again = from_flag(row.key, &shown).unwrap();
            prop_assert_eq!(again.options, effective.options);
        }
    }
}
