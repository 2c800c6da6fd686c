//! Resources: lists, templates, texts, bytes, and what is not there.

use serde_json::{Value, json};

use crate::stage::{Era, PNG, Sdk, code, each, icons, in_both_eras};

#[test]
fn python_reads_resources_of_every_kind() {
    in_both_eras(Sdk::Python, "resources", |summary, era| {
        expect_resources(summary);
        let unknown = if era == Era::Legacy { -32002 } else { -32602 };
        assert_eq!(code(&summary["unknown"]), unknown);
    });
}

/// The client tells the code of either era as one.
#[test]
fn typescript_reads_resources_of_every_kind() {
    in_both_eras(Sdk::TypeScript, "resources", |summary, _| {
        expect_resources(summary);
        assert_eq!(code(&summary["unknown"]), -32602);
    });
}

fn expect_resources(summary: &Value) {
    let uris = [
        "test://static-text",
        "test://static-binary",
        "test://watched-resource",
        "test://resource-with-icons",
    ];
    assert_eq!(each(&summary["resources"], "uri"), uris);
    assert_eq!(summary["resources"][3]["icons"], icons());
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
    let text = made["text"].as_str().expect("a template is read as text");
    let data: Value = serde_json::from_str(text).expect("the text is JSON");
    assert_eq!(data["id"], "42");

    assert_eq!(summary["unknown"]["error"]["data"]["uri"], "test://nobody");
    let values = &summary["completion"]["result"]["completion"]["values"];
    assert_eq!(values, &json!(["12", "123"]));
}
