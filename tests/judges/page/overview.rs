//! Server information on the page, its live counters, and its HTTP response.

use std::io::Write;
use std::net::TcpStream;

use serde_json::Value;

use crate::page::page_test::PageTest;

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn page_shows_version_revisions_and_capabilities() {
    let mut page = PageTest::open();
    assert_eq!(page.text("h1"), "Corelane");
    assert_eq!(page.text("#endpoint"), page.url("/mcp"));
    let facts = page.text("#facts");
    for fact in [env!("CARGO_PKG_VERSION"), "2026-07-28", "2024-11-05", "tools", "resources"] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn tool_is_found_by_filter_and_link() {
    let mut page = PageTest::open();
    page.browser.evaluate("document.getElementById('filter').focus()");
    page.browser.type_text("ADDS TWO");
    let shown = "[...document.querySelectorAll('#tools > :not([hidden]) h3')].map(
        ({ textContent }) => textContent)";
    assert_eq!(page.browser.evaluate(shown), serde_json::json!(["add"]));
    let address = page.url("/?again#tool-slow");
    page.browser.send_command("Page.navigate", &serde_json::json!({ "url": address }));
    page.until("document.getElementById('tool-slow')?.open");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn connection_count_is_live() {
    let mut page = PageTest::open();
    let count = "Number(probe.count('connections'))";
    let before = page.until(&format!("({count} > 0) && {count}"));
    let before = before.as_f64().expect("a number");
    // A connection counts from its first byte on.
    let connect = || -> std::io::Result<TcpStream> {
        let mut connection = TcpStream::connect(page.server.address)?;
        connection.write_all(b"G")?;
        Ok(connection)
    };
    let more: Vec<TcpStream> =
        (0..20).map(|_| connect().expect("the server accepts and reads")).collect();
    // The browser's own connections vary by a few.
    page.until(&format!("{count} >= {}", before + 14.0));
    drop(more);
    page.until(&format!("{count} < {}", before + 14.0));
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn page_shows_unreachable_server() {
    let mut page = PageTest::open();
    page.open_tool("test_simple_text");
    page.expect_error("ERR_");
    page.server.process.kill();
    page.until("document.getElementById('news').textContent.includes('does not respond')");
    page.click("test_simple_text", "Call");
    let outcome = page.outcome("test_simple_text");
    assert_eq!(outcome.headline, "Error");
    assert_eq!(outcome.blocks, ["The server cannot be reached."]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn page_has_content_security_policy_with_hashes() {
    let mut page = PageTest::open();
    let home = page.url("/");
    let events = page.browser.take_events();
    let response = events
        .iter()
        .filter(|event| event["method"] == "Network.responseReceived")
        .map(|event| &event["params"]["response"])
        .find(|response| response["url"] == home.as_str())
        .expect("a response for the page");
    let field = |field_name: &str| {
        let fields = response["headers"].as_object().expect("headers");
        let found = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(field_name));
        found.and_then(|(_, value)| Value::as_str(value)).unwrap_or_default()
    };
    assert_eq!(response["status"], 200);
    assert_eq!(field("content-type"), "text/html; charset=utf-8");
    let policy = field("content-security-policy");
    for part in ["default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
}
