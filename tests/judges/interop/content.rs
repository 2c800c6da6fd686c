//! Content types of tool results, and `tools/list`.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, PNG, Sdk, failure, icons, in_both_eras, text};

/// Audio of the demo service: eight silent samples.
const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_reads_every_content_type() {
    in_both_eras(Sdk::Python, "content", expect_content);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_reads_every_content_type() {
    in_both_eras(Sdk::TypeScript, "content", expect_content);
}

fn expect_content(summary: &Value, _: Era) {
    let calls = &summary["calls"];
    let content = |tool: &str| &calls[tool]["result"]["content"];
    let simple = "This is a simple text response for testing.";
    assert_eq!(text(&calls["test_simple_text"]), simple);
    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    assert_eq!(content("test_image_content"), &json!([image]));
    let audio = json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" });
    assert_eq!(content("test_audio_content"), &json!([audio]));
    let body = "This is an embedded resource content.";
    let embedded = resource("test://embedded-resource", "text/plain", body);
    assert_eq!(content("test_embedded_resource"), &json!([embedded]));
    let first = json!({ "type": "text", "text": "Multiple content types test:" });
    let body = r#"{"test":"data","value":123}"#;
    let last = resource("test://mixed-content-resource", "application/json", body);
    assert_eq!(content("test_multiple_content_types"), &json!([first, image, last]));
    let link = json!({
        "type": "resource_link",
        "uri": "test://resource-with-icons",
        "name": "Resource With Icons",
        "icons": icons(),
    });
    assert_eq!(content("test_tool_with_icons"), &json!([link]));
    assert_eq!(summary["tools"]["test_tool_with_icons"]["icons"], icons());
    let failed = "This tool intentionally returns an error for testing";
    assert_eq!(failure(&calls["test_error_handling"]), failed);

    let sum = &summary["structured"]["result"]["structuredContent"]["sum"];
    assert_eq!(sum.as_f64(), Some(42.0));
    expect_schemas(summary);
}

/// A hand-written JSON schema is listed unchanged and validates arguments.
fn expect_schemas(summary: &Value) {
    let tools = &summary["tools"];
    assert_eq!(tools["json_schema_2020_12_tool"]["inputSchema"], contact());
    assert_eq!(text(&summary["contact"]), "Valid contact: Ada");
    assert!(!failure(&summary["bad_contact"]).is_empty());
    let region = &tools["test_header_parameter"]["inputSchema"]["properties"]["region"];
    assert_eq!(region["x-mcp-header"], "Region");
    assert_eq!(text(&summary["region"]), "Region: eu");
    assert_eq!(tools["add"]["outputSchema"]["required"], json!(["sum"]));
    assert_eq!(tools["echo"]["annotations"]["readOnlyHint"], true);
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    let resource = json!({ "uri": uri, "mimeType": mime_type, "text": text });
    json!({ "type": "resource", "resource": resource })
}

fn contact() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
