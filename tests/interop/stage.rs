//! Runs the scripts, and reads what they tell.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

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
    TypeScript,
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
    const fn mode(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "auto",
        }
    }
}

/// Has a client use a feature in one era after the other, and hands each summary to `expect`.
pub(crate) fn in_both_eras(sdk: Sdk, feature: &str, expect: fn(&Value, Era)) {
    for era in [Era::Legacy, Era::Modern] {
        eprintln!("{sdk:?}, {feature}, {era:?}");
        expect(&in_era(sdk, feature, era), era);
    }
}

/// Has a client use a feature in one era.
pub(crate) fn in_era(sdk: Sdk, feature: &str, era: Era) -> Value {
    run(sdk, feature, era.mode(), &[])
}

/// Has a client use a feature in one mode, against a server with `options` more; the scripts bound
/// their own time.
pub(crate) fn run(sdk: Sdk, feature: &str, mode: &str, options: &[&str]) -> Value {
    watched(sdk, feature, mode, options).0
}

/// As [`in_era`], and what the server counted about its questions, one line for each connection.
pub(crate) fn questions_counted(sdk: Sdk, feature: &str, era: Era) -> (Value, Vec<String>) {
    let (summary, events) = watched(sdk, feature, era.mode(), &["--log", "debug"]);
    let groups = events.lines().filter(|line| line.contains(" counted ")).map(|line| {
        let group = line.split(" \u{b7} ").find_map(|group| group.strip_prefix("questions "));
        group.unwrap_or_default().to_owned()
    });
    (summary, groups.collect())
}

/// As [`run`], and what the server wrote to standard error, which it has from its client.
fn watched(sdk: Sdk, feature: &str, mode: &str, options: &[&str]) -> (Value, String) {
    let server = env!("CARGO_BIN_EXE_corelane");
    let output = script(sdk)
        .args([feature, mode, server, "stdio"])
        .args(options)
        .output()
        .expect("the client starts");
    let (told, events) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the client failed ({}):\n{events}\n{told}", output.status);
    let summary = serde_json::from_str(&told);
    let summary = summary.unwrap_or_else(|error| panic!("{error}:\n{told}\n{events}"));
    (summary, events.into_owned())
}

/// As [`run`], against a server that offers the files of `folder` as resources.
pub(crate) fn beside_files(sdk: Sdk, feature: &str, era: Era, folder: &Path) -> Value {
    let folder = folder.to_str().expect("a folder with a name in UTF-8");
    run(sdk, feature, era.mode(), &["--resources", folder])
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

fn script(sdk: Sdk) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    match sdk {
        Sdk::Python => {
            let mut command = Command::new(installed().join("python/bin/python"));
            // Nothing that a test makes belongs beside the sources.
            command.env("PYTHONDONTWRITEBYTECODE", "1").arg(scripts.join("python/client.py"));
            command
        }
        Sdk::TypeScript => {
            let mut command = Command::new("node");
            command.env("INTEROP_PACKAGES", installed().join("node"));
            command.arg(scripts.join("typescript/client.mjs"));
            command
        }
    }
}
