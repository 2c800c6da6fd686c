//! Prompts, resources, where a tool comes from, and the key that a server asks for.

use std::fs;

use corelane_test_support::ServeProcess;

use crate::CORELANE;
use crate::page::page_test::{Outcome, PageTest};

/// Opens an entry of a list by its id, fills its fields, sends the request and returns the outcome.
fn request(page: &mut PageTest, id: &str, values: &[(&str, &str)], label: &str) -> Outcome {
    let entry = format!("document.getElementById('{id}')");
    page.browser.evaluate(&format!("{entry}.open = true"));
    page.until(&format!("probe.button({entry}, '{label}')"));
    for (name, value) in values {
        page.browser.evaluate(&format!("probe.field({entry}, '{name}').focus()"));
        page.browser.type_text(value);
    }
    page.browser.evaluate(&format!("probe.button({entry}, '{label}').click()"));
    page.outcome_at(&entry)
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn prompt_is_filled_and_messages_are_shown() {
    let mut page = PageTest::open();
    page.until("document.getElementById('prompts-section')?.checkVisibility()");
    let id = "prompt-test_prompt_with_arguments";
    let outcome = request(&mut page, id, &[("arg1", "one"), ("arg2", "two")], "Get");
    assert_eq!(outcome.headline, "Result");
    let text = outcome.blocks.join("\n");
    assert!(text.contains("user") && text.contains("one") && text.contains("two"), "{text}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn resource_and_template_are_read() {
    let mut page = PageTest::open();
    page.until("document.getElementById('resources-section').checkVisibility()");
    let outcome = request(&mut page, "resource-test://static-text", &[], "Read");
    assert!(outcome.blocks[0].starts_with("test://static-text"), "{outcome:?}");
    let id = "resource-test://template/{id}/data";
    let outcome = request(&mut page, id, &[("id", "a/b")], "Read");
    assert!(outcome.blocks[0].starts_with("test://template/a%2Fb/data"), "{outcome:?}");
    let outcome = request(&mut page, "resource-test://static-binary", &[], "Read");
    assert_eq!(outcome.media, ["img"], "{outcome:?}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn source_of_declared_tool_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("corelane.toml");
    let text = "[[tool]]\nname = \"greet\"\ncommand = [\"echo\", \"hello\"]\n";
    fs::write(&config, text).expect("a file");
    let config = config.to_str().expect("UTF-8");
    let server = ServeProcess::http(CORELANE, &["--config", config]);
    let mut page = PageTest::open_until(server, "probe.tool('greet')?.checkVisibility()");
    assert_eq!(page.text("#tool-greet .origin"), "command");
    assert_eq!(page.call("greet", &[]).blocks, ["hello"]);
    assert_eq!(page.text("#tools-title"), "Tools (1)");
    let is_shown = "document.getElementById('prompts-section').checkVisibility()";
    assert_eq!(page.browser.evaluate(is_shown), false);
}

/// SHA-256 of `page-key`.
const KEY_DIGEST: &str = "49dc1741e4eea0ad65e4a4de9f2d7492a65d8998cf311e4295c6c6201865999e";

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn key_is_asked_for_and_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    fs::write(&keys, format!("page:{KEY_DIGEST}\n")).expect("a file");
    let keys = keys.to_str().expect("UTF-8");
    let server = ServeProcess::http(CORELANE, &["--auth-api-keys", keys]);
    let mut page =
        PageTest::open_until(server, "document.getElementById('key')?.checkVisibility()");
    page.expect_error("401");
    for (key, about) in [("wrong", "The server does not accept this key."), ("page-key", "")] {
        page.browser.evaluate("document.getElementById('key-field').focus()");
        page.browser.type_text(key);
        page.browser.press("Enter", false);
        if !about.is_empty() {
            page.until(&format!("document.getElementById('key-about').innerText === '{about}'"));
        }
    }
    page.until("probe.tool('echo')?.checkVisibility()");
    let is_shown = "document.getElementById('key').checkVisibility()";
    assert_eq!(page.browser.evaluate(is_shown), false);
    assert_eq!(page.call("echo", &[("message", "hi")]).blocks, ["hi"]);
    page.browser.evaluate("document.querySelector('.wire').open = true");
    page.until("document.querySelector('.wire pre')");
    assert!(!page.text("body").contains("page-key"));
}
