//! What the page tells people to write down, held against the clients that read it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::stage::Stage;

/// What the page shows for a client.
fn snippet(stage: &mut Stage, client: &str) -> String {
    let radio = format!("probe.field(document.getElementById('clients'), '{client}')");
    stage.browser.evaluate(&format!("{radio}.click()"));
    let text = stage.browser.evaluate("document.getElementById('snippet').textContent");
    text.as_str().expect("a text").to_owned()
}

/// Runs a command that a snippet became, and gives what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (told, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ({}):\n{told}\n{problems}", output.status);
    told.into_owned()
}

/// Where `tests/interop/install.sh` puts the official clients.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
    let is_there = folder.join("installed").is_file();
    assert!(is_there, "run tests/interop/install.sh (./test.sh does)");
    folder
}

#[test]
fn every_configuration_is_json_that_names_this_server() {
    let mut stage = Stage::open();
    let address = stage.address("/mcp");
    let at = |stage: &mut Stage, client: &str, path: &str| {
        let text = snippet(stage, client);
        let whole: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        whole.pointer(path).unwrap_or_else(|| panic!("no {path}: {whole:#}")).clone()
    };
    assert_eq!(at(&mut stage, "VS Code", "/servers/corelane/url"), address);
    assert_eq!(at(&mut stage, "Cursor", "/mcpServers/corelane/url"), address);
    assert_eq!(at(&mut stage, "Claude Desktop", "/mcpServers/corelane/args/2"), address);
    let command = snippet(&mut stage, "Claude Code");
    assert_eq!(command, format!("claude mcp add --transport http corelane {address}"));
}

#[test]
fn what_is_shown_can_be_copied() {
    let mut stage = Stage::open();
    let shown = snippet(&mut stage, "Cursor");
    let allowed = serde_json::json!({ "permissions": ["clipboardReadWrite"] });
    stage.browser.ask("Browser.grantPermissions", &allowed);
    stage.browser.ask("Page.bringToFront", &serde_json::json!({}));
    stage.browser.evaluate("probe.button(document.querySelector('.snippet'), 'Copy').click()");
    stage.until("probe.button(document.querySelector('.snippet'), 'Copied')");
    assert_eq!(stage.browser.evaluate("navigator.clipboard.readText()"), shown);
}

#[test]
fn the_command_line_that_the_page_shows_lists_the_tools() {
    let mut stage = Stage::open();
    let command = snippet(&mut stage, "curl");
    let told = run(Command::new("sh").args(["-c", &command]));
    let answer: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
    let tools = answer["result"]["tools"].as_array().expect("tools are listed");
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{answer:#}");
}

#[test]
fn the_python_program_that_the_page_shows_lists_the_tools() {
    let mut stage = Stage::open();
    let program = snippet(&mut stage, "Python");
    let told = run(Command::new(installed().join("python/bin/python")).args(["-c", &program]));
    assert!(told.lines().any(|line| line == "echo"), "{told}");
}

#[test]
fn the_typescript_program_that_the_page_shows_lists_the_tools() {
    let mut stage = Stage::open();
    let program = snippet(&mut stage, "TypeScript");
    // Beside its packages, because that is where Node looks for them.
    let folder = installed().join("node");
    let file = tempfile::Builder::new().suffix(".mjs").tempfile_in(folder).expect("a file");
    fs::write(file.path(), program).expect("the program is written");
    let told = run(Command::new("node").arg(file.path()));
    assert!(told.lines().any(|line| line == "echo"), "{told}");
}
