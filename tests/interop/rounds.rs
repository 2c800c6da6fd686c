//! Rounds of a call that a modern client drives by hand, with the sealed state in its hands.

use serde_json::{Value, json};

use crate::stage::{Era, Sdk, code, in_era, text};

#[test]
fn python_can_neither_change_nor_replay_the_state_of_a_round() {
    in_era(Sdk::Python, "rounds", Era::Modern, expect_rounds);
}

#[test]
fn typescript_can_neither_change_nor_replay_the_state_of_a_round() {
    in_era(Sdk::TypeScript, "rounds", Era::Modern, expect_rounds);
}

fn expect_rounds(summary: &Value) {
    assert_eq!(summary["asked"], json!(["confirm"]));
    assert_eq!(text(&summary["answered"]), "state-ok");
    for refused in ["changed", "shortened", "replayed"] {
        assert_eq!(code(&summary[refused]), -32602, "{refused}");
    }
    let again = &summary["unanswered"]["result"];
    assert_eq!(again["resultType"], "input_required", "what was not answered is asked again");
    assert!(again["inputRequests"]["confirm"].is_object(), "{again:#}");
}
