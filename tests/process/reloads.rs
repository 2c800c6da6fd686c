//! SIGHUP: the configuration is read again and applied as far as possible.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use corelane_test_support::process::Signal;
use corelane_test_support::{Process, SMALL_RINGS, ServeProcess};
use serde_json::Value;
use tempfile::TempDir;

use crate::CORELANE;
use crate::mcp_client::McpClient;

/// A configuration file in a directory of its own.
struct ConfigFile {
    _directory: TempDir,
    path: PathBuf,
}

impl ConfigFile {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let file = Self { path: directory.path().join("corelane.toml"), _directory: directory };
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        fs::write(&self.path, text).expect("configuration is written");
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("path is UTF-8")
    }
}

/// Has the server read its configuration again and returns the lines that it logs.
fn reload(process: &mut Process) -> Vec<String> {
    let before = process.stderr_lines().len();
    process.signal(Signal::HUP);
    process.wait_for(|line| line.contains("configuration reloaded"));
    process.stderr_lines()[before..].to_vec()
}

/// Returns the address of HTTP that a starting server logs.
fn http_address(process: &mut Process) -> String {
    let line = process.wait_for(|line| line.contains("listening http "));
    let url = line.rsplit(' ').next().and_then(|url| url.strip_suffix("/mcp"));
    url.expect("the line ends with address and path").to_owned()
}

/// Sends a request with a head of 1,000 bytes, and returns the response.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("server accepts");
    let padding = "7".repeat(1000);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("server reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("response is text");
    response
}

#[test]
fn sighup_names_each_option_not_applied() {
    let file = ConfigFile::new("shards = 1\n");
    let mut server = ServeProcess::tcp(CORELANE, &["--config", file.path()]);
    file.write("shards = 2\nhttp.hosts = [\"example.org\"]\nrequest_timeout = \"7s\"\n");
    for _ in 0..2 {
        let lines = reload(&mut server.process);
        let named: Vec<&String> =
            lines.iter().filter(|line| line.contains("option not reloaded")).collect();
        assert_eq!(named.len(), 2, "{lines:?}");
        let shards = "key=shards running=1 configured=2";
        assert!(named[0].contains("WARN ") && named[0].ends_with(shards), "{lines:?}");
        let hosts = "key=http.hosts running=default configured=example.org";
        assert!(named[1].ends_with(hosts), "{lines:?}");
    }
}

#[test]
fn sighup_applies_log_level_and_format() {
    let file = ConfigFile::new("log.level = \"error\"\n");
    let mut server = ServeProcess::tcp(CORELANE, &["--config", file.path()]);
    file.write("log.level = \"debug\"\nlog.format = \"json\"\n");
    let lines = reload(&mut server.process);
    let reloaded: Value = serde_json::from_str(&lines[0]).expect("the line is JSON");
    assert_eq!(reloaded["message"], "configuration reloaded");
    server.process.signal(Signal::TERM);
    let ended = server.process.wait();
    let last: Value = serde_json::from_str(ended.stderr.lines().last().expect("the log has lines"))
        .expect("the line is JSON");
    assert_eq!((&last["level"], &last["message"]), (&"DEBUG".into(), &"counters".into()));
}

#[test]
fn json_log_has_time_on_every_line() {
    let arguments = ["serve", "--tcp", "127.0.0.1:0", "--http", "off", "--log-format", "json"];
    let mut process = Process::start(CORELANE, &[&arguments, SMALL_RINGS.as_slice()].concat());
    process.wait_for(|line| line.contains("listening tcp 127.0.0.1:"));
    process.signal(Signal::TERM);
    let ended = process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    for line in ended.stderr.lines() {
        let line: Value = serde_json::from_str(line).expect("the line is JSON");
        let time = line["time"].as_str().expect("the line has a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
        assert_eq!(line["level"], "INFO");
        assert!(line["message"].is_string(), "{line}");
    }
}

#[test]
fn sighup_reloads_limits_and_ignores_broken_file() {
    let file = ConfigFile::new("message_bytes_max = 4096\n");
    let mut server = ServeProcess::tcp(CORELANE, &["--config", file.path()]);
    let long = "7".repeat(10_000);
    let refused = |server: &ServeProcess| {
        let mut session = McpClient::modern(server.connect());
        session.peer.send_line(long.as_bytes());
        let code = session.receive(None)["error"]["code"].take();
        session.peer.expect_end_or_reset();
        code
    };
    assert_eq!(refused(&server), -32012);

    file.write("message_bytes_max = \"many\"\n");
    server.process.signal(Signal::HUP);
    server.process.wait_for(|line| line.contains("configuration not reloaded"));
    assert_eq!(refused(&server), -32012);

    file.write("message_bytes_max = 65536\n");
    reload(&mut server.process);
    McpClient::modern(server.connect()).check_echo(&long);
}

#[test]
fn sighup_reloads_http_limits_and_keeps_listeners() {
    let head_bytes_max = "tcp.address = \"off\"\nhttp.head_bytes_max = ";
    let listener = "http.address = \"127.0.0.1:0\"";
    let file = ConfigFile::new(&format!("{head_bytes_max}512\n{listener}\n"));
    let arguments = [&["serve", "--config", file.path()], SMALL_RINGS.as_slice()].concat();
    let mut process = Process::start(CORELANE, &arguments);
    let address = &http_address(&mut process);
    let status = || {
        let response = get(address, "/healthz");
        response.split(' ').nth(1).expect("status line has a status").to_owned()
    };
    assert_eq!(status(), "431");
    file.write(&format!("{head_bytes_max}4096\nhttp.address = \"off\"\n"));
    let lines = reload(&mut process);
    assert!(lines.iter().any(|line| line.contains("key=http.address")), "{lines:?}");
    assert_eq!(status(), "200");
}

#[test]
fn failed_reload_is_logged_and_counted() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let keys = directory.path().join("keys.txt");
    let key = format!("ada:{}\n", "0".repeat(64));
    fs::write(&keys, &key).expect("keys are written");
    let base = &format!(
        "tcp.address = \"off\"\nhttp.address = \"127.0.0.1:0\"\nauth.api_keys = [{keys:?}]\n"
    );
    let file = ConfigFile::new(base);
    let arguments = [&["serve", "--config", file.path()], SMALL_RINGS.as_slice()].concat();
    let mut process = Process::start(CORELANE, &arguments);
    let address = http_address(&mut process);
    let samples = || {
        let metrics = get(&address, "/metrics");
        let lines = metrics.lines().filter_map(|line| line.strip_prefix("corelane_config_"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (success, failure) =
        ("reload_total{result=\"success\"}", "reload_total{result=\"failure\"}");
    let never = "last_reload_timestamp_seconds 0".to_owned();
    assert_eq!(samples(), [format!("{success} 0"), format!("{failure} 0"), never.clone()]);
    let fail = |process: &mut Process, text: &str| {
        file.write(&format!("{base}{text}"));
        process.signal(Signal::HUP);
        process.wait_for(|line| line.contains("configuration not reloaded: "))
    };
    let line = fail(&mut process, "log.format = \"no\"\n");
    assert!(line.contains("log.format") && !line.contains("is applied"), "{line}");
    // The limit is applied, the malformed keys are not.
    fs::write(&keys, "ada").expect("keys are written");
    let line = fail(&mut process, "http.head_bytes_max = 512\n");
    assert!(line.contains("not reloaded: auth.api_keys: "), "{line}");
    assert!(line.ends_with("; the rest is applied"), "{line}");
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 431 "));
    fs::write(&keys, &key).expect("keys are written");
    file.write(base);
    let lines = reload(&mut process);
    assert_eq!(lines.iter().filter(|line| line.contains("configuration")).count(), 1, "{lines:?}");
    let counted = samples();
    assert_eq!(counted[..2], [format!("{success} 1"), format!("{failure} 2")]);
    assert!(counted.len() == 3 && counted[2] != never, "{counted:?}");
    let all = process.stderr_lines();
    assert_eq!(all.iter().filter(|line| line.contains("configuration reloaded")).count(), 1);
}
