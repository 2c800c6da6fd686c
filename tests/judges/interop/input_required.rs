//! `input_required` results of a call (MRTR) with `requestState` returned by hand.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, Sdk, code, in_era, text};

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_tampered_or_replayed_request_state_is_rejected() {
    in_era(Sdk::Python, "input_required", Era::Modern, expect_input_required);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_tampered_or_replayed_request_state_is_rejected() {
    in_era(Sdk::TypeScript, "input_required", Era::Modern, expect_input_required);
}

fn expect_input_required(summary: &Value) {
    assert_eq!(summary["input_requests"], json!(["confirm"]));
    assert_eq!(text(&summary["answered"]), "state-ok");
    for rejected in ["changed", "shortened", "replayed"] {
        assert_eq!(code(&summary[rejected]), -32602, "{rejected}");
    }
    let again = &summary["unanswered"]["result"];
    assert_eq!(again["resultType"], "input_required", "an unanswered input request is repeated");
    assert!(again["inputRequests"]["confirm"].is_object(), "{again:#}");
}
