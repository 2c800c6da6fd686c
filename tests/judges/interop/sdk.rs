//! Runs the clients against a server and reads their summaries.

use std::path::{Path, PathBuf};
use std::process::Command;

use corelane_test_support::ServeProcess;

use crate::CORELANE;
pub(crate) use corelane_test_support::messages::{LEGACY, MODERN};
use serde_json::{Value, json};

/// Image of the demo service: one red pixel.
pub(crate) const PNG: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2w",
    "AAAAAElFTkSuQmCC",
);

/// Icons of the demo service.
pub(crate) fn icons() -> Value {
    let inline = concat!(
        "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%201%201'",
        "%3E%3Cpath%20fill='red'%20d='M0%200h1v1H0z'/%3E%3C/svg%3E",
    );
    let sizes = ["48x48", "96x96"];
    let remote = "https://example.com/icon.png";
    json!([
        { "src": remote, "mimeType": "image/png", "sizes": sizes, "theme": "light" },
        { "src": inline, "sizes": ["any"], "theme": "dark" },
    ])
}

/// An official SDK.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    Python,
    /// `rmcp`, tested over HTTP only.
    Rust,
    TypeScript,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of MCP 2024-11-05.
    LegacySse,
    WebSocket,
}

impl Sdk {
    /// Transports that every feature is tested over.
    pub(crate) const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Python | Self::TypeScript => &[Transport::Stdio, Transport::Http],
            Self::Rust => &[Transport::Http],
        }
    }

    /// Returns the command of its client, without arguments.
    pub(crate) fn client(self) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/interop");
        match self {
            Self::Python => python("client.py"),
            Self::Rust => Command::new(rust_program()),
            Self::TypeScript => {
                let mut command = Command::new("node");
                command.env("INTEROP_PACKAGES", node_packages());
                // Node.js 20 needs a flag for its WebSocket, later versions do not.
                command.args(["--experimental-websocket", "--no-warnings"]);
                command.arg(scripts.join("typescript/client.mjs"));
                command
            }
        }
    }
}

/// Returns the program of `rust/`.
pub(crate) fn rust_program() -> PathBuf {
    install_dir().join("rust/debug/corelane-interop")
}

/// Returns the directory of the packages for Node.js.
pub(crate) fn node_packages() -> PathBuf {
    install_dir().join("node")
}

/// Returns the command of a script for Python.
pub(crate) fn python(script: &str) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/interop/python");
    let mut command = Command::new(install_dir().join("python/bin/python"));
    // No bytecode in the source directory.
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(scripts.join(script));
    command
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    /// With the initialize handshake.
    Legacy,
    /// With `server/discover`.
    Modern,
}

impl Era {
    pub(crate) const fn mode(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "auto",
        }
    }
}

/// Runs a feature in both eras over every transport and passes each summary to `expect`.
pub(crate) fn in_both_eras(sdk: Sdk, feature: &str, expect: fn(&Value, Era)) {
    for era in [Era::Legacy, Era::Modern] {
        in_era(sdk, feature, era, |summary| expect(summary, era));
    }
}

/// Runs a feature in one era over every transport.
pub(crate) fn in_era(sdk: Sdk, feature: &str, era: Era, expect: impl Fn(&Value)) {
    in_mode(sdk, feature, era.mode(), expect);
}

/// Runs a feature in one mode over every transport.
pub(crate) fn in_mode(sdk: Sdk, feature: &str, mode: &str, expect: impl Fn(&Value)) {
    for transport in sdk.transports() {
        expect(&run(sdk, feature, mode, *transport, &[]));
    }
}

/// Runs a feature in one mode against the conformance fixture with further `options`. The clients
/// have their own timeouts.
pub(crate) fn run(
    sdk: Sdk,
    feature: &str,
    mode: &str,
    transport: Transport,
    options: &[&str],
) -> Value {
    run_with_stderr(sdk, feature, mode, transport, options).0
}

/// Runs a feature over stdio; also returns the server's counters of client requests, one string per
/// connection.
pub(crate) fn client_request_counters(sdk: Sdk, feature: &str, era: Era) -> (Value, Vec<String>) {
    let options = ["--log", "debug"];
    let (summary, events) = run_with_stderr(sdk, feature, era.mode(), Transport::Stdio, &options);
    let groups = events.lines().filter(|line| line.contains(" counters ")).map(|line| {
        let group = line.split(" | ").find_map(|group| group.strip_prefix("client_requests "));
        group.unwrap_or_default().to_owned()
    });
    (summary, groups.collect())
}

/// Like [`run`], and also returns standard error of the client (over stdio, of the server too).
fn run_with_stderr(
    sdk: Sdk,
    feature: &str,
    mode: &str,
    transport: Transport,
    options: &[&str],
) -> (Value, String) {
    eprintln!("{sdk:?}, {feature}, {mode}, {transport:?}");
    let mut client = sdk.client();
    client.args([feature, mode]);
    let options = [&["--demo", "conformance"], options].concat();
    let options = options.as_slice();
    // Over stdio the client starts the server, over HTTP the test does.
    let serving = match transport {
        Transport::Stdio => {
            client.args([CORELANE, "stdio"]).args(options);
            None
        }
        Transport::Http => {
            let serving = ServeProcess::http(CORELANE, options);
            client.arg(serving.url("/mcp"));
            Some(serving)
        }
        Transport::LegacySse => {
            let serving =
                ServeProcess::http(CORELANE, &[&["--http-legacy-sse", "true"], options].concat());
            client.arg(serving.url("/sse"));
            Some(serving)
        }
        Transport::WebSocket => {
            let serving = ServeProcess::http(CORELANE, options);
            client.arg(serving.url("/mcp/ws").replacen("http", "ws", 1));
            Some(serving)
        }
    };
    let summary = summary_of(client);
    drop(serving);
    summary
}

/// Runs a client; returns its summary and its standard error.
pub(crate) fn summary_of(mut client: Command) -> (Value, String) {
    let output = client.output().expect("the client starts");
    let (stdout, events) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the client failed ({}):\n{events}\n{stdout}", output.status);
    let summary = serde_json::from_str(&stdout);
    let summary = summary.unwrap_or_else(|error| panic!("{error}:\n{stdout}\n{events}"));
    (summary, events.into_owned())
}

/// Returns the first text of a successful result.
pub(crate) fn text(outcome: &Value) -> &str {
    assert_ne!(outcome["result"]["isError"], true, "{outcome:#}");
    first_text(outcome)
}

/// Returns the first text of a tool error.
pub(crate) fn failure(outcome: &Value) -> &str {
    assert_eq!(outcome["result"]["isError"], true, "{outcome:#}");
    first_text(outcome)
}

/// Returns the JSON-RPC error code of a failed request.
pub(crate) fn code(outcome: &Value) -> i64 {
    outcome["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {outcome:#}"))
}

/// Returns the values of `key` in a list of objects.
pub(crate) fn each<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap_or_else(|| panic!("no list: {list:#}"));
    items.iter().filter_map(|item| item[key].as_str()).collect()
}

fn first_text(outcome: &Value) -> &str {
    let text = outcome["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {outcome:#}"))
}

/// Returns the directory of `install.sh`.
fn install_dir() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
    assert!(
        dir.join("installed").is_file(),
        "the official clients are not in {}: run tests/judges/interop/install.sh (./test.sh does)",
        dir.display()
    );
    dir
}
