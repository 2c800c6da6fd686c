//! The JSON Schema of a file of declarations, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::declared::openapi::OpenApiDeclaration;
use crate::declared::prompt::PromptDeclaration;
use crate::declared::resource::{ResourceDeclaration, TemplateDeclaration};
use crate::declared::sql::DatabaseDeclaration;
use crate::declared::tool::ToolDeclaration;

/// The schema of the file: the declarations; options are any other keys.
pub fn file_schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut generator = settings.into_generator();
    let kinds = [
        ("tool", generator.subschema_for::<ToolDeclaration>()),
        ("resource", generator.subschema_for::<ResourceDeclaration>()),
        ("resource_template", generator.subschema_for::<TemplateDeclaration>()),
        ("prompt", generator.subschema_for::<PromptDeclaration>()),
        ("openapi", generator.subschema_for::<OpenApiDeclaration>()),
        ("database", generator.subschema_for::<DatabaseDeclaration>()),
    ];
    let properties: Map<String, Value> = kinds
        .into_iter()
        .map(|(kind, schema)| {
            (kind.to_owned(), json!({ "type": "array", "items": schema.to_value() }))
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of Corelane",
        "type": "object",
        "properties": properties,
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_accepts_example_and_names_faults() {
        let validator = jsonschema::validator_for(&file_schema()).unwrap();
        let text = include_str!("example/files/corelane.toml");
        let example: Value = toml::from_str(text).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&example).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        for wrong in [
            json!({ "tool": [{ "command": ["df"] }] }),
            json!({ "tool": [{ "name": "a", "comand": ["df"] }] }),
            json!({ "prompt": [{ "name": "a", "messages": [{ "role": "robot", "text": "" }] }] }),
        ] {
            assert!(!validator.is_valid(&wrong), "{wrong}");
        }
    }
}
