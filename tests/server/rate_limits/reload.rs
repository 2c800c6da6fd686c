//! Rules that change while the server runs, and malformed ones.

use std::fs;

use corelane_test_support::messages::{LEGACY, request_without_params};
use corelane_test_support::process::{Signal, run_program};
use corelane_test_support::{LineClient, ServeProcess};

use crate::CORELANE;
use crate::rate_limits::{CLIENT, OTHER, options, start};

/// Returns whether a `ping` is admitted.
fn ping(client: &mut LineClient) -> bool {
    client.exchange(request_without_params(1, "ping"))["error"]["code"] != 1002
}

#[test]
fn reloaded_rules_apply_to_open_connections() {
    let server = start(&["ping rate=1/h"]);
    let mut client = server.connect_initialized(LEGACY);
    assert_eq!([(); 3].map(|()| ping(&mut client)), [true, false, false]);
    // An unchanged rule keeps what it has counted.
    let handle = server.handle();
    handle.reload_rate(&options(&["tools/call rate=1/h", "ping  rate=1/h"])).unwrap();
    assert!(!ping(&mut client));
    handle.reload_rate(&options(&["ping rate=2/h"])).unwrap();
    assert_eq!([(); 3].map(|()| ping(&mut client)), [true, true, false]);
    let malformed = handle.reload_rate(&options(&["ping rate=2"])).unwrap_err();
    assert!(malformed.starts_with("rate.rules: \"ping rate=2\": "), "{malformed}");
    assert!(!ping(&mut client));
    handle.reload_rate(&options(&[])).unwrap();
    assert!((0..99).all(|_| ping(&mut client)));
    drop(client);
    server.close();
}

#[test]
fn reloaded_connection_rate_applies_to_next_connection() {
    let server = start(&[]);
    let mut changed = options(&[]);
    changed.rate.connections = Some("rate=1/d".to_owned());
    server.handle().reload_rate(&changed).unwrap();
    let connect = |from| LineClient::connect_from(from, server.tcp());
    assert!(ping(&mut connect(CLIENT)));
    let refused = connect(CLIENT).receive();
    assert_eq!(refused["error"]["code"], 1002, "{refused}");
    assert!(ping(&mut connect(OTHER)));
    server.handle().reload_rate(&options(&[])).unwrap();
    assert!(ping(&mut connect(CLIENT)));
    server.close();
}

#[test]
fn sighup_reloads_rules_of_the_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let write = |rule: &str| {
        fs::write(file.path(), format!("shards = 1\nrate.rules = [\"{rule}\"]\n"))
            .expect("it is written");
    };
    write("ping rate=1/h");
    let path = file.path().to_str().expect("a path in UTF-8");
    let mut server = ServeProcess::tcp(CORELANE, &["--config", path]);
    let mut client = server.connect();
    assert_eq!([(); 2].map(|()| ping(&mut client)), [true, false]);
    write("ping rate=2/h");
    server.process.signal(Signal::HUP);
    server.process.wait_for(|line| line.contains("configuration reloaded"));
    assert_eq!([(); 3].map(|()| ping(&mut client)), [true, true, false]);
    // A malformed rule changes nothing.
    write("ping rate=two/h");
    server.process.signal(Signal::HUP);
    let logged = server.process.wait_for(|line| line.contains("configuration not reloaded"));
    assert!(logged.contains("rate.rules"), "{logged}");
    assert!(!ping(&mut client));
}

#[test]
fn malformed_rule_is_named_by_its_key() {
    for (flag, value, key) in [
        ("--rate-rules", "ping rate=1", "rate.rules"),
        ("--rate-rules", "rate=1/s", "rate.rules"),
        ("--rate-connections", "20/s", "rate.connections"),
    ] {
        let checked = run_program(CORELANE, ["check", flag, value]);
        assert_eq!(checked.status, 1, "{checked:?}");
        let text = format!("{}{}", checked.stdout, checked.stderr);
        assert!(text.contains(key) || text.contains(flag), "{text}");
    }
}
