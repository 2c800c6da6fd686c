//! Which of several values wins, and that every option can be given in every way.

use std::time::Duration;

use corelane::config::options::{Options, Profile};
use corelane::config::table::{self, Row};
use corelane::config::unit::Unit;
use corelane::config::{Inputs, Source, assemble};

use crate::{from_file, from_flag, from_variable, shown};

/// A text that is valid for `row` alone and not its default.
fn other_than_default(row: &'static Row) -> String {
    let default = row.show(&Options::default());
    let candidates = match row.unit {
        Unit::Address => vec!["127.0.0.2:9".to_owned()],
        Unit::Choice(words) => words.iter().map(|&word| word.to_owned()).collect(),
        Unit::Cpus { .. } => vec!["0,2-3".to_owned()],
        Unit::Directory => vec!["/srv/a \"b\"".to_owned()],
        Unit::Hosts => vec!["mcp.example.com,[::1]:80".to_owned()],
        Unit::Origins => vec!["https://a.example,http://b.example:*".to_owned()],
        Unit::Switch => vec!["false".to_owned(), "true".to_owned()],
        Unit::UrlPath => vec!["/another/path".to_owned()],
        _ => {
            let (least, most) = row.unit.bounds();
            vec![row.unit.write(least), row.unit.write(most)]
        }
    };
    let mut fit = candidates.into_iter().filter(|text| *text != default);
    fit.find(|text| from_flag(row.key, text).is_ok()).unwrap_or_else(|| panic!("{}", row.key))
}

#[test]
fn every_option_of_the_table_can_be_set_in_all_three_ways() {
    for row in table::rows() {
        let text = other_than_default(row);
        let flag = from_flag(row.key, &text).unwrap();
        let variable = from_variable(&row.variable(), &text).unwrap();
        let file = from_file(&format!("{} = '{text}'", row.key)).unwrap();
        for effective in [&flag, &variable, &file] {
            assert_eq!(shown(row, effective), text, "{}", row.key);
            assert_eq!(effective.options, flag.options, "{}", row.key);
        }
        assert_eq!(flag.source(row.key), &Source::Flag { flag: format!("--{}", row.flag()) });
        let name = Source::Environment { variable: row.variable() };
        assert_eq!(variable.source(row.key), &name);
        let line = Source::File { path: "corelane.toml".to_owned(), line: Some(1) };
        assert_eq!(file.source(row.key), &line);
        // As TOML writes it: numbers and switches bare.
        let bare = format!("{} = {}", row.key, row.show_toml(&flag.options));
        assert_eq!(from_file(&bare).unwrap().options, flag.options, "{bare}");
    }
}

#[test]
fn setting_one_option_changes_no_other() {
    let defaults = assemble(&Inputs::default()).unwrap();
    for row in table::rows().filter(|row| row.key != "profile") {
        let effective = from_flag(row.key, &other_than_default(row)).unwrap();
        for other in table::rows().filter(|other| other.key != row.key) {
            assert_eq!(shown(other, &effective), shown(other, &defaults), "{}", row.key);
            assert_eq!(effective.source(other.key), &Source::Default);
        }
    }
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let text = "tcp.connections_max = 1\ntcp.idle_ms_max = 1\ntcp.lease_ms_max = 1\n";
    let inputs = Inputs {
        file: Some(("corelane.toml".to_owned(), text.to_owned())),
        variables: vec![
            ("CORELANE_TCP_CONNECTIONS_MAX".to_owned(), "2".into()),
            ("CORELANE_TCP_IDLE_MS_MAX".to_owned(), "2s".into()),
        ],
        flags: vec![("tcp.connections_max", "3".to_owned())],
    };
    let effective = assemble(&inputs).unwrap();
    let tcp = &effective.options.tcp;
    assert_eq!(tcp.connections_max, 3);
    assert_eq!(tcp.idle_max, Duration::from_secs(2));
    assert_eq!(tcp.lease_max, Duration::from_millis(1));
    assert!(tcp.nodelay);
    let places: Vec<String> =
        ["tcp.connections_max", "tcp.idle_ms_max", "tcp.lease_ms_max", "tcp.nodelay"]
            .map(|key| effective.source(key).to_string())
            .into();
    assert_eq!(
        places,
        [
            "flag --tcp-connections-max",
            "environment CORELANE_TCP_IDLE_MS_MAX",
            "corelane.toml:3",
            "default",
        ]
    );
}

#[test]
fn nothing_given_gives_the_defaults_of_the_contract() {
    let options = assemble(&Inputs::default()).unwrap().options;
    assert_eq!(options, Options::default());
    let value = |key| table::find(key).unwrap().show(&options);
    for (key, default) in [
        ("tcp.address", "127.0.0.1:8888"),
        ("http.address", "127.0.0.1:8080"),
        ("http.connections_max", "1024"),
        ("http.hosts", "default"),
        ("http.origins", "default"),
        ("http.strict", "off"),
        ("http.legacy", "true"),
        ("http.sse_pair", "false"),
        ("http.head_bytes_max", "16KiB"),
        ("http.sessions_max", "65536"),
        ("http.session_idle_ms_max", "30min"),
        ("http.answer_ms_max", "15s"),
        ("http.silence_ms_max", "30s"),
        ("http.retry_ms", "1s"),
        ("tcp.connections_max", "1024"),
        ("tcp.acceptors", "10"),
        ("tcp.idle_ms_max", "5min"),
        ("tcp.lease_ms_max", "30s"),
        ("tcp.receive_buffer_bytes", "64KiB"),
        ("tcp.send_buffer_bytes", "64KiB"),
        ("tcp.keepalive", "true"),
        ("tcp.nodelay", "true"),
        ("stdio.buffer_bytes", "64KiB"),
        ("message_bytes_max", "16MiB"),
        ("drain_ms_max", "10s"),
    ] {
        assert_eq!(value(key), default, "{key}");
    }
}

#[test]
fn a_profile_moves_the_defaults_and_nothing_that_was_given() {
    let effective = from_file("tcp.connections_max = 77\nprofile = \"tiny\"").unwrap();
    let tiny = Options::tiny();
    assert_eq!(effective.options.profile, Profile::Tiny);
    assert_eq!(effective.options.tcp.connections_max, 77);
    assert_eq!(effective.options.limits, tiny.limits);
    assert_eq!(effective.source("message_bytes_max"), &Source::Default);
}

#[test]
fn every_limit_of_the_tiny_profile_is_below_the_standard_one() {
    let (standard, tiny) = (Options::default(), Options::tiny());
    for row in table::rows().filter(|row| row.key.contains("_max")) {
        let number = |options| row.unit.number(&row.show(options)).unwrap();
        assert!(number(&tiny) < number(&standard), "{}", row.key);
    }
}

#[test]
fn sections_dotted_keys_and_the_other_toml_spellings_mean_the_same() {
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
fn names_are_a_list_with_commas_or_an_array_and_none_of_them_is_the_default() {
    let array = from_file("[http]\nhosts = [\"a.example\", 'b.example:80']\norigins = [\"*\"]\n");
    let text = from_file("http.hosts = \"a.example, b.example:80\"\nhttp.origins = '*'");
    let array = array.unwrap();
    assert_eq!(array.options, text.unwrap().options);
    assert_eq!(array.options.http.hosts, ["a.example", "b.example:80"]);
    let row = table::find("http.hosts").unwrap();
    assert_eq!(row.show_toml(&array.options), r#"["a.example", "b.example:80"]"#);
    for text in ["http.hosts = []", "http.hosts = \"default\""] {
        assert_eq!(from_file(text).unwrap().options, Options::default(), "{text}");
    }
}

#[test]
fn a_revision_may_stand_without_quotes() {
    let bare = from_file("http.strict = 2025-06-18").unwrap();
    assert_eq!(bare.options, from_flag("http.strict", "2025-06-18").unwrap().options);
    assert_ne!(bare.options, Options::default());
}
