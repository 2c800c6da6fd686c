//! Runs the scripts, and reads what they tell.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::serving::Serving;

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// The picture of the fixture: one red pixel.
pub(crate) const PNG: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2w",
    "AAAAAElFTkSuQmCC",
);

/// An official client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    Python,
    TypeScript,
}

/// What lies between a client and the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Pipes,
    /// Streamable HTTP.
    Http,
}

impl Sdk {
    /// What its scripts speak over.
    const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Python | Self::TypeScript => &[Transport::Pipes, Transport::Http],
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
            Self::TypeScript => {
                let mut command = Command::new("node");
                command.env("INTEROP_PACKAGES", installed().join("node"));
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
            client.arg(serving.url());
            Some(serving)
        }
    };
    let output = client.output().expect("the client starts");
    drop(serving);
    let (told, events) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the client failed ({}):\n{events}\n{told}", output.status);
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}:\n{told}\n{events}"))
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
