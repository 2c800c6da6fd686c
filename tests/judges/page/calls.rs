//! Tool calls from the page and the display of their results.

use crate::page::page_test::PageTest;

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn tool_is_callable_by_keyboard_alone() {
    let mut page = PageTest::open();
    page.browser.evaluate("probe.tool('echo').querySelector('summary').focus()");
    page.browser.press("Enter", false);
    page.until("probe.button(probe.tool('echo'), 'Call')");
    page.browser.press("Tab", false);
    page.browser.type_text("ünï ☃");
    page.browser.press("Enter", true);
    page.browser.type_text("𝄞");
    page.browser.press("Enter", false);
    let outcome = page.outcome("echo");
    assert_eq!((outcome.headline.as_str(), outcome.blocks), ("Result", vec!["ünï ☃\n𝄞".into()]));
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn structured_result_is_shown_once() {
    let mut page = PageTest::open();
    let outcome = page.call("add", &[("a", "2"), ("b", "40.5")]);
    assert_eq!(outcome.headline, "Result");
    assert_eq!(outcome.blocks, ["{\n  \"sum\": 42.5\n}"]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn argument_against_its_schema_is_not_sent() {
    let mut page = PageTest::open();
    page.open_tool("slow");
    page.fill("slow", "steps", "1001");
    page.fill("slow", "step_ms", "0");
    page.click("slow", "Call");
    let invalid = "probe.tool('slow').querySelectorAll(':user-invalid').length";
    assert_eq!(page.until(invalid), 1);
    page.fill("slow", "steps", "3");
    page.click("slow", "Call");
    assert_eq!(page.outcome("slow").blocks, ["took 3 steps of 0 ms"]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn text_image_audio_and_resource_content_is_shown() {
    let mut page = PageTest::open();
    let mixed = page.call("test_multiple_content_types", &[]);
    assert_eq!(mixed.media, ["img"]);
    assert_eq!(mixed.blocks[0], "Multiple content types test:");
    assert!(mixed.blocks[1].contains("image/png"), "{mixed:?}");
    assert!(mixed.blocks[2].contains("test://mixed-content-resource"), "{mixed:?}");
    assert!(mixed.blocks[2].contains("\"value\": 123"), "JSON is indented: {mixed:?}");
    let width = "document.querySelector('.block img').naturalWidth";
    assert_eq!(page.browser.evaluate(width), 1, "the content security policy allows the image");
    let audio = page.call("test_audio_content", &[]);
    assert_eq!(audio.media, ["audio"]);
    assert!(audio.blocks[0].contains("audio/wav"), "{audio:?}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn resource_link_is_read_on_click() {
    let mut page = PageTest::open();
    let tool = "test_tool_with_icons";
    let outcome = page.call(tool, &[]);
    assert!(outcome.blocks[0].starts_with("Resource With Icons"), "{outcome:?}");
    page.click(tool, "Read");
    page.until(&format!("probe.tool('{tool}').innerText.includes('This resource has icons.')"));
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn header_parameter_accepts_any_unicode_text() {
    let mut page = PageTest::open();
    for region in ["us-west1", "Zürich, 世界", "=?base64?literal?="] {
        let outcome = page.call("test_header_parameter", &[("region", region)]);
        assert_eq!(outcome.blocks, [format!("Region: {region}")]);
    }
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn markup_in_a_result_is_escaped() {
    let mut page = PageTest::open();
    let markup = "<img src=x onerror=alert(1)><b>bold</b>";
    assert_eq!(page.call("echo", &[("message", markup)]).blocks, [markup]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn argument_without_input_field_is_json() {
    let mut page = PageTest::open();
    let tool = "json_schema_2020_12_tool";
    page.open_tool(tool);
    page.fill(tool, "name", "Ada");
    page.fill(tool, "phone", "1");
    page.fill(tool, "email", "ada@example.org");
    page.fill(tool, "address", "[1]");
    page.click(tool, "Call");
    let field = "probe.field(probe.tool('json_schema_2020_12_tool'), 'address')";
    let message = page.browser.evaluate(&format!("{field}.validationMessage"));
    assert_eq!(message, "Write a JSON object: { }");
    page.fill(tool, "address", "{\"city\": \"London\"}");
    page.click(tool, "Call");
    assert_eq!(page.outcome(tool).blocks, ["Valid contact: Ada"]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn arguments_can_be_edited_as_json() {
    let mut page = PageTest::open();
    page.open_tool("echo");
    page.fill("echo", "message", "first");
    page.click("echo", "Edit as JSON");
    let textarea = "probe.tool('echo').querySelector('textarea')";
    let text = page.browser.evaluate(&format!("{textarea}.value"));
    assert_eq!(text, "{\n  \"message\": \"first\"\n}");
    page.browser.evaluate(&format!("{textarea}.focus(), {textarea}.select()"));
    page.browser.type_text("{\"message\": \"second\"}");
    page.click("echo", "Edit as form");
    page.click("echo", "Call");
    assert_eq!(page.outcome("echo").blocks, ["second"]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn tool_error_and_request_error_are_shown() {
    let mut page = PageTest::open();
    let failed = page.call("test_error_handling", &[]);
    assert_eq!(failed.headline, "The tool failed");
    assert_eq!(failed.blocks, ["This tool intentionally returns an error for testing"]);
    page.expect_error("400");
    let rejected = page.call("test_missing_capability", &[]);
    assert_eq!(rejected.headline, "Error");
    let message = "This requires a client capability that this page does not have.";
    assert!(rejected.blocks[0].starts_with(message), "{rejected:?}");
    assert!(rejected.blocks[0].contains("sampling"), "{rejected:?}");
    assert!(rejected.blocks[0].contains("code -32021"), "{rejected:?}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn progress_and_log_messages_are_shown() {
    let mut page = PageTest::open();
    let outcome = page.call("test_tool_with_logging", &[]);
    assert_eq!(outcome.headline, "Result");
    let log = page.text("#tool-test_tool_with_logging [role=log]");
    assert_eq!(log.lines().filter(|line| line.starts_with("info: ")).count(), 3, "{log}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn long_call_shows_progress_and_is_cancellable() {
    let mut page = PageTest::open();
    page.open_tool("slow");
    page.fill("slow", "steps", "1000");
    page.fill("slow", "step_ms", "50");
    page.click("slow", "Call");
    page.until("probe.tool('slow').innerText.includes('3 of 1000')");
    page.click("slow", "Stop");
    assert_eq!(page.outcome("slow").headline, "Stopped");
    let again = page.call("slow", &[("steps", "2"), ("step_ms", "1")]);
    assert_eq!(again.blocks, ["took 2 steps of 1 ms"]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn earlier_requests_are_listed_and_used_again() {
    let mut page = PageTest::open();
    for a in 1..=12 {
        assert_eq!(page.call("add", &[("a", &a.to_string()), ("b", "40")]).headline, "Result");
    }
    let history = "probe.tool('add').querySelector('.history')";
    page.browser.evaluate(&format!("{history}.open = true"));
    let values = format!("[...{history}.querySelectorAll('pre')].map((it) => it.textContent)");
    let shown: Vec<String> = (3..=12).rev().map(|a| format!("{{\"a\":{a},\"b\":40}}")).collect();
    assert_eq!(page.browser.evaluate(&values), serde_json::json!(shown));
    assert!(page.text("#tool-add .history").contains("Result · "));
    // The oldest that is kept.
    page.browser.evaluate(&format!("[...{history}.querySelectorAll('button')].at(-1).click()"));
    page.click("add", "Call");
    page.until(&format!("{history}.querySelector('pre').textContent.startsWith('{{\"a\":3,')"));
    assert_eq!(page.outcome("add").blocks, ["{\n  \"sum\": 43\n}"]);
}
