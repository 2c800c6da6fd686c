//! What the page says of the server itself, and how it is served.

use std::net::TcpStream;

use serde_json::Value;

use crate::stage::Stage;

#[test]
fn the_page_tells_what_the_server_is_and_offers() {
    let mut stage = Stage::open();
    assert_eq!(stage.text("h1"), "Corelane");
    assert_eq!(stage.text("#endpoint"), stage.address("/mcp"));
    let facts = stage.text("#facts");
    for fact in [env!("CARGO_PKG_VERSION"), "2026-07-28", "2024-11-05", "tools", "resources"] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
}

#[test]
fn a_tool_is_found_by_its_letters_and_linked_by_its_name() {
    let mut stage = Stage::open();
    stage.browser.evaluate("document.getElementById('filter').focus()");
    stage.browser.type_text("ADDS TWO");
    let shown = "[...document.querySelectorAll('#tools > :not([hidden]) h3')].map(
        ({ textContent }) => textContent)";
    assert_eq!(stage.browser.evaluate(shown), serde_json::json!(["add"]));
    let address = stage.address("/?again#tool-slow");
    stage.browser.ask("Page.navigate", &serde_json::json!({ "url": address }));
    stage.until("document.getElementById('tool-slow')?.open");
}

#[test]
fn the_count_of_connections_is_live() {
    let mut stage = Stage::open();
    let count = "Number(probe.count('connections'))";
    let before = stage.until(&format!("({count} > 0) && {count}"));
    let before = before.as_f64().expect("a number");
    let more: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(stage.server.address).expect("the server accepts"))
        .collect();
    // The browser's own connections come and go by a few.
    stage.until(&format!("{count} >= {}", before + 14.0));
    drop(more);
    stage.until(&format!("{count} < {}", before + 14.0));
}

#[test]
fn the_page_says_when_the_server_is_gone() {
    let mut stage = Stage::open();
    stage.open_tool("test_simple_text");
    stage.expect_error("ERR_");
    stage.server.kill();
    stage.until("document.getElementById('news').textContent.includes('does not answer')");
    stage.click("test_simple_text", "Call");
    let outcome = stage.outcome("test_simple_text");
    assert_eq!(outcome.headline, "Refused");
    assert_eq!(outcome.blocks, ["The server cannot be reached."]);
}

#[test]
fn the_page_is_served_with_a_policy_that_names_its_script_and_its_style() {
    let mut stage = Stage::open();
    let home = stage.address("/");
    let events = stage.browser.take_events();
    let response = events
        .iter()
        .filter(|event| event["method"] == "Network.responseReceived")
        .map(|event| &event["params"]["response"])
        .find(|response| response["url"] == home.as_str())
        .expect("the page came");
    let field = |wanted: &str| {
        let fields = response["headers"].as_object().expect("headers");
        let found = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
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
