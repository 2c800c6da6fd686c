//! Tools that ask for something in the middle of a call.

use crate::stage::Stage;

/// Waits until the page shows what a tool asks, and gives the words of the question.
fn asked(stage: &mut Stage, tool: &str) -> String {
    let form = format!("probe.tool('{tool}').querySelector('.ask')");
    stage.until(&format!("{form} && document.activeElement.form === {form}"));
    stage.text(&format!("#tool-{tool} .ask legend"))
}

#[test]
fn a_question_is_a_form_that_is_filled_in_with_what_it_suggests() {
    let mut stage = Stage::open();
    let tool = "test_elicitation_sep1034_defaults";
    stage.open_tool(tool);
    stage.click(tool, "Call");
    assert_eq!(asked(&mut stage, tool), "Please review and update the form fields");
    stage.fill(tool, "age", "31");
    stage.click(tool, "Answer");
    let outcome = stage.outcome(tool);
    let told = &outcome.blocks[0];
    assert!(told.contains("action=accept"), "{told}");
    let content = told.split_once("content=").expect("the answers are told").1;
    let content: serde_json::Value = serde_json::from_str(content).expect("they are JSON");
    let expected = serde_json::json!({
        "name": "John Doe", "age": 31, "score": 95.5, "status": "active", "verified": true,
    });
    assert_eq!(content, expected);
}

#[test]
fn one_or_several_of_a_list_are_chosen_by_their_titles() {
    let mut stage = Stage::open();
    let tool = "test_elicitation_sep1330_enums";
    stage.open_tool(tool);
    stage.click(tool, "Call");
    asked(&mut stage, tool);
    for (label, option) in [("untitledSingle", "option2"), ("titledSingle", "Third Option")] {
        let field = format!("probe.field(probe.tool('{tool}'), '{label}')");
        let option = format!("[...{field}.options].find(({{ text }}) => text === '{option}')");
        stage.browser.evaluate(&format!("{option}.selected = true"));
    }
    for label in ["option1", "option3", "Second Choice"] {
        stage.browser.evaluate(&format!("probe.field(probe.tool('{tool}'), '{label}').click()"));
    }
    stage.click(tool, "Answer");
    let outcome = stage.outcome(tool);
    for part in ["option2", "value3", "[\"option1\",\"option3\"]", "[\"value2\"]"] {
        assert!(outcome.blocks[0].contains(part), "{part}: {outcome:?}");
    }
    assert!(!outcome.blocks[0].contains("legacyEnum"), "what was left out is not sent");
}

#[test]
fn questions_come_in_rounds_until_the_tool_has_its_answer() {
    let mut stage = Stage::open();
    let tool = "test_input_required_result_multi_round";
    stage.open_tool(tool);
    stage.click(tool, "Call");
    assert_eq!(asked(&mut stage, tool), "Step 1: What is your name?");
    stage.fill(tool, "name", "Ada");
    stage.browser.press("Enter", false);
    stage.until(&format!("probe.tool('{tool}').innerText.includes('Step 2')"));
    asked(&mut stage, tool);
    stage.fill(tool, "color", "green");
    stage.browser.press("Enter", false);
    assert_eq!(stage.outcome(tool).blocks, ["Ada likes green."]);
}

#[test]
fn an_address_to_visit_is_shown_whole_and_opened_by_nobody_else() {
    let mut stage = Stage::open();
    let tool = "test_elicitation_url";
    stage.open_tool(tool);
    stage.fill(tool, "message", "Sign in, please");
    stage.click(tool, "Call");
    let link = format!("probe.tool('{tool}').querySelector('.ask a')");
    stage.until(&format!("{link} && document.activeElement === {link}"));
    assert_eq!(stage.text(&format!("#tool-{tool} .ask legend")), "Sign in, please");
    let address = "https://example.com/sign-in?state=42";
    for part in ["href", "textContent"] {
        assert_eq!(stage.browser.evaluate(&format!("{link}.{part}")), address);
    }
    stage.click(tool, "Continue");
    let outcome = stage.outcome(tool);
    assert!(outcome.blocks[0].contains("action=accept"), "{outcome:?}");
}

#[test]
fn a_question_can_be_declined() {
    let mut stage = Stage::open();
    let tool = "test_elicitation_sep1034_defaults";
    stage.open_tool(tool);
    stage.click(tool, "Call");
    asked(&mut stage, tool);
    stage.click(tool, "Decline");
    let outcome = stage.outcome(tool);
    assert!(outcome.blocks[0].contains("action=decline"), "{outcome:?}");
}

#[test]
fn a_call_that_waits_for_an_answer_can_be_stopped() {
    let mut stage = Stage::open();
    let tool = "multi_input";
    stage.open_tool(tool);
    stage.click(tool, "Call");
    assert_eq!(asked(&mut stage, tool), "Go first?");
    stage.until(&format!("probe.button(probe.tool('{tool}'), 'Stop')"));
    stage.click(tool, "Stop");
    let outcome = stage.outcome(tool);
    assert_eq!((outcome.headline.as_str(), outcome.blocks.len()), ("Stopped", 0));
}
