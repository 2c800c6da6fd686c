//! Questions to the user, the model and the directories behind a client: requests of the server in
//! the legacy era, rounds of the call in the modern one.

use serde_json::{Value, json};

use crate::stage::{Era, Sdk, code, each, failure, in_both_eras, questions_counted, text};

const ELICITATION: &str = "elicitation/create";
const ROOTS: &str = "roots/list";
const SAMPLING: &str = "sampling/createMessage";

#[test]
fn python_answers_whatever_the_server_asks() {
    in_both_eras(Sdk::Python, "asking", expect_answers);
}

#[test]
fn rust_answers_whatever_the_server_asks() {
    in_both_eras(Sdk::Rust, "asking", expect_answers);
}

#[test]
fn typescript_answers_whatever_the_server_asks() {
    in_both_eras(Sdk::TypeScript, "asking", expect_answers);
}

#[test]
fn python_tells_how_far_it_is_with_what_it_was_asked() {
    expect_reports(Sdk::Python);
}

#[test]
fn typescript_tells_how_far_it_is_with_what_it_was_asked() {
    expect_reports(Sdk::TypeScript);
}

/// Each question brought a token, and the server knew each report for one of its question.
fn expect_reports(sdk: Sdk) {
    let (summary, counted) = questions_counted(sdk, "asking", Era::Legacy);
    let outcomes = summary.as_object().expect("outcomes by name").values();
    let asked: usize =
        outcomes.filter_map(|outcome| outcome["asked"].as_array()).map(Vec::len).sum();
    let reports = 2 * asked;
    assert_eq!(summary["reports"], reports, "{summary:#}");
    let questions = format!("asked={asked} answered={asked} progress={reports}");
    assert_eq!(counted, [questions.as_str(), ""], "a client that answers and one that cannot");
}

pub(crate) fn expect_answers(summary: &Value, era: Era) {
    for (call, said, asked) in [
        ("sampling", "LLM response: Paris", &[SAMPLING][..]),
        ("roots", "Roots: file:///project", &[ROOTS]),
        ("state", "state-ok", &[ELICITATION]),
        ("at_once", "Paris, Ada! You have 1 roots.", &[ELICITATION, ROOTS, SAMPLING]),
        ("rounds", "Ada likes blue.", &[ELICITATION, ELICITATION]),
        ("declared", "Heard: Ada, Paris, 1 roots", &[ELICITATION, ROOTS, SAMPLING]),
    ] {
        assert_eq!(text(&summary[call]), said, "{call}");
        expect_asked(&summary[call], asked);
    }
    expect_forms(summary);
    expect_addresses(summary, era);

    let prompt = &summary["prompt"]["result"]["messages"][0]["content"];
    assert_eq!(prompt["text"], "Use this context: the sea");
    expect_asked(&summary["prompt"], &[ELICITATION]);
    let question = &summary["sampling"]["asked"][0]["params"]["messages"][0]["content"];
    assert_eq!(question["text"], "What is the capital of France?");
    expect_undeclared(summary, era);
}

fn expect_forms(summary: &Value) {
    let email = "ada@example.org";
    for (call, action, content) in [
        ("elicitation", "accept", json!({ "username": "ada", "email": email })),
        ("declined", "decline", json!({})),
        ("cancelled", "cancel", json!({})),
        ("defaults", "accept", defaults()),
        ("choices", "accept", choices()),
        ("confirmation", "accept", json!({ "confirm": true })),
    ] {
        let said = text(&summary[call]);
        let begin = format!("Elicitation completed: action={action}, content=");
        let filled = said.strip_prefix(&begin).unwrap_or_else(|| panic!("{call}: {said}"));
        let filled: Value = serde_json::from_str(filled).expect("the content is told as JSON");
        assert_eq!(filled, content, "{call}");
        expect_asked(&summary[call], &[ELICITATION]);
    }
    let form = |call: &str| &summary[call]["asked"][0]["params"]["requestedSchema"]["properties"];
    assert_eq!(form("elicitation")["email"]["format"], "email");
    let titled = &form("choices")["titledSingle"]["oneOf"][0];
    assert_eq!(titled, &json!({ "const": "value1", "title": "First Option" }));
    let names = &form("choices")["legacyEnum"]["enumNames"];
    assert_eq!(names, &json!(["Option One", "Option Two", "Option Three"]));
    assert_eq!(form("choices")["untitledMulti"]["maxItems"], 3);
}

/// The user is told the whole address; whoever agreed to go there hears when it is over.
fn expect_addresses(summary: &Value, era: Era) {
    for (call, action) in [("address", "accept"), ("address_declined", "decline")] {
        let said = format!("Elicitation completed: action={action}, content={{}}");
        assert_eq!(text(&summary[call]), said);
        expect_asked(&summary[call], &[ELICITATION]);
        let question = &summary[call]["asked"][0]["params"];
        assert_eq!(question["mode"], "url");
        assert_eq!(question["url"], "https://example.com/sign-in?state=42");
        assert_eq!(question["elicitationId"].is_string(), era == Era::Legacy, "{question}");
    }
    let agreed = &summary["address"]["asked"][0]["params"]["elicitationId"];
    let completed = if era == Era::Legacy { json!([agreed]) } else { json!([]) };
    assert_eq!(summary["completed"], completed);
    let reports = summary["reports"].as_u64().expect("a number");
    assert_eq!(reports > 0, era == Era::Legacy, "only requests are worked on");
}

/// A client that declared nothing is asked nothing.
fn expect_undeclared(summary: &Value, era: Era) {
    let undeclared = &summary["undeclared"];
    match era {
        Era::Legacy => assert!(failure(undeclared).contains("capability")),
        Era::Modern => {
            assert_eq!(code(undeclared), -32021);
            let required = &undeclared["error"]["data"]["requiredCapabilities"];
            assert_eq!(required, &json!({ "sampling": {} }));
        }
    }
    assert_eq!(text(&summary["nothing_declared"]), "Heard: ");
}

/// Each question reached the client once, in whatever order.
fn expect_asked(outcome: &Value, methods: &[&str]) {
    let mut asked = each(&outcome["asked"], "method");
    asked.sort_unstable();
    assert_eq!(asked, methods, "{outcome:#}");
}

fn defaults() -> Value {
    json!({ "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true })
}

fn choices() -> Value {
    json!({
        "untitledSingle": "option2",
        "titledSingle": "value2",
        "legacyEnum": "opt2",
        "untitledMulti": ["option1", "option3"],
        "titledMulti": ["value1", "value3"],
    })
}
