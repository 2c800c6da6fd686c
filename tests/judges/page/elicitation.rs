//! Elicitation during tool calls, in form and URL mode.

use crate::page::page_test::PageTest;

/// Waits for the elicitation form of a tool and returns its message.
fn wait_for_message(page: &mut PageTest, tool: &str) -> String {
    let form = format!("probe.tool('{tool}').querySelector('.ask')");
    page.until(&format!("{form} && document.activeElement.form === {form}"));
    page.text(&format!("#tool-{tool} .ask legend"))
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn elicitation_form_is_filled_with_defaults() {
    let mut page = PageTest::open();
    let tool = "test_elicitation_sep1034_defaults";
    page.open_tool(tool);
    page.click(tool, "Call");
    assert_eq!(wait_for_message(&mut page, tool), "Please review and update the form fields");
    page.fill(tool, "age", "31");
    page.click(tool, "Submit");
    let outcome = page.outcome(tool);
    let text = &outcome.blocks[0];
    assert!(text.contains("action=accept"), "{text}");
    let content = text.split_once("content=").expect("the result has the content").1;
    let content: serde_json::Value = serde_json::from_str(content).expect("the content is JSON");
    let expected = serde_json::json!({
        "name": "John Doe", "age": 31, "score": 95.5, "status": "active", "verified": true,
    });
    assert_eq!(content, expected);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn elicitation_enums_are_chosen_by_title() {
    let mut page = PageTest::open();
    let tool = "test_elicitation_sep1330_enums";
    page.open_tool(tool);
    page.click(tool, "Call");
    wait_for_message(&mut page, tool);
    for (label, option) in [("untitledSingle", "option2"), ("titledSingle", "Third Option")] {
        let field = format!("probe.field(probe.tool('{tool}'), '{label}')");
        let option = format!("[...{field}.options].find(({{ text }}) => text === '{option}')");
        page.browser.evaluate(&format!("{option}.selected = true"));
    }
    for label in ["option1", "option3", "Second Choice"] {
        page.browser.evaluate(&format!("probe.field(probe.tool('{tool}'), '{label}').click()"));
    }
    page.click(tool, "Submit");
    let outcome = page.outcome(tool);
    for part in ["option2", "value3", "[\"option1\",\"option3\"]", "[\"value2\"]"] {
        assert!(outcome.blocks[0].contains(part), "{part}: {outcome:?}");
    }
    assert!(!outcome.blocks[0].contains("legacyEnum"), "an empty field is not sent");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn elicitation_continues_over_several_rounds() {
    let mut page = PageTest::open();
    let tool = "test_input_required_result_multi_round";
    page.open_tool(tool);
    page.click(tool, "Call");
    assert_eq!(wait_for_message(&mut page, tool), "Step 1: What is your name?");
    page.fill(tool, "name", "Ada");
    page.browser.press("Enter", false);
    page.until(&format!("probe.tool('{tool}').innerText.includes('Step 2')"));
    wait_for_message(&mut page, tool);
    page.fill(tool, "color", "green");
    page.browser.press("Enter", false);
    assert_eq!(page.outcome(tool).blocks, ["Ada likes green."]);
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn elicitation_url_is_shown_and_not_opened() {
    let mut page = PageTest::open();
    let tool = "test_elicitation_url";
    page.open_tool(tool);
    page.fill(tool, "message", "Sign in, please");
    page.click(tool, "Call");
    let link = format!("probe.tool('{tool}').querySelector('.ask a')");
    page.until(&format!("{link} && document.activeElement === {link}"));
    assert_eq!(page.text(&format!("#tool-{tool} .ask legend")), "Sign in, please");
    let url = "https://example.com/sign-in?state=42";
    for part in ["href", "textContent"] {
        assert_eq!(page.browser.evaluate(&format!("{link}.{part}")), url);
    }
    page.click(tool, "Continue");
    let outcome = page.outcome(tool);
    assert!(outcome.blocks[0].contains("action=accept"), "{outcome:?}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn elicitation_can_be_declined() {
    let mut page = PageTest::open();
    let tool = "test_elicitation_sep1034_defaults";
    page.open_tool(tool);
    page.click(tool, "Call");
    wait_for_message(&mut page, tool);
    page.click(tool, "Decline");
    let outcome = page.outcome(tool);
    assert!(outcome.blocks[0].contains("action=decline"), "{outcome:?}");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn call_during_elicitation_is_cancellable() {
    let mut page = PageTest::open();
    let tool = "multi_input";
    page.open_tool(tool);
    page.click(tool, "Call");
    assert_eq!(wait_for_message(&mut page, tool), "Go first?");
    page.until(&format!("probe.button(probe.tool('{tool}'), 'Stop')"));
    page.click(tool, "Stop");
    let outcome = page.outcome(tool);
    assert_eq!((outcome.headline.as_str(), outcome.blocks.len()), ("Stopped", 0));
}
