//! The JSON Schema of the configuration file, for editors: declarations and options.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::declared::openapi::OpenApiDeclaration;
use crate::declared::prompt::PromptDeclaration;
use crate::declared::resource::{ResourceDeclaration, TemplateDeclaration};
use crate::declared::sql::DatabaseDeclaration;
use crate::declared::tool::ToolDeclaration;
use crate::declared::upstream::UpstreamDeclaration;

/// The schema of the file: the declarations, and the `options`, schemas by key.
pub fn file_schema(options: Map<String, Value>) -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut generator = settings.into_generator();
    let kinds = [
        ("tool", generator.subschema_for::<ToolDeclaration>()),
        ("resource", generator.subschema_for::<ResourceDeclaration>()),
        ("resource_template", generator.subschema_for::<TemplateDeclaration>()),
        ("prompt", generator.subschema_for::<PromptDeclaration>()),
        ("openapi", generator.subschema_for::<OpenApiDeclaration>()),
        ("database", generator.subschema_for::<DatabaseDeclaration>()),
        ("upstream", generator.subschema_for::<UpstreamDeclaration>()),
    ];
    let mut properties: Map<String, Value> = kinds
        .into_iter()
        .map(|(kind, schema)| {
            (kind.to_owned(), json!({ "type": "array", "items": schema.to_value() }))
        })
        .collect();
    properties.extend(options);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of Corelane",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": generator.take_definitions(true),
    })
}
