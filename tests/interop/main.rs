//! The official clients of Python and TypeScript against `corelane stdio`, in both eras.
//!
//! Each test runs one client script (`client.py`, `client.mjs`) in one mode as a child process. The
//! script starts the server over pipes, does what a client does, and tells what came back as one
//! JSON object; what it must say is asserted here. The packages are installed by
//! `tests/interop/install.sh` before the tests; where they are missing a test fails and says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// What the scripts say in `echo`: two, three and four bytes of UTF-8 and a line feed.
const ECHO: &str = "ünï ☃ \n 𝄞";

#[test]
fn python_completes_a_legacy_session() {
    expect_session(&run(&mut python(), "legacy"), LEGACY);
}

#[test]
fn python_discovers_the_modern_era_by_itself() {
    expect_session(&run(&mut python(), "auto"), MODERN);
}

#[test]
fn python_speaks_the_modern_era_without_asking_first() {
    let summary = run(&mut python(), MODERN);
    expect_revision(&summary, MODERN);
    expect_calls(&summary);
}

#[test]
fn typescript_completes_a_legacy_session() {
    expect_session(&run(&mut typescript(), "legacy"), LEGACY);
}

#[test]
fn typescript_discovers_the_modern_era_by_itself() {
    expect_session(&run(&mut typescript(), "auto"), MODERN);
}

#[test]
fn typescript_speaks_a_pinned_modern_era() {
    expect_session(&run(&mut typescript(), MODERN), MODERN);
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

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name)
}

fn python() -> Command {
    let mut command = Command::new(installed().join("python/bin/python"));
    command.arg(script("client.py"));
    command
}

fn typescript() -> Command {
    let mut command = Command::new("node");
    command.env("INTEROP_PACKAGES", installed().join("node"));
    command.arg(script("client.mjs"));
    command
}

/// Runs a client in one mode to its end; both scripts bound their own time.
fn run(client: &mut Command, mode: &str) -> Value {
    let server = env!("CARGO_BIN_EXE_corelane");
    let output = client.args([mode, server, "stdio"]).output().expect("the client starts");
    let (told, events) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the client failed ({}):\n{events}\n{told}", output.status);
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}:\n{told}\n{events}"))
}

/// Everything that a session of the demo services must show.
fn expect_session(summary: &Value, revision: &str) {
    expect_revision(summary, revision);
    assert_eq!(summary["server"], "corelane");
    assert_eq!(summary["has_tools"], true);
    expect_calls(summary);
}

fn expect_revision(summary: &Value, revision: &str) {
    assert_eq!(summary["revision"], revision, "{summary:#}");
}

fn expect_calls(summary: &Value) {
    let tools: Vec<&str> =
        summary["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for tool in ["echo", "add", "slow", "hash"] {
        assert!(tools.contains(&tool), "`{tool}` is not offered: {tools:?}");
    }
    let schemas = summary["schemas"].as_array().expect("the schemas are listed");
    assert!(schemas.iter().all(|kind| kind == "object"), "{schemas:?}");

    assert_eq!(summary["echo"]["text"], json!([ECHO]));
    assert_eq!(summary["afterwards"]["text"], json!(["still here"]));
    expect_add(&summary["add"]);
    expect_slow(&summary["slow"]);
    assert_eq!(summary["hash"]["is_error"], false, "{}", summary["hash"]);
    assert_eq!(summary["cancelled"], true);
    assert_eq!(summary["unknown_tool"]["code"], -32602, "{}", summary["unknown_tool"]);
    let bad_argument = &summary["bad_argument"];
    assert_eq!(bad_argument["is_error"], true, "bad arguments fail in band: {bad_argument}");
}

/// The sum stands in the structured content and, as JSON, in a text block beside it.
fn expect_add(add: &Value) {
    assert_eq!(add["is_error"], false, "{add}");
    let text = add["text"][0].as_str().expect("the sum is told as text too");
    let from_text: Value = serde_json::from_str(text).expect("the text is JSON");
    for told in [&add["structured"], &from_text] {
        assert_eq!(told["sum"].as_f64(), Some(42.0), "{add}");
    }
}

/// Progress grows strictly and never passes its total. How much of it is heard is the client's
/// business: the TypeScript client drops what arrives together with the result.
fn expect_slow(slow: &Value) {
    assert_eq!(slow["is_error"], false, "{slow}");
    let reports: Vec<(f64, f64)> =
        serde_json::from_value(slow["progress"].clone()).expect("progress is a list of pairs");
    assert!(!reports.is_empty(), "{slow}");
    assert!(reports.windows(2).all(|pair| pair[0].0 < pair[1].0), "{slow}");
    assert!(reports.iter().all(|&(done, total)| done <= total), "{slow}");
}
