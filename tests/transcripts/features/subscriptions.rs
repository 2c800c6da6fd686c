//! Who hears of changes: by listening, and by subscribing.

use serde_json::json;

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{LEGACY, MODERN, hold};

#[test]
fn listening_reads_as_written() {
    hold(&Feature { name: "listening", revisions: &[MODERN], arguments: &[], play: listening });
}

fn listening(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("two streams, each with its own wishes");
    let tools = dialogue.ask(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true, "taskIds": []}}),
    );
    dialogue.hear_from_server("notifications/subscriptions/acknowledged");
    let filter = json!({
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": ["test://watched-resource"],
    });
    dialogue.ask("subscriptions/listen", json!({"notifications": filter}));
    dialogue.hear_from_server("notifications/subscriptions/acknowledged");
    dialogue.part("tools change");
    dialogue.call("test_trigger_tool_change", &json!({}));
    dialogue.part("prompts change");
    dialogue.call("test_trigger_prompt_change", &json!({}));
    dialogue.part("a stream ends, and one that never was");
    dialogue.notify("notifications/cancelled", Some(json!({"requestId": tools})));
    dialogue.notify("notifications/cancelled", Some(json!({"requestId": "never"})));
    dialogue.call("test_trigger_tool_change", &json!({}));
    dialogue.part("wishes that are none");
    for notifications in [json!(7), json!({"toolsListChanged": "yes"})] {
        dialogue.fail("subscriptions/listen", json!({"notifications": notifications}), -32602);
    }
}

#[test]
fn subscribing_reads_as_written() {
    hold(&Feature { name: "subscribing", revisions: &LEGACY, arguments: &[], play: subscribing });
}

fn subscribing(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    let watched = json!({"uri": "test://watched-resource"});
    dialogue.part("a resource, and one that there is not");
    dialogue.succeed("resources/subscribe", watched.clone());
    dialogue.fail("resources/subscribe", json!({"uri": "test://nothing"}), -32002);
    dialogue.part("lists change");
    dialogue.call("test_trigger_tool_change", &json!({}));
    dialogue.call("test_trigger_prompt_change", &json!({}));
    dialogue.part("enough of it, twice");
    dialogue.succeed("resources/unsubscribe", watched.clone());
    dialogue.succeed("resources/unsubscribe", watched);
}
