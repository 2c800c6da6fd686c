//! The form of an elicitation: flat fields, in order.
//!
//! Invariants: submitted content that reaches a handler belongs to a field of the form and is
//! valid for it.
//!
//! MCP schema: `ElicitRequest.params.requestedSchema` of 2025-06-18 and later;
//! `client/elicitation`, "Requested Schema".

use super::field::Field;
use crate::error::Error;
use crate::json::ObjectWriter;
use crate::revision::Revision;
use corelane_base::heap_bytes::HeapBytes;
use serde_json::{Map, Value};

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
