//! How a field is asked for: its schema in each revision.
//!
//! What it keeps true: what a field would refuse is never offered as its default, and a revision
//! that lacks a kind of field gets the nearest one it has.
//!
//! Source: `PrimitiveSchemaDefinition` in the schemas from 2025-06-18 on.

use super::field::{Choice, Field, Shape, TextFormat, Titles};
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::revision::{Dialect, Revision};

impl Field {
    /// Appends the schema of the field as `revision` knows it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut object = ObjectWriter::open(out);
        let kind = match &self.shape {
            Shape::Number { is_whole: true, .. } => "integer",
            Shape::Number { .. } => "number",
            Shape::Boolean => "boolean",
            Shape::Several { .. } if dialect.elicitation_choices => "array",
            Shape::Text { .. } | Shape::One { .. } | Shape::Several { .. } => "string",
        };
        object.text("type", kind).text_if("title", self.title.as_ref());
        self.write_description(&mut object, dialect);
        self.shape.write(&mut object, dialect);
        let has_default = dialect.elicitation_choices || self.shape == Shape::Boolean;
        if let Some(default) = &self.default
            && has_default
            && self.accepts(default)
        {
            object.json("default", default);
        }
        object.close();
    }

    /// The description; a choice of several says its options where it has to be a text.
    fn write_description(&self, object: &mut ObjectWriter<'_>, dialect: &Dialect) {
        let Shape::Several { options, .. } = &self.shape else {
            object.text_if("description", self.description.as_ref());
            return;
        };
        if dialect.elicitation_choices {
            object.text_if("description", self.description.as_ref());
            return;
        }
        let out = object.key("description");
        out.push(b'"');
        if let Some(description) = &self.description {
            write::escaped(out, description);
            out.push(b' ');
        }
        write::escaped(out, "Any of these, separated by commas: ");
        for (index, option) in options.iter().enumerate() {
            if index > 0 {
                write::escaped(out, ", ");
            }
            write::escaped(out, &option.value);
        }
        out.push(b'"');
    }
}

impl Shape {
    fn write(&self, object: &mut ObjectWriter<'_>, dialect: &Dialect) {
        match self {
            Self::Text { length_min, length_max, format } => {
                object
                    .unsigned_if("minLength", *length_min)
                    .unsigned_if("maxLength", *length_max)
                    .text_if("format", format.map(TextFormat::as_str));
            }
            Self::Number { minimum, maximum, .. } => {
                object.float_if("minimum", *minimum).float_if("maximum", *maximum);
            }
            Self::Boolean => {}
            Self::One { options, titles: Titles::Beside } if dialect.elicitation_choices => {
                write_titled(object.key("oneOf"), options);
            }
            Self::One { options, titles } => {
                object.texts("enum", options.iter().map(|option| &option.value));
                if *titles != Titles::None {
                    object.texts("enumNames", options.iter().map(Choice::shown));
                }
            }
            Self::Several { options, titles, items_min, items_max } => {
                if !dialect.elicitation_choices {
                    return;
                }
                object.unsigned_if("minItems", *items_min).unsigned_if("maxItems", *items_max);
                let mut items = object.object("items");
                if *titles == Titles::None {
                    items.text("type", "string");
                    items.texts("enum", options.iter().map(|option| &option.value));
                } else {
                    write_titled(items.key("anyOf"), options);
                }
                items.close();
            }
        }
    }
}

impl Choice {
    fn shown(&self) -> &str {
        self.title.as_ref().unwrap_or(&self.value)
    }
}

fn write_titled(out: &mut Vec<u8>, options: &[Choice]) {
    out.push(b'[');
    for (index, option) in options.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = ObjectWriter::open(out);
        object.text("const", &option.value).text("title", option.shown());
        object.close();
    }
    out.push(b']');
}
