//! Tools called from the page, and what it shows of what they answer.

use crate::stage::Stage;

#[test]
fn a_tool_is_opened_filled_in_and_called_by_keyboard_alone() {
    let mut stage = Stage::open();
    stage.browser.evaluate("probe.tool('echo').querySelector('summary').focus()");
    stage.browser.press("Enter", false);
    stage.until("probe.button(probe.tool('echo'), 'Call')");
    stage.browser.press("Tab", false);
    stage.browser.type_text("ünï ☃");
    stage.browser.press("Enter", true);
    stage.browser.type_text("𝄞");
    stage.browser.press("Enter", false);
    let outcome = stage.outcome("echo");
    assert_eq!((outcome.headline.as_str(), outcome.blocks), ("Result", vec!["ünï ☃\n𝄞".into()]));
}

#[test]
fn numbers_travel_as_numbers_and_a_structured_result_is_shown_once() {
    let mut stage = Stage::open();
    let outcome = stage.call("add", &[("a", "2"), ("b", "40.5")]);
    assert_eq!(outcome.headline, "Result");
    assert_eq!(outcome.blocks, ["{\n  \"sum\": 42.5\n}"]);
}

#[test]
fn a_field_that_does_not_fit_its_schema_is_not_sent() {
    let mut stage = Stage::open();
    stage.open_tool("slow");
    stage.fill("slow", "steps", "1001");
    stage.fill("slow", "step_ms", "0");
    stage.click("slow", "Call");
    let wrong = "probe.tool('slow').querySelectorAll(':user-invalid').length";
    assert_eq!(stage.until(wrong), 1);
    stage.fill("slow", "steps", "3");
    stage.click("slow", "Call");
    assert_eq!(stage.outcome("slow").blocks, ["took 3 steps of 0 ms"]);
}

#[test]
fn texts_pictures_sounds_and_resources_are_shown_as_what_they_are() {
    let mut stage = Stage::open();
    let several = stage.call("test_multiple_content_types", &[]);
    assert_eq!(several.media, ["img"]);
    assert_eq!(several.blocks[0], "Multiple content types test:");
    assert!(several.blocks[1].contains("image/png"), "{several:?}");
    assert!(several.blocks[2].contains("test://mixed-content-resource"), "{several:?}");
    assert!(several.blocks[2].contains("\"value\": 123"), "JSON is set out: {several:?}");
    let seen = "document.querySelector('.block img').naturalWidth";
    assert_eq!(stage.browser.evaluate(seen), 1, "the policy lets the picture be seen");
    let sound = stage.call("test_audio_content", &[]);
    assert_eq!(sound.media, ["audio"]);
    assert!(sound.blocks[0].contains("audio/wav"), "{sound:?}");
}

#[test]
fn a_link_to_a_resource_is_read_when_somebody_asks_for_it() {
    let mut stage = Stage::open();
    let tool = "test_tool_with_icons";
    let outcome = stage.call(tool, &[]);
    assert!(outcome.blocks[0].starts_with("Resource With Icons"), "{outcome:?}");
    stage.click(tool, "Read");
    stage.until(&format!("probe.tool('{tool}').innerText.includes('This resource has icons.')"));
}

#[test]
fn an_argument_that_is_a_header_too_may_be_written_in_any_script() {
    let mut stage = Stage::open();
    for region in ["us-west1", "Zürich, 世界", "=?base64?literal?="] {
        let outcome = stage.call("test_header_parameter", &[("region", region)]);
        assert_eq!(outcome.blocks, [format!("Region: {region}")]);
    }
}

#[test]
fn markup_in_a_result_stays_text() {
    let mut stage = Stage::open();
    let markup = "<img src=x onerror=alert(1)><b>bold</b>";
    assert_eq!(stage.call("echo", &[("message", markup)]).blocks, [markup]);
}

#[test]
fn what_has_no_field_is_written_as_json() {
    let mut stage = Stage::open();
    let tool = "json_schema_2020_12_tool";
    stage.open_tool(tool);
    stage.fill(tool, "name", "Ada");
    stage.fill(tool, "phone", "1");
    stage.fill(tool, "email", "ada@example.org");
    stage.fill(tool, "address", "[1]");
    stage.click(tool, "Call");
    let field = "probe.field(probe.tool('json_schema_2020_12_tool'), 'address')";
    let problem = stage.browser.evaluate(&format!("{field}.validationMessage"));
    assert_eq!(problem, "Write a JSON object: { }");
    stage.fill(tool, "address", "{\"city\": \"London\"}");
    stage.click(tool, "Call");
    assert_eq!(stage.outcome(tool).blocks, ["Valid contact: Ada"]);
}

#[test]
fn arguments_can_be_edited_as_one_json_text_and_back() {
    let mut stage = Stage::open();
    stage.open_tool("echo");
    stage.fill("echo", "message", "first");
    stage.click("echo", "Edit as JSON");
    let whole = "probe.tool('echo').querySelector('textarea')";
    let text = stage.browser.evaluate(&format!("{whole}.value"));
    assert_eq!(text, "{\n  \"message\": \"first\"\n}");
    stage.browser.evaluate(&format!("{whole}.focus(), {whole}.select()"));
    stage.browser.type_text("{\"message\": \"second\"}");
    stage.click("echo", "Edit as form");
    stage.click("echo", "Call");
    assert_eq!(stage.outcome("echo").blocks, ["second"]);
}

#[test]
fn failures_and_refusals_are_told_in_words() {
    let mut stage = Stage::open();
    let failed = stage.call("test_error_handling", &[]);
    assert_eq!(failed.headline, "The tool failed");
    assert_eq!(failed.blocks, ["This tool intentionally returns an error for testing"]);
    stage.expect_error("400");
    let refused = stage.call("test_missing_capability", &[]);
    assert_eq!(refused.headline, "Refused");
    let words = "This needs something of the client that a page cannot give.";
    assert!(refused.blocks[0].starts_with(words), "{refused:?}");
    assert!(refused.blocks[0].contains("sampling"), "{refused:?}");
    assert!(refused.blocks[0].contains("code -32021"), "{refused:?}");
}

#[test]
fn progress_and_messages_are_shown_while_a_tool_runs() {
    let mut stage = Stage::open();
    let told = stage.call("test_tool_with_logging", &[]);
    assert_eq!(told.headline, "Result");
    let log = stage.text("#tool-test_tool_with_logging [role=log]");
    assert_eq!(log.lines().filter(|line| line.starts_with("info: ")).count(), 3, "{log}");
}

#[test]
fn a_call_that_takes_long_shows_how_far_it_is_and_can_be_stopped() {
    let mut stage = Stage::open();
    stage.open_tool("slow");
    stage.fill("slow", "steps", "1000");
    stage.fill("slow", "step_ms", "50");
    stage.click("slow", "Call");
    stage.until("probe.tool('slow').innerText.includes('3 of 1000')");
    stage.click("slow", "Stop");
    assert_eq!(stage.outcome("slow").headline, "Stopped");
    let again = stage.call("slow", &[("steps", "2"), ("step_ms", "1")]);
    assert_eq!(again.blocks, ["took 2 steps of 1 ms"]);
}
