//! A form for people to fill in: flat fields, in order.
//!
//! What it keeps true: what a handler reads out of an answer was asked for and fits its field.
//!
//! Source: `ElicitRequest.params.requestedSchema` in the schemas of 2025-06-18 and later;
//! `client/elicitation`, "Requested Schema".

use super::field::Field;
use crate::protocol::error::Error;
use crate::protocol::json::ObjectWriter;
use crate::protocol::revision::Revision;
use serde_json::{Map, Value};

/// The fields of an elicitation.
///
/// ```
/// use corelane::protocol::message::{Field, Form};
///
/// let form = Form::new()
///     .field(Field::text("name").title("Your name").bounds(1, 80).required())
///     .field(Field::one("size", ["small", "large"]).default("small"));
/// # drop(form);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    pub(super) fields: Vec<Field>,
}

impl Form {
    /// A form without fields: a plain question.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same form with one more field; a field of the same name is replaced.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        match self.fields.iter_mut().find(|known| known.name == field.name) {
            Some(known) => *known = field,
            None => self.fields.push(field),
        }
        self
    }

    /// Appends the schema as `revision` knows it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        object.text("type", "object");
        let mut properties = object.object("properties");
        for field in &self.fields {
            field.write(properties.key(&field.name), revision);
        }
        properties.close();
        if self.fields.iter().any(|field| field.is_required) {
            let required = self.fields.iter().filter(|field| field.is_required);
            object.texts("required", required.map(|field| &field.name));
        }
        object.close();
    }

    /// What was filled in, field by field; what was not asked for is left out.
    pub(super) fn read(&self, content: Option<&Value>) -> Result<Map<String, Value>, Error> {
        let empty = Map::new();
        let filled = match content {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(filled)) => filled,
            Some(_) => return Err(Error::invalid_params("content must be an object")),
        };
        let mut read = Map::new();
        for field in &self.fields {
            let name = &field.name;
            match filled.get(name).filter(|value| !value.is_null()) {
                Some(value) => {
                    let value = field.read(value).map_err(|wanted| {
                        Error::invalid_params(format!("content.{name} must be {wanted}"))
                    })?;
                    read.insert(name.clone(), value);
                }
                None if field.is_required => {
                    return Err(Error::invalid_params(format!("content.{name} is missing")));
                }
                None => {}
            }
        }
        Ok(read)
    }
}
