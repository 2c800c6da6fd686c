//! The upstreams of a gateway: their states, the changes of operators, and where entries come from.

use std::fs;

use corelane_test_support::ServeProcess;
use serde_json::json;
use tempfile::TempDir;

use crate::CORELANE;
use crate::page::page_test::PageTest;

/// What the upstream `bad` does at its start.
const SCRIPT: &str =
    "echo cannot start because of a line without any spaces-xxxxxxxxxxxxxxxxxxxxxxxx >&2; exit 3";

/// A gateway in front of `demo`, which serves, and `bad`, which does not start.
fn start_gateway(folder: &TempDir, options: &[&str]) -> ServeProcess {
    let demo = [CORELANE, "stdio", "--demo", "conformance", "--log", "error"];
    let bad = ["sh", "-c", SCRIPT];
    let text = [("demo", &demo[..]), ("bad", &bad[..])].map(|(name, command)| {
        format!("[[upstream]]\nname = \"{name}\"\nshare = \"all\"\ncommand = {command:?}\n")
    });
    let config = folder.path().join("corelane.toml");
    fs::write(&config, text.concat()).expect("a file");
    let config = config.to_str().expect("UTF-8");
    ServeProcess::http(CORELANE, &[&["--config", config], options].concat())
}

/// The text of the state of an upstream.
fn state_of(name: &str) -> String {
    format!("document.querySelector('#upstream-{name} .origin')?.textContent")
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn upstreams_are_shown_with_states_and_stderr() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start_gateway(&folder, &[]);
    let is_ready = format!("probe.tool('echo') && {} === 'ready'", state_of("demo"));
    let mut page = PageTest::open_until(server, &is_ready);
    page.until(&format!("{} === 'failed'", state_of("bad")));
    assert_eq!(page.text("#upstreams-title"), "Upstreams (2)");
    assert_eq!(page.text("#tool-echo .origin"), "demo");
    page.until("document.querySelector('#prompts-section .origin')?.textContent === 'demo'");
    page.call("echo", &[("message", "hi")]);
    page.browser.evaluate(
        "document.querySelectorAll('#upstreams details').forEach((line) => (line.open = true))",
    );
    assert!(page.text("#upstream-bad summary p").contains("status 3"));
    assert!(page.text("#upstream-bad pre").contains("cannot start because"));
    page.until("document.querySelector('#upstream-demo dl').innerText.includes('1, 0 in flight')");
    let facts = page.text("#upstream-demo dl");
    for fact in ["corelane ", "2026-07-28", "1 now, 1 started, 0 again", "p50 ", "all"] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    for width in [320, 390, 800, 1280] {
        page.set_viewport(width, 800, "light");
        // WCAG 2.2, 1.4.10: no horizontal scrolling from 320 px on.
        let root = "document.documentElement";
        let overflow = format!("{root}.scrollWidth - {root}.clientWidth");
        assert_eq!(page.browser.evaluate(&overflow), 0, "at {width}");
    }
    for scheme in ["light", "dark"] {
        page.set_viewport(390, 800, scheme);
        assert_eq!(page.browser.evaluate("probe.lowContrast(4.5)"), json!([]), "{scheme}");
    }
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn operator_changes_upstream_with_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    fs::write(&token, "token-of-operators").expect("a file");
    let server = start_gateway(&folder, &["--admin-token", token.to_str().expect("UTF-8")]);
    let shown = "document.getElementById('admin')?.checkVisibility()";
    let mut page = PageTest::open_until(server, shown);
    page.until("probe.tool('echo')?.checkVisibility()");
    page.set_viewport(390, 800, "light");
    page.expect_error("401");
    for token in ["wrong-token-of-operators", "token-of-operators"] {
        page.browser.evaluate("document.getElementById('admin-field').focus()");
        page.browser.type_text(token);
        page.browser.press("Enter", false);
        if token.starts_with("wrong") {
            let about = "document.getElementById('admin-about').innerText";
            page.until(&format!("{about} === 'The server does not accept this token.'"));
        }
    }
    page.until(&format!("{} === 'ready'", state_of("demo")));
    assert_eq!(page.browser.evaluate(shown), false);
    let line = "document.getElementById('upstream-demo')";
    page.browser.evaluate(&format!("{line}.open = true"));
    let click = |page: &mut PageTest, label: &str| {
        page.until(&format!("probe.button({line}, '{label}')"));
        page.browser.evaluate(&format!("probe.button({line}, '{label}').click()"));
    };
    click(&mut page, "Restart");
    page.until(&format!("{line}.innerText.includes('2 started, 1 again')"));
    click(&mut page, "Disable");
    page.until(&format!("{} === 'disabled' && !probe.tool('echo')", state_of("demo")));
    assert_eq!(
        page.browser.evaluate(&format!("probe.button({line}, 'Disable') ?? null")),
        json!(null)
    );
    click(&mut page, "Enable");
    page.until(&format!("{} === 'ready' && probe.tool('echo')", state_of("demo")));
    assert_eq!(page.call("echo", &[("message", "hi")]).blocks, ["hi"]);
    assert!(!page.text("body").contains("token-of-operators"));
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn change_without_admin_token_shows_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start_gateway(&folder, &[]);
    let mut page = PageTest::open_until(server, &format!("{} === 'ready'", state_of("demo")));
    page.expect_error("403");
    let line = "document.getElementById('upstream-demo')";
    page.browser.evaluate(&format!("{line}.open = true"));
    page.browser.evaluate(&format!("probe.button({line}, 'Restart').click()"));
    page.until(&format!("{line}.innerText.includes('token of admin.token')"));
}
