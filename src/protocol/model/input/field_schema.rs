//! Encoder of the schema of a form field in each revision.
//!
//! Invariants: a default that its own field would reject is omitted, and a field type that the
//! revision lacks becomes the closest one it has.
//!
//! MCP schema: `PrimitiveSchemaDefinition` from 2025-06-18 on.

use super::field::{Field, FieldType, SelectOption, TextFormat, TitleEncoding};
use crate::json::{ObjectWriter, write};
use crate::revision::{Dialect, Revision};

impl Field {
    /// Appends the schema of the field as `revision` defines it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut object = ObjectWriter::open(out);
        let kind = match &self.field_type {
            FieldType::Number { is_integer: true, .. } => "integer",
            FieldType::Number { .. } => "number",
            FieldType::Boolean => "boolean",
            FieldType::MultiSelect { .. } if dialect.elicitation_enums => "array",
            FieldType::Text { .. }
            | FieldType::SingleSelect { .. }
            | FieldType::MultiSelect { .. } => "string",
        };
        object.string("type", kind).string_opt("title", self.title.as_ref());
        self.write_description(&mut object, dialect);
        self.field_type.write(&mut object, dialect);
        let has_default = dialect.elicitation_enums || self.field_type == FieldType::Boolean;
        if let Some(default) = &self.default
            && has_default
            && self.is_valid(default)
        {
            object.value("default", default);
        }
        object.close();
    }

    /// Writes the description; a multi-select field in a revision without them lists its options.
    fn write_description(&self, object: &mut ObjectWriter<'_>, dialect: &Dialect) {
        let FieldType::MultiSelect { options, .. } = &self.field_type else {
            object.string_opt("description", self.description.as_ref());
            return;
        };
        if dialect.elicitation_enums {
            object.string_opt("description", self.description.as_ref());
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

impl FieldType {
    fn write(&self, object: &mut ObjectWriter<'_>, dialect: &Dialect) {
        match self {
            Self::Text { length_min, length_max, format } => {
                object
                    .unsigned_opt("minLength", *length_min)
                    .unsigned_opt("maxLength", *length_max)
                    .string_opt("format", format.map(TextFormat::as_str));
            }
            Self::Number { minimum, maximum, .. } => {
                object.float_opt("minimum", *minimum).float_opt("maximum", *maximum);
            }
            Self::Boolean => {}
            Self::SingleSelect { options, titles: TitleEncoding::PerOption }
                if dialect.elicitation_enums =>
            {
                write_titled_options(object.key("oneOf"), options);
            }
            Self::SingleSelect { options, titles } => {
                object.strings("enum", options.iter().map(|option| &option.value));
                if *titles != TitleEncoding::None {
                    object.strings("enumNames", options.iter().map(SelectOption::display_title));
                }
            }
            Self::MultiSelect { options, titles, items_min, items_max } => {
                if !dialect.elicitation_enums {
                    return;
                }
                object.unsigned_opt("minItems", *items_min).unsigned_opt("maxItems", *items_max);
                let mut items = object.object("items");
                if *titles == TitleEncoding::None {
                    items.string("type", "string");
                    items.strings("enum", options.iter().map(|option| &option.value));
                } else {
                    write_titled_options(items.key("anyOf"), options);
                }
                items.close();
            }
        }
    }
}

impl SelectOption {
    fn display_title(&self) -> &str {
        self.title.as_ref().unwrap_or(&self.value)
    }
}

fn write_titled_options(out: &mut Vec<u8>, options: &[SelectOption]) {
    out.push(b'[');
    for (index, option) in options.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = ObjectWriter::open(out);
        object.string("const", &option.value).string("title", option.display_title());
        object.close();
    }
    out.push(b']');
}
