//! Options as a section of a host program's configuration.

use std::time::Duration;

use crate::config::options::{ExecutorKind, Options};

#[derive(Debug, serde::Deserialize)]
struct Host {
    mcp: Options,
}

fn read(text: &str) -> Result<Options, String> {
    toml::from_str::<Host>(text).map(|host| host.mcp).map_err(|error| error.message().to_owned())
}

#[test]
fn empty_section_has_all_defaults() {
    assert_eq!(read("[mcp]"), Ok(Options::default()));
}

#[test]
fn options_have_the_values_of_the_file() {
    let options = read(
        r#"
        [mcp]
        drain_timeout = "30s"
        cpus = [0, "1-2"]
        executor = "native"
        [mcp.http]
        address = "off"
        hosts = ["example.org", "api.example.org"]
        [mcp.tcp]
        nodelay = false
        connections_max = 7
        "#,
    );
    let options = options.unwrap();
    assert_eq!(options.engine.drain_timeout, Duration::from_secs(30));
    assert_eq!(options.engine.cpus, Some(vec![0, 1, 2]));
    assert_eq!(options.engine.executor, ExecutorKind::Native);
    assert_eq!(options.http.address, None);
    assert_eq!(options.http.hosts, ["example.org", "api.example.org"]);
    assert!(!options.tcp.nodelay);
    assert_eq!(options.tcp.connections_max, 7);
}

#[test]
fn options_are_read_from_json() {
    let text = r#"{ "drain_timeout": "1min", "tcp": { "connections_max": 7 } }"#;
    let options: Options = serde_json::from_str(text).unwrap();
    assert_eq!(options.engine.drain_timeout, Duration::from_mins(1));
    assert_eq!(options.tcp.connections_max, 7);
    let error = serde_json::from_str::<Options>(r#"{ "executor": null }"#).unwrap_err();
    assert!(error.to_string().contains("executor: expects"), "{error}");
}

#[test]
fn every_invalid_option_is_named() {
    let error = read(
        r#"
        [mcp]
        drain_timeout = 1.5
        conections_max = 7
        [mcp.tcp]
        nodelay = "perhaps"
        [mcp.htp]
        address = "off"
        "#,
    );
    let error = error.unwrap_err();
    for text in [
        "drain_timeout: expects a time, found a number with a fraction",
        "tcp.nodelay: \"perhaps\"",
        "conections_max: no such option; did you mean tcp.connections_max?",
        "htp: no such section; did you mean [http]?",
    ] {
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn contradicting_options_are_rejected() {
    let error = read("[mcp]\ncpus = [0]\nshards = 2").unwrap_err();
    assert!(error.starts_with("shards: 2 shards need 2 cpus"), "{error}");
}
