//! The client configuration snippets of the page, run with the real clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::page::page_test::PageTest;

/// Returns the snippet for a client.
fn snippet(page: &mut PageTest, client: &str) -> String {
    let radio = format!("probe.field(document.getElementById('clients'), '{client}')");
    page.browser.evaluate(&format!("{radio}.click()"));
    let text = page.browser.evaluate("document.getElementById('snippet').textContent");
    text.as_str().expect("a text").to_owned()
}

/// Runs a command and returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ({}):\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

/// Returns the directory of `tests/judges/interop/install.sh`.
fn install_dir() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
    let is_installed = dir.join("installed").is_file();
    assert!(is_installed, "run tests/judges/interop/install.sh (./test.sh does)");
    dir
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn client_configurations_name_this_server() {
    let mut page = PageTest::open();
    let address = page.url("/mcp");
    let at = |page: &mut PageTest, client: &str, path: &str| {
        let text = snippet(page, client);
        let config: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        config.pointer(path).unwrap_or_else(|| panic!("no {path}: {config:#}")).clone()
    };
    assert_eq!(at(&mut page, "VS Code", "/servers/corelane/url"), address);
    assert_eq!(at(&mut page, "Cursor", "/mcpServers/corelane/url"), address);
    assert_eq!(at(&mut page, "Claude Desktop", "/mcpServers/corelane/args/2"), address);
    let command = snippet(&mut page, "Claude Code");
    assert_eq!(command, format!("claude mcp add --transport http corelane {address}"));
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn snippet_can_be_copied() {
    let mut page = PageTest::open();
    let shown = snippet(&mut page, "Cursor");
    let permissions = serde_json::json!({ "permissions": ["clipboardReadWrite"] });
    page.browser.send_command("Browser.grantPermissions", &permissions);
    page.browser.send_command("Page.bringToFront", &serde_json::json!({}));
    page.browser.evaluate("probe.button(document.querySelector('.snippet'), 'Copy').click()");
    page.until("probe.button(document.querySelector('.snippet'), 'Copied')");
    assert_eq!(page.browser.evaluate("navigator.clipboard.readText()"), shown);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn curl_snippet_lists_tools() {
    let mut page = PageTest::open();
    let command = snippet(&mut page, "curl");
    let output = run(Command::new("sh").args(["-c", &command]));
    let answer: Value = serde_json::from_str(&output).unwrap_or_else(|_| panic!("{output}"));
    let tools = answer["result"]["tools"].as_array().expect("tools are listed");
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{answer:#}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn python_snippet_lists_tools() {
    let mut page = PageTest::open();
    let program = snippet(&mut page, "Python");
    let output = run(Command::new(install_dir().join("python/bin/python")).args(["-c", &program]));
    assert!(output.lines().any(|line| line == "echo"), "{output}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn typescript_snippet_lists_tools() {
    let mut page = PageTest::open();
    let program = snippet(&mut page, "TypeScript");
    // In the directory of its packages, where Node.js finds them.
    let dir = install_dir().join("node");
    let file = tempfile::Builder::new().suffix(".mjs").tempfile_in(dir).expect("a file");
    fs::write(file.path(), program).expect("the program is written");
    let output = run(Command::new("node").arg(file.path()));
    assert!(output.lines().any(|line| line == "echo"), "{output}");
}
