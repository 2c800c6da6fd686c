//! Prompts: arguments, embedded resources, images, and completion of an argument.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, PNG, Sdk, code, each, icons, in_both_eras};

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_gets_prompts_and_completes_arguments() {
    in_both_eras(Sdk::Python, "prompts", expect_prompts);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_gets_prompts_and_completes_arguments() {
    in_both_eras(Sdk::TypeScript, "prompts", expect_prompts);
}

fn expect_prompts(summary: &Value, _: Era) {
    let prompts = &summary["prompts"];
    let names = each(prompts, "name");
    let kinds = ["simple_prompt", "prompt_with_embedded_resource", "prompt_with_image"];
    for kind in kinds {
        assert!(names.contains(&&*format!("test_{kind}")), "{names:?}");
    }
    assert_eq!(prompts[1]["name"], "test_prompt_with_arguments");
    assert_eq!(each(&prompts[1]["arguments"], "name"), ["arg1", "arg2"]);
    assert_eq!(prompts[1]["arguments"][0]["required"], true);

    let with_icons = names.iter().position(|name| *name == "test_prompt_with_icons");
    assert_eq!(prompts[with_icons.expect("a prompt with icons")]["icons"], icons());

    let messages = |prompt: &str| &summary[prompt]["result"]["messages"];
    let simple = text("This is a simple prompt for testing.");
    assert_eq!(messages("simple"), &json!([user(&simple)]));
    let filled = text("Prompt with arguments: arg1='hello', arg2='world'");
    assert_eq!(messages("arguments"), &json!([user(&filled)]));
    let resource = json!({
        "uri": "test://example-resource",
        "mimeType": "text/plain",
        "text": "Embedded resource content for testing.",
    });
    let embedded = json!({ "type": "resource", "resource": resource });
    let request = text("Please process the embedded resource above.");
    assert_eq!(messages("embedded"), &json!([user(&embedded), user(&request)]));
    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let request = text("Please analyze the image above.");
    assert_eq!(messages("image"), &json!([user(&image), user(&request)]));

    for failed in ["missing_argument", "unknown"] {
        assert_eq!(code(&summary[failed]), -32602, "{failed}");
    }
    let values = &summary["completion"]["result"]["completion"]["values"];
    assert_eq!(values, &json!(["paris", "park", "party"]));
}

fn user(content: &Value) -> Value {
    json!({ "role": "user", "content": content })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}
