//! Tests of generated tools.

mod documents;

mod faults;

mod requests;

mod schemas;

use std::time::Duration;

use serde_json::{Value, json};

use super::generate::{GeneratedTool, GeneratedTools};
use super::{OpenApiDeclaration, generate_tools};
use crate::declared::call::{Call, Failure, Output};
use crate::declared::http::HttpClient;
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::room::{CallRoom, OutputRoom};

fn limits() -> CallLimits {
    CallLimits { timeout: Duration::from_mins(10), output_bytes_max: 1 << 20 }
}

fn generate_from(
    declaration: &OpenApiDeclaration,
    document: &[u8],
) -> Result<GeneratedTools, Vec<Problem>> {
    generate_tools(declaration, document, &mut HttpClient::new(), limits())
}

/// The tools of a document, with a declaration in TOML.
fn generate(declaration: &str, document: &Value) -> Result<GeneratedTools, Vec<Problem>> {
    let declaration = format!("document = \"openapi.json\"\n{declaration}");
    generate_from(&toml::from_str(&declaration).unwrap(), document.to_string().as_bytes())
}

/// The tool of a document with one operation, `POST /x/{id}`.
fn one_tool(version: &str, operation: &Value, schemas: &Value) -> GeneratedTool {
    let mut generated = generate("", &one_operation(version, operation, schemas)).unwrap();
    assert_eq!(generated.skipped, []);
    let tool = generated.tools.remove(0);
    check(&tool);
    tool
}

fn one_operation(version: &str, operation: &Value, schemas: &Value) -> Value {
    json!({
        "openapi": version,
        "servers": [{ "url": "https://a.example" }],
        "paths": { "/x/{id}": { "post": operation } },
        "components": { "schemas": schemas },
    })
}

/// An operation with a body in JSON.
fn with_body(schema: &Value) -> Value {
    let content = json!({ "application/json": { "schema": schema } });
    json!({ "requestBody": { "required": true, "content": content } })
}

fn call(tool: &GeneratedTool, arguments: &Value) -> Result<Output, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let arguments = arguments.as_object().unwrap().clone();
    let (room, call) = (OutputRoom::default(), Call { arguments, ..Call::default() });
    runtime.block_on(tool.tool.call(call, &CallRoom::new(&room, 1 << 20)))
}

/// Checks what is true of every tool.
fn check(tool: &GeneratedTool) {
    let GeneratedTool { name, place, input_schema, output_schema, .. } = tool;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    assert!((1..=64).contains(&name.len()) && name.bytes().all(is_part), "{place}: {name}");
    assert_eq!(input_schema["type"], "object", "{place}");
    for argument in input_schema["properties"].as_object().unwrap().keys() {
        let is_name = argument.len() <= 64 && argument.bytes().all(is_part);
        assert!(is_name && !argument.is_empty(), "{place}: {argument}");
    }
    for schema in std::iter::once(input_schema).chain(output_schema) {
        if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
            panic!("{place}: {error} in {schema}");
        }
        if let Err(error) = jsonschema::draft202012::new(schema) {
            panic!("{place}: {error} in {schema}");
        }
        check_references(schema, schema, place);
    }
}

/// Checks that each reference has a target in the same schema.
fn check_references(root: &Value, value: &Value, place: &str) {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        assert!(target.is_some(), "{place}: {reference}");
    }
    let members = value.as_object().into_iter().flatten().map(|(_, value)| value);
    let items = value.as_array().into_iter().flatten();
    members.chain(items).for_each(|value| check_references(root, value, place));
}
