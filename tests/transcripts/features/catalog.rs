//! The catalog changes while clients use it.

use serde_json::json;

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{ALL, hold};

#[test]
fn a_changed_list_reads_as_written() {
    hold(&Feature { name: "catalog-change", revisions: &ALL, arguments: &[], play: change });
}

fn change(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("a prompt more");
    let before = dialogue.succeed("prompts/list", json!({}));
    dialogue.call("test_trigger_prompt_change", &json!({}));
    let after = dialogue.succeed("prompts/list", json!({}));
    assert_ne!(before["prompts"], after["prompts"]);
}
