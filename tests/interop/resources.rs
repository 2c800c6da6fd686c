//! Resources: lists, templates, texts, bytes, and what is not there.

use serde_json::{Value, json};

use crate::stage::{Era, PNG, Sdk, code, each, in_both_eras};

#[test]
fn python_reads_resources_of_every_kind() {
    in_both_eras(Sdk::Python, "resources", expect_resources);
}

#[test]
fn typescript_reads_resources_of_every_kind() {
    in_both_eras(Sdk::TypeScript, "resources", expect_resources);
}

fn expect_resources(summary: &Value, era: Era) {
    let uris = ["test://static-text", "test://static-binary", "test://watched-resource"];
    assert_eq!(each(&summary["resources"], "uri"), uris);
    assert_eq!(each(&summary["templates"], "uriTemplate"), ["test://template/{id}/data"]);

    let content = |read: &str| &summary[read]["result"]["contents"][0];
    let held = "This is the content of the static text resource.";
    let text = json!({ "uri": uris[0], "mimeType": "text/plain", "text": held });
    assert_eq!(content("text"), &text);
    let blob = json!({ "uri": uris[1], "mimeType": "image/png", "blob": PNG });
    assert_eq!(content("blob"), &blob);

    let made = content("template");
    assert_eq!(made["uri"], "test://template/42/data");
    assert_eq!(made["mimeType"], "application/json");
    let data: Value = serde_json::from_str(made["text"].as_str().unwrap()).unwrap();
    assert_eq!(data["id"], "42");

    let unknown = &summary["unknown"];
    assert_eq!(code(unknown), if era == Era::Legacy { -32002 } else { -32602 });
    assert_eq!(unknown["error"]["data"]["uri"], "test://nobody");
    let values = &summary["completion"]["result"]["completion"]["values"];
    assert_eq!(values, &json!(["12", "123"]));
}
