//! Elicitation, sampling and roots: server requests in the legacy era, input requests of the call
//! (MRTR) in the modern one.

use serde_json::{Value, json};

use crate::interop::sdk::{
    Era, Sdk, client_request_counters, code, each, failure, in_both_eras, text,
};

const ELICITATION: &str = "elicitation/create";
const ROOTS: &str = "roots/list";
const SAMPLING: &str = "sampling/createMessage";

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_answers_elicitation_sampling_and_roots() {
    in_both_eras(Sdk::Python, "client_requests", expect_client_requests);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_answers_elicitation_sampling_and_roots() {
    in_both_eras(Sdk::Rust, "client_requests", expect_client_requests);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_answers_elicitation_sampling_and_roots() {
    in_both_eras(Sdk::TypeScript, "client_requests", expect_client_requests);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_progress_of_server_requests_is_counted() {
    expect_progress_counted(Sdk::Python);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_progress_of_server_requests_is_counted() {
    expect_progress_counted(Sdk::TypeScript);
}

/// Each server request has a progress token, and the server counts every progress for it.
fn expect_progress_counted(sdk: Sdk) {
    let (summary, counted) = client_request_counters(sdk, "client_requests", Era::Legacy);
    let outcomes = summary.as_object().expect("outcomes by name").values();
    let sent: usize =
        outcomes.filter_map(|outcome| outcome["requests"].as_array()).map(Vec::len).sum();
    let progress = 2 * sent;
    assert_eq!(summary["progress_sent"], progress, "{summary:#}");
    let expected = format!("sent={sent} answered={sent} progress_notifications={progress}");
    assert_eq!(counted, [expected.as_str(), ""], "clients with and without the capabilities");
}

pub(crate) fn expect_client_requests(summary: &Value, era: Era) {
    for (call, reply, methods) in [
        ("sampling", "LLM response: Paris", &[SAMPLING][..]),
        ("roots", "Roots: file:///project", &[ROOTS]),
        ("state", "state-ok", &[ELICITATION]),
        ("multiple_inputs", "Paris, Ada! You have 1 roots.", &[ELICITATION, ROOTS, SAMPLING]),
        ("multi_round", "Ada likes blue.", &[ELICITATION, ELICITATION]),
        ("declared", "Received: Ada, Paris, 1 roots", &[ELICITATION, ROOTS, SAMPLING]),
    ] {
        assert_eq!(text(&summary[call]), reply, "{call}");
        expect_requests(&summary[call], methods);
    }
    expect_form_mode(summary);
    expect_url_mode(summary, era);

    let prompt = &summary["prompt"]["result"]["messages"][0]["content"];
    assert_eq!(prompt["text"], "Use this context: the sea");
    expect_requests(&summary["prompt"], &[ELICITATION]);
    let sampling = &summary["sampling"]["requests"][0]["params"]["messages"][0]["content"];
    assert_eq!(sampling["text"], "What is the capital of France?");
    expect_undeclared(summary, era);
}

fn expect_form_mode(summary: &Value) {
    let email = "ada@example.org";
    for (call, action, content) in [
        ("elicitation", "accept", json!({ "username": "ada", "email": email })),
        ("declined", "decline", json!({})),
        ("cancelled", "cancel", json!({})),
        ("defaults", "accept", defaults()),
        ("choices", "accept", choices()),
        ("confirmation", "accept", json!({ "confirm": true })),
    ] {
        let reply = text(&summary[call]);
        let prefix = format!("Elicitation completed: action={action}, content=");
        let filled = reply.strip_prefix(&prefix).unwrap_or_else(|| panic!("{call}: {reply}"));
        let filled: Value = serde_json::from_str(filled).expect("the content is JSON");
        assert_eq!(filled, content, "{call}");
        expect_requests(&summary[call], &[ELICITATION]);
    }
    let params = |call: &str| &summary[call]["requests"][0]["params"];
    let form = |call: &str| &params(call)["requestedSchema"]["properties"];
    assert_eq!(form("elicitation")["email"]["format"], "email");
    let titled = &form("choices")["titledSingle"]["oneOf"][0];
    assert_eq!(titled, &json!({ "const": "value1", "title": "First Option" }));
    let names = &form("choices")["legacyEnum"]["enumNames"];
    assert_eq!(names, &json!(["Option One", "Option Two", "Option Three"]));
    assert_eq!(form("choices")["untitledMulti"]["maxItems"], 3);
}

/// URL mode: the request has the full URL, and in the legacy era an accepted one is completed by
/// `notifications/elicitation/complete`.
fn expect_url_mode(summary: &Value, era: Era) {
    for (call, action) in [("url", "accept"), ("url_declined", "decline")] {
        let reply = format!("Elicitation completed: action={action}, content={{}}");
        assert_eq!(text(&summary[call]), reply);
        expect_requests(&summary[call], &[ELICITATION]);
        let params = &summary[call]["requests"][0]["params"];
        assert_eq!(params["mode"], "url");
        assert_eq!(params["url"], "https://example.com/sign-in?state=42");
        assert_eq!(params["elicitationId"].is_string(), era == Era::Legacy, "{params}");
    }
    let accepted = &summary["url"]["requests"][0]["params"]["elicitationId"];
    let completed = if era == Era::Legacy { json!([accepted]) } else { json!([]) };
    assert_eq!(summary["completed"], completed);
    let progress = summary["progress_sent"].as_u64().expect("a number");
    assert_eq!(progress > 0, era == Era::Legacy, "input requests have no progress token");
}

/// A client without capabilities receives no request; the call fails.
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
    assert_eq!(text(&summary["nothing_declared"]), "Received: ");
}

/// The client received each request once, in any order.
fn expect_requests(outcome: &Value, methods: &[&str]) {
    let mut received = each(&outcome["requests"], "method");
    received.sort_unstable();
    assert_eq!(received, methods, "{outcome:#}");
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
