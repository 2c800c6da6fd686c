//! Resources, prompts and completion.

use serde_json::json;

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{ALL, MODERN, hold};

#[test]
fn resources_read_as_written() {
    hold(&Feature { name: "resources", revisions: &ALL, arguments: &[], play: resources });
}

fn resources(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("lists");
    dialogue.succeed("resources/list", json!({}));
    dialogue.succeed("resources/templates/list", json!({}));
    dialogue.fail("resources/list", json!({"cursor": "nowhere"}), -32602);
    for uri in [
        "test://static-text",
        "test://static-binary",
        "test://template/123/data",
        "test://watched-resource",
        "test://resource-with-icons",
    ] {
        dialogue.part(uri);
        dialogue.succeed("resources/read", json!({"uri": uri}));
    }
    dialogue.part("what there is not");
    let code = if dialogue.revision == MODERN { -32602 } else { -32002 };
    for uri in
        ["test://nothing", "test://template//data", "file:///etc/passwd", "test://static-text/.."]
    {
        dialogue.fail("resources/read", json!({"uri": uri}), code);
    }
    dialogue.part("what is no address");
    dialogue.fail("resources/read", json!({"uri": 7}), -32602);
    dialogue.fail("resources/read", json!({}), -32602);
}

#[test]
fn prompts_read_as_written() {
    hold(&Feature { name: "prompts", revisions: &ALL, arguments: &[], play: prompts });
}

fn prompts(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("the list");
    dialogue.succeed("prompts/list", json!({}));
    for (prompt, arguments) in [
        ("test_simple_prompt", json!({})),
        ("test_prompt_with_arguments", json!({"arg1": "hello", "arg2": "world"})),
        ("test_prompt_with_embedded_resource", json!({"resourceUri": "test://static-text"})),
        ("test_prompt_with_image", json!({})),
        ("test_prompt_with_icons", json!({})),
    ] {
        dialogue.part(prompt);
        dialogue.succeed("prompts/get", json!({"name": prompt, "arguments": arguments}));
    }
    dialogue.part("wrong requests");
    for params in [
        json!({"name": "nobody"}),
        json!({}),
        json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "hello"}}),
        json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": 1, "arg2": 2}}),
    ] {
        dialogue.fail("prompts/get", params, -32602);
    }
}

#[test]
fn completion_reads_as_written() {
    hold(&Feature { name: "completion", revisions: &ALL, arguments: &[], play: completion });
}

fn completion(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("an argument of a prompt");
    let prompt = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    for value in ["", "par", "zzz"] {
        let argument = json!({"name": "arg1", "value": value});
        dialogue.succeed("completion/complete", json!({"ref": prompt, "argument": argument}));
    }
    dialogue.part("a variable of a template");
    let template = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
    let argument = json!({"name": "id", "value": "1"});
    dialogue.succeed("completion/complete", json!({"ref": template, "argument": argument}));
    dialogue.part("what there is not");
    let argument = json!({"name": "arg1", "value": ""});
    for reference in [
        json!({"type": "ref/prompt", "name": "nobody"}),
        json!({"type": "ref/resource", "uri": "test://nothing"}),
        json!({"type": "ref/tool", "name": "echo"}),
    ] {
        let params = json!({"ref": reference, "argument": argument});
        dialogue.fail("completion/complete", params, -32602);
    }
    dialogue.part("an argument of which nobody knows how it goes on");
    let argument = json!({"name": "arg9", "value": ""});
    dialogue.succeed("completion/complete", json!({"ref": prompt, "argument": argument}));
}
