//! The form of an elicitation: flat fields, in order, also as converted from a JSON Schema.
//!
//! Invariants: submitted content that reaches a handler belongs to a field of the form and is
//! valid for it.
//!
//! MCP schema: `ElicitRequest.params.requestedSchema` of 2025-06-18 and later;
//! `client/elicitation`, "Requested Schema".

use corelane_base::heap_bytes::HeapBytes;
use serde_json::{Map, Value};

use super::field::{Field, FieldType, SelectOption, TextFormat, TitleEncoding};
use crate::error::Error;
use crate::json::ObjectWriter;
use crate::revision::Revision;

/// The form of an elicitation.
///
/// ```
/// # use corelane_protocol as corelane;
/// use corelane::model::{Field, Form};
///
/// let form = Form::new()
///     .field(Field::text("name").title("Your name").bounds(1, 80).required())
///     .field(Field::single_select("size", ["small", "large"]).default("small"));
/// # drop(form);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    pub(super) fields: Vec<Field>,
}

impl Form {
    /// Creates a form without fields, which only asks for confirmation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field; replaces a field of the same name.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        match self.fields.iter_mut().find(|existing| existing.name == field.name) {
            Some(existing) => *existing = field,
            None => self.fields.push(field),
        }
        self
    }

    /// Appends `requestedSchema` as `revision` defines it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        object.string("type", "object");
        let mut properties = object.object("properties");
        for field in &self.fields {
            field.write(properties.key(&field.name), revision);
        }
        properties.close();
        if self.fields.iter().any(|field| field.is_required) {
            let required = self.fields.iter().filter(|field| field.is_required);
            object.strings("required", required.map(|field| &field.name));
        }
        object.close();
    }

    /// Discards what [`Form::read`] does not need.
    pub(super) fn discard_texts(&mut self) {
        self.fields.iter_mut().for_each(Field::discard_texts);
    }

    /// Validates the submitted content; members that are not fields of the form are dropped.
    pub(super) fn read(&self, content: Option<&Value>) -> Result<Map<String, Value>, Error> {
        let empty = Map::new();
        let submitted = match content {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(submitted)) => submitted,
            Some(_) => return Err(Error::invalid_params("content must be an object")),
        };
        let mut read = Map::new();
        for field in &self.fields {
            let name = &field.name;
            match submitted.get(name).filter(|value| !value.is_null()) {
                Some(value) => {
                    let value = field.read(value).map_err(|expected| {
                        Error::invalid_params(format!("content.{name} must be {expected}"))
                    })?;
                    read.insert(name.clone(), value);
                }
                None if field.is_required => {
                    return Err(Error::invalid_params(format!("missing content.{name}")));
                }
                None => {}
            }
        }
        Ok(read)
    }
}

impl HeapBytes for Form {
    fn heap_bytes(&self) -> usize {
        self.fields.heap_bytes()
    }
}

impl Form {
    /// Converts `schema`, an object schema whose properties have the primitive types that MCP
    /// allows (2025-11-25 `client/elicitation`, "Requested Schema"). Other keywords are ignored.
    ///
    /// # Errors
    ///
    /// Internal error (-32603) that names the unsupported property, because the schema is the
    /// server's own.
    pub fn from_schema(schema: &Value) -> Result<Self, Error> {
        let not_an_object =
            || Error::internal("a form schema must have type \"object\" and properties");
        let properties = schema["properties"].as_object().ok_or_else(not_an_object)?;
        if schema["type"] != "object" {
            return Err(not_an_object());
        }
        let required = schema["required"].as_array();
        let mut form = Self::new();
        for (name, property) in properties {
            let shape = property.as_object().and_then(FieldType::read).ok_or_else(|| {
                Error::internal(format!("form property \"{name}\" has an unsupported schema"))
            })?;
            let text = |key| property[key].as_str().map(str::to_owned);
            form = form.field(Field {
                title: text("title"),
                description: text("description"),
                default: property.get("default").cloned(),
                is_required: required.is_some_and(|names| names.iter().any(|one| one == name)),
                ..Field::new(name.as_str(), shape)
            });
        }
        Ok(form)
    }
}

impl FieldType {
    fn read(property: &Map<String, Value>) -> Option<Self> {
        let integer = |key| property.get(key).and_then(Value::as_u64);
        let number = |key| property.get(key).and_then(Value::as_f64);
        match property.get("type")?.as_str()? {
            "boolean" => Some(Self::Boolean),
            kind @ ("integer" | "number") => Some(Self::Number {
                minimum: number("minimum"),
                maximum: number("maximum"),
                is_integer: kind == "integer",
            }),
            "string" if property.contains_key("oneOf") || property.contains_key("enum") => {
                let (options, titles) = options(property, "oneOf")?;
                Some(Self::SingleSelect { options, titles })
            }
            "string" => Some(Self::Text {
                length_min: integer("minLength"),
                length_max: integer("maxLength"),
                format: property.get("format").and_then(Value::as_str).and_then(|name| {
                    let mut known = TextFormat::ALL.iter();
                    known.find(|(_, known)| *known == name).map(|(format, _)| *format)
                }),
            }),
            "array" => {
                let (options, titles) = options(property.get("items")?.as_object()?, "anyOf")?;
                let (items_min, items_max) = (integer("minItems"), integer("maxItems"));
                Some(Self::MultiSelect { options, titles, items_min, items_max })
            }
            _ => None,
        }
    }
}

/// Reads the options of a select field: titled options in the member `titled`, or an `enum`.
/// Returns `None` if they are not strings.
fn options(
    property: &Map<String, Value>,
    titled: &str,
) -> Option<(Vec<SelectOption>, TitleEncoding)> {
    if let Some(options) = property.get(titled) {
        let read = |option: &Value| {
            let value = option["const"].as_str()?.to_owned();
            Some(SelectOption { value, title: option["title"].as_str().map(str::to_owned) })
        };
        let options = options.as_array()?.iter().map(read).collect::<Option<_>>()?;
        return Some((options, TitleEncoding::PerOption));
    }
    let names = property.get("enumNames").and_then(Value::as_array);
    let read = |(index, value): (usize, &Value)| {
        let title = names.and_then(|names| names.get(index)).and_then(Value::as_str);
        Some(SelectOption { value: value.as_str()?.to_owned(), title: title.map(str::to_owned) })
    };
    let values = property.get("enum")?.as_array()?;
    let options = values.iter().enumerate().map(read).collect::<Option<_>>()?;
    Some((options, if names.is_some() { TitleEncoding::EnumNames } else { TitleEncoding::None }))
}
