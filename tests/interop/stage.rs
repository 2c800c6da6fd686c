//! Runs the scripts, and reads what they tell.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::serving::Serving;

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// The picture of the fixture: one red pixel.
pub(crate) const PNG: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2w",
    "AAAAAElFTkSuQmCC",
);

/// The icons of the fixture.
pub(crate) fn icons() -> Value {
    let square = concat!(
        "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%201%201'",
        "%3E%3Cpath%20fill='red'%20d='M0%200h1v1H0z'/%3E%3C/svg%3E",
    );
    let sizes = ["48x48", "96x96"];
    let fetched = "https://example.com/icon.png";
    json!([
        { "src": fetched, "mimeType": "image/png", "sizes": sizes, "theme": "light" },
        { "src": square, "sizes": ["any"], "theme": "dark" },
    ])
}

/// An official client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    Python,
    /// `rmcp`, which is used over HTTP alone.
    Rust,
    TypeScript,
}

/// What lies between a client and the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Pipes,
    /// Streamable HTTP.
    Http,
    /// HTTP with SSE, the two endpoints of 2024-11-05.
    Pair,
    /// The one connection of a WebSocket.
    WebSocket,
}

impl Sdk {
    /// What its scripts speak over.
    pub(crate) const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Python | Self::TypeScript => &[Transport::Pipes, Transport::Http],
            Self::Rust => &[Transport::Http],
        }
    }

    /// Its client, still without arguments.
    fn client(self) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        match self {
            Self::Python => {
                let mut command = Command::new(installed().join("python/bin/python"));
                // Nothing that a test makes belongs beside the sources.
                command.env("PYTHONDONTWRITEBYTECODE", "1").arg(scripts.join("python/client.py"));
                command
            }
            Self::Rust => Command::new(installed().join("rust/debug/corelane-interop")),
            Self::TypeScript => {
                let mut command = Command::new("node");
                command.env("INTEROP_PACKAGES", installed().join("node"));
                // Node.js 20 has a WebSocket for those who ask, later ones for everybody.
                command.args(["--experimental-websocket", "--no-warnings"]);
                command.arg(scripts.join("typescript/client.mjs"));
                command
            }
        }
    }
}

/// How a client and the server came to agree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    /// By the initialize handshake.
    Legacy,
    /// By discovery.
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

/// Has a client use a feature in one era after the other, each over every transport, and hands each
/// summary to `expect`.
pub(crate) fn in_both_eras(sdk: Sdk, feature: &str, expect: fn(&Value, Era)) {
    for era in [Era::Legacy, Era::Modern] {
        in_era(sdk, feature, era, |summary| expect(summary, era));
    }
}

/// Has a client use a feature in one era, over every transport.
pub(crate) fn in_era(sdk: Sdk, feature: &str, era: Era, expect: impl Fn(&Value)) {
    in_mode(sdk, feature, era.mode(), expect);
}

/// Has a client use a feature in one mode, over every transport.
pub(crate) fn in_mode(sdk: Sdk, feature: &str, mode: &str, expect: impl Fn(&Value)) {
    for transport in sdk.transports() {
        expect(&run(sdk, feature, mode, *transport, &[]));
    }
}

/// Has a client use a feature in one mode, against a server with `options` more; the scripts bound
/// their own time.
pub(crate) fn run(
    sdk: Sdk,
    feature: &str,
    mode: &str,
    transport: Transport,
    options: &[&str],
) -> Value {
    watched(sdk, feature, mode, transport, options).0
}

/// What a feature comes to over pipes, and what the server counted about its questions, one line
/// for each connection.
pub(crate) fn questions_counted(sdk: Sdk, feature: &str, era: Era) -> (Value, Vec<String>) {
    let options = ["--log", "debug"];
    let (summary, events) = watched(sdk, feature, era.mode(), Transport::Pipes, &options);
    let groups = events.lines().filter(|line| line.contains(" counted ")).map(|line| {
        let group = line.split(" \u{b7} ").find_map(|group| group.strip_prefix("questions "));
        group.unwrap_or_default().to_owned()
    });
    (summary, groups.collect())
}

/// As [`run`], and what the client wrote to standard error; over pipes the server writes there too.
fn watched(
    sdk: Sdk,
    feature: &str,
    mode: &str,
    transport: Transport,
    options: &[&str],
) -> (Value, String) {
    eprintln!("{sdk:?}, {feature}, {mode}, {transport:?}");
    let mut client = sdk.client();
    client.args([feature, mode]);
    // Over pipes it is the client that starts the server, over HTTP the test.
    let serving = match transport {
        Transport::Pipes => {
            client.args([env!("CARGO_BIN_EXE_corelane"), "stdio"]).args(options);
            None
        }
        Transport::Http => {
            let serving = Serving::start(options);
            client.arg(serving.url("/mcp"));
            Some(serving)
        }
        Transport::Pair => {
            let serving = Serving::start(&[&["--http-sse-pair", "true"], options].concat());
            client.arg(serving.url("/sse"));
            Some(serving)
        }
        Transport::WebSocket => {
            let serving = Serving::start(options);
            client.arg(serving.url("/mcp/ws").replacen("http", "ws", 1));
            Some(serving)
        }
    };
    let output = client.output().expect("the client starts");
    drop(serving);
    let (told, events) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the client failed ({}):\n{events}\n{told}", output.status);
    let summary = serde_json::from_str(&told);
    let summary = summary.unwrap_or_else(|error| panic!("{error}:\n{told}\n{events}"));
    (summary, events.into_owned())
}

/// The text of a result that is no failure, its first where it has several.
pub(crate) fn text(outcome: &Value) -> &str {
    assert_ne!(outcome["result"]["isError"], true, "{outcome:#}");
    first_text(outcome)
}

/// The text of a result that tells a failure.
pub(crate) fn failure(outcome: &Value) -> &str {
    assert_eq!(outcome["result"]["isError"], true, "{outcome:#}");
    first_text(outcome)
}

/// The code of the error that refused a request.
pub(crate) fn code(outcome: &Value) -> i64 {
    outcome["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {outcome:#}"))
}

/// The values of `key` in a list of objects.
pub(crate) fn each<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap_or_else(|| panic!("no list: {list:#}"));
    items.iter().filter_map(|item| item[key].as_str()).collect()
}

fn first_text(outcome: &Value) -> &str {
    let text = outcome["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {outcome:#}"))
}

/// Where `install.sh` puts the packages.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
    assert!(
        folder.join("installed").is_file(),
        "the official clients are not in {}: run tests/interop/install.sh (./test.sh does)",
        folder.display()
    );
    folder
}
