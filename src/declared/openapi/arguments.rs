//! The arguments of a generated tool, as its input schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::bundle::Schemas;
use super::names::argument_name;
use super::schema::{Direction, References};

/// Bytes of a default that a description shows.
const DEFAULT_BYTES_MAX: usize = 100;

/// The arguments of one operation.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    properties: Map<String, Value>,
    required: Vec<String>,
    used: BTreeSet<String>,
    references: References,
}

/// An argument to add.
#[derive(Debug)]
pub(super) struct NewArgument<'a> {
    /// Its name in the request.
    pub(super) name: &'a str,
    /// `path`, `query`, `header`, `cookie` or `body`.
    pub(super) place: &'a str,
    /// Its schema in the document.
    pub(super) schema: &'a Value,
    /// What is said about it beside its schema.
    pub(super) description: Option<&'a str>,
    pub(super) is_required: bool,
    pub(super) is_deprecated: bool,
}

impl Arguments {
    /// Adds an argument and returns its name.
    ///
    /// # Errors
    ///
    /// A reference has no target in the document.
    pub(super) fn add(
        &mut self,
        schemas: &mut Schemas<'_>,
        argument: &NewArgument<'_>,
    ) -> Result<String, String> {
        let NewArgument { schema, description, .. } = argument;
        let converted = schemas.convert_part(schema, Direction::Input, &mut self.references)?;
        let mut converted = match converted {
            Value::Object(members) => members,
            Value::Bool(false) => Map::from_iter([("not".to_owned(), json!({}))]),
            _ => Map::new(),
        };
        if let Some(description) = description {
            let text = match converted.get("description").and_then(Value::as_str) {
                Some(own) if own.contains(description) => own.to_owned(),
                Some(own) if !description.contains(own) => format!("{description}\n{own}"),
                _ => (*description).to_owned(),
            };
            converted.insert("description".to_owned(), Value::String(text));
        }
        // A default that is not sent is that of the server; one that is sent changes what exists.
        if let Some(default) = converted.remove("default")
            && !default.is_null()
            && !default.to_string().contains('\n')
            && default.to_string().len() <= DEFAULT_BYTES_MAX
        {
            let own = converted.get("description").and_then(Value::as_str);
            let own = own.map(|text| format!("{text}\n")).unwrap_or_default();
            let text = format!("{own}Default of the server: {default}");
            converted.insert("description".to_owned(), Value::String(text));
        }
        if argument.is_deprecated {
            converted.insert("deprecated".to_owned(), Value::Bool(true));
        }
        let name = argument_name(&self.used, argument.name, argument.place);
        self.used.insert(name.clone());
        if argument.is_required {
            self.required.push(name.clone());
        }
        self.properties.insert(name.clone(), Value::Object(converted));
        Ok(name)
    }

    /// The input schema.
    ///
    /// # Errors
    ///
    /// A definition is invalid.
    pub(super) fn into_schema(self, schemas: &mut Schemas<'_>) -> Result<Value, String> {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        schemas.add_definitions(&mut schema, Direction::Input, &self.references)?;
        Ok(Value::Object(schema))
    }
}
