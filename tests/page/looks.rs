//! That the page can be seen, reached and named: light and dark, wide and narrow.

use serde_json::{Value, json};

use crate::stage::Stage;

/// The page with something of everything on it: a form, a result, a refusal, a question.
fn furnished() -> Stage {
    let mut stage = Stage::open();
    stage.call("add", &[("a", "2"), ("b", "40")]);
    stage.browser.evaluate("document.querySelector('.wire').open = true");
    stage.expect_error("400");
    stage.call("test_missing_capability", &[]);
    stage.open_tool("test_elicitation_sep1330_enums");
    stage.click("test_elicitation_sep1330_enums", "Call");
    stage.until("document.querySelector('.ask')");
    stage
}

#[test]
fn every_text_stands_out_from_what_is_behind_it_in_light_and_in_dark() {
    let mut stage = furnished();
    for scheme in ["light", "dark"] {
        stage.look(1280, 900, scheme);
        // WCAG 2.2, 1.4.3: 4.5 to 1.
        assert_eq!(stage.browser.evaluate("probe.faint(4.5)"), json!([]), "{scheme}");
    }
}

#[test]
fn nothing_is_wider_than_the_screen_however_narrow() {
    let mut stage = furnished();
    for width in [320, 390, 800, 1280] {
        stage.look(width, 800, "light");
        // WCAG 2.2, 1.4.10: without scrolling in two directions from 320 on.
        let page = "document.documentElement";
        let beyond = format!("{page}.scrollWidth - {page}.clientWidth");
        assert_eq!(stage.browser.evaluate(&beyond), 0, "at {width}");
    }
}

#[test]
fn everything_that_can_be_used_has_a_name() {
    let mut stage = furnished();
    let tree = stage.browser.ask("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree");
    let used = nodes.iter().filter(|node| {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        !node["ignored"].as_bool().unwrap_or(false) && ROLES.contains(&role)
    });
    let mut count = 0;
    for node in used {
        count += 1;
        let name = node["name"]["value"].as_str().unwrap_or_default();
        assert!(!name.is_empty(), "without a name: {node:#}");
    }
    assert!(count > 50, "the page has fields, buttons and lines: {count}");
}

#[test]
fn the_page_is_one_heading_with_others_below_it() {
    let mut stage = Stage::open();
    let levels = "[...document.querySelectorAll('h1, h2, h3')].map(({ localName }) => localName)";
    let levels = stage.browser.evaluate(levels);
    let levels: Vec<&str> =
        levels.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(levels[..4], ["h1", "h2", "h2", "h3"]);
    assert_eq!(levels.iter().filter(|&&level| level == "h1").count(), 1);
}

/// Roles of what people use.
const ROLES: [&str; 9] = [
    "button",
    "checkbox",
    "combobox",
    "DisclosureTriangle",
    "link",
    "radio",
    "searchbox",
    "spinbutton",
    "textbox",
];
