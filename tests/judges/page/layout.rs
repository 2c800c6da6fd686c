//! Accessibility and layout of the page: contrast, width, names, headings.

use serde_json::{Value, json};

use crate::page::page_test::PageTest;

/// Opens the page and shows a form, a result, an error and an elicitation.
fn open_filled_page() -> PageTest {
    let mut page = PageTest::open();
    page.call("add", &[("a", "2"), ("b", "40")]);
    page.browser.evaluate("document.querySelector('.wire').open = true");
    page.expect_error("400");
    page.call("test_missing_capability", &[]);
    page.open_tool("test_elicitation_sep1330_enums");
    page.click("test_elicitation_sep1330_enums", "Call");
    page.until("document.querySelector('.ask')");
    page
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn text_contrast_is_sufficient_in_both_schemes() {
    let mut page = open_filled_page();
    for scheme in ["light", "dark"] {
        page.set_viewport(1280, 900, scheme);
        // WCAG 2.2, 1.4.3: 4.5 to 1.
        assert_eq!(page.browser.evaluate("probe.lowContrast(4.5)"), json!([]), "{scheme}");
    }
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn page_fits_narrow_and_wide_screens() {
    let mut page = open_filled_page();
    for width in [320, 390, 800, 1280] {
        page.set_viewport(width, 800, "light");
        // WCAG 2.2, 1.4.10: no horizontal scrolling from 320 px on.
        let root = "document.documentElement";
        let overflow = format!("{root}.scrollWidth - {root}.clientWidth");
        assert_eq!(page.browser.evaluate(&overflow), 0, "at {width}");
    }
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn controls_have_accessible_names() {
    let mut page = open_filled_page();
    let tree = page.browser.send_command("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree");
    let controls = nodes.iter().filter(|node| {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        !node["ignored"].as_bool().unwrap_or(false) && ROLES.contains(&role)
    });
    let mut count = 0;
    for node in controls {
        count += 1;
        let name = node["name"]["value"].as_str().unwrap_or_default();
        assert!(!name.is_empty(), "no accessible name: {node:#}");
    }
    assert!(count > 50, "only {count} controls");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn page_has_one_top_level_heading() {
    let mut page = PageTest::open();
    let levels = "[...document.querySelectorAll('h1, h2, h3')].map(({ localName }) => localName)";
    let levels = page.browser.evaluate(levels);
    let levels: Vec<&str> =
        levels.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(levels[..4], ["h1", "h2", "h2", "h3"]);
    assert_eq!(levels.iter().filter(|&&level| level == "h1").count(), 1);
}

/// Roles of controls.
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
