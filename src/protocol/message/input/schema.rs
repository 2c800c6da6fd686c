//! Forms out of the JSON Schema that describes them.

use super::field::{Choice, Field, Shape, TextFormat, Titles};
use super::form::Form;
use crate::protocol::error::Error;
use serde_json::{Map, Value};

impl Form {
    /// The form that `schema` describes: an object whose properties are of the flat kinds that MCP
    /// allows (2025-11-25 `client/elicitation`, "Requested Schema"). Keywords beyond those are
    /// passed over.
    ///
    /// # Errors
    ///
    /// Internal (-32603) that names the property which is none of these kinds: the schema is the
    /// server's own.
    pub fn from_schema(schema: &Value) -> Result<Self, Error> {
        let broken = || Error::internal("the schema of a form must be an object with properties");
        let properties = schema["properties"].as_object().ok_or_else(broken)?;
        if schema["type"] != "object" {
            return Err(broken());
        }
        let required = schema["required"].as_array();
        let mut form = Self::new();
        for (name, property) in properties {
            let shape = property.as_object().and_then(Shape::read).ok_or_else(|| {
                Error::internal(format!("the property \"{name}\" of a form is no flat value"))
            })?;
            let text = |key| property[key].as_str().map(str::to_owned);
            form = form.field(Field {
                title: text("title"),
                description: text("description"),
                default: property.get("default").cloned(),
                is_required: required.is_some_and(|names| names.iter().any(|one| one == name)),
                ..Field::of(name.as_str(), shape)
            });
        }
        Ok(form)
    }
}

impl Shape {
    fn read(property: &Map<String, Value>) -> Option<Self> {
        let whole = |key| property.get(key).and_then(Value::as_u64);
        let number = |key| property.get(key).and_then(Value::as_f64);
        match property.get("type")?.as_str()? {
            "boolean" => Some(Self::Boolean),
            kind @ ("integer" | "number") => Some(Self::Number {
                minimum: number("minimum"),
                maximum: number("maximum"),
                is_whole: kind == "integer",
            }),
            "string" if property.contains_key("oneOf") || property.contains_key("enum") => {
                let (options, titles) = options(property, "oneOf")?;
                Some(Self::One { options, titles })
            }
            "string" => Some(Self::Text {
                length_min: whole("minLength"),
                length_max: whole("maxLength"),
                format: property.get("format").and_then(Value::as_str).and_then(|name| {
                    let mut known = TextFormat::ALL.iter();
                    known.find(|(_, known)| *known == name).map(|(format, _)| *format)
                }),
            }),
            "array" => {
                let (options, titles) = options(property.get("items")?.as_object()?, "anyOf")?;
                let (items_min, items_max) = (whole("minItems"), whole("maxItems"));
                Some(Self::Several { options, titles, items_min, items_max })
            }
            _ => None,
        }
    }
}

/// The options of a choice: those beside their titles under `titled`, or an `enum`; none where they
/// are not strings.
fn options(property: &Map<String, Value>, titled: &str) -> Option<(Vec<Choice>, Titles)> {
    if let Some(options) = property.get(titled) {
        let read = |option: &Value| {
            let value = option["const"].as_str()?.to_owned();
            Some(Choice { value, title: option["title"].as_str().map(str::to_owned) })
        };
        let options = options.as_array()?.iter().map(read).collect::<Option<_>>()?;
        return Some((options, Titles::Beside));
    }
    let names = property.get("enumNames").and_then(Value::as_array);
    let read = |(index, value): (usize, &Value)| {
        let title = names.and_then(|names| names.get(index)).and_then(Value::as_str);
        Some(Choice { value: value.as_str()?.to_owned(), title: title.map(str::to_owned) })
    };
    let values = property.get("enum")?.as_array()?;
    let options = values.iter().enumerate().map(read).collect::<Option<_>>()?;
    Some((options, if names.is_some() { Titles::Listed } else { Titles::None }))
}
