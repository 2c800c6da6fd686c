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
        Unit::Directory | Unit::File => vec!["/srv/a \"b\"".to_owned()],
        Unit::Files => vec!["/srv/a.pem,/srv/b.pem".to_owned()],
        Unit::Hosts => vec!["mcp.example.com,[::1]:80".to_owned()],
        Unit::Origins => vec!["https://a.example,http://b.example:*".to_owned()],
        Unit::Switch => vec!["false".to_owned(), "true".to_owned()],
        Unit::Text => ["another text", "rate=9/s", "http://a.example:4318/v1/traces"]
            .map(str::to_owned)
            .to_vec(),
        // Rules have a grammar of their own.
        Unit::Words => ["another text", "another 4", "ping rate=9/s", "10.0.0.0/8,::1"]
            .map(str::to_owned)
            .to_vec(),
        Unit::Demo => vec!["tools=3,bytes=9".to_owned(), "off".to_owned()],
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
fn options_of_nothing_are_the_defaults() {
    let options = assemble(&ConfigInputs::default()).unwrap().options;
    assert_eq!(options, Options::default());
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
