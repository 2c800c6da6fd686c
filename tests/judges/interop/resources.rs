//! Resources: lists, templates, text, blobs, completion and an unknown URI.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, PNG, Sdk, code, each, icons, in_both_eras};

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_reads_text_blob_and_template_resources() {
    in_both_eras(Sdk::Python, "resources", |summary, era| {
        expect_resources(summary);
        let unknown = if era == Era::Legacy { -32002 } else { -32602 };
        assert_eq!(code(&summary["unknown"]), unknown);
    });
}

/// The client maps the codes of both eras to one.
#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_reads_text_blob_and_template_resources() {
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
    let body = "This is the content of the static text resource.";
    let text = json!({ "uri": uris[0], "mimeType": "text/plain", "text": body });
    assert_eq!(content("text"), &text);
    let blob = json!({ "uri": uris[1], "mimeType": "image/png", "blob": PNG });
    assert_eq!(content("blob"), &blob);

    let expanded = content("template");
    assert_eq!(expanded["uri"], "test://template/42/data");
    assert_eq!(expanded["mimeType"], "application/json");
    let text = expanded["text"].as_str().expect("the template resource is text");
    let data: Value = serde_json::from_str(text).expect("the text is JSON");
    assert_eq!(data["id"], "42");

    assert_eq!(summary["unknown"]["error"]["data"]["uri"], "test://unknown");
    let values = &summary["completion"]["result"]["completion"]["values"];
    assert_eq!(values, &json!(["12", "123"]));
}
