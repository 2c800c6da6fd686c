//! What is no message, and what nobody can do.

use serde_json::json;

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{ALL, hold};

#[test]
fn errors_read_as_written() {
    hold(&Feature { name: "errors", revisions: &ALL, arguments: &[], play: errors });
}

fn errors(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("what is not JSON");
    for text in ["{", "nonsense", "{\"a\":\"\\ud800\"}"] {
        dialogue.say_text(text);
        dialogue.hear(None);
    }
    dialogue.part("what is no message");
    for text in ["7", "{}", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"] {
        dialogue.say_text(text);
        dialogue.hear(None);
    }
    dialogue.part("methods that there are not");
    dialogue.fail("no/such/method", json!({}), -32601);
    dialogue.part("messages that nobody waits for are passed over");
    dialogue.notify("notifications/nothing", None);
    let progress = json!({"progressToken": "nobody", "progress": 1});
    dialogue.notify("notifications/progress", Some(progress));
    dialogue.say(&json!({"jsonrpc": "2.0", "id": "never", "result": {}}));
    dialogue.call("echo", &json!({"message": "still here"}));
}
