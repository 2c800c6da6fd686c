//! A field of an elicitation form: a primitive value or a selection.
//!
//! `field_schema` encodes it, `field_validation` checks submitted values.
//!
//! MCP schema: `PrimitiveSchemaDefinition` from 2025-06-18 on; `client/elicitation`.

use corelane_base::heap_bytes::HeapBytes;
use serde_json::Value;

/// A field of a [`Form`](super::Form).
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) is_required: bool,
    pub(super) field_type: FieldType,
}

/// Type of a field with its constraints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldType {
    Text {
        length_min: Option<u64>,
        length_max: Option<u64>,
        format: Option<TextFormat>,
    },
    Number {
        minimum: Option<f64>,
        maximum: Option<f64>,
        is_integer: bool,
    },
    Boolean,
    SingleSelect {
        options: Vec<SelectOption>,
        titles: TitleEncoding,
    },
    MultiSelect {
        options: Vec<SelectOption>,
        titles: TitleEncoding,
        // Number of selected options.
        items_min: Option<u64>,
        items_max: Option<u64>,
    },
}

/// How titles of options are encoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TitleEncoding {
    /// Without titles.
    None,
    /// With each option (2025-11-25 and later).
    PerOption,
    /// As a separate array, `enumNames`.
    EnumNames,
}

/// An option of a select field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SelectOption {
    pub(super) value: String,
    pub(super) title: Option<String>,
}

/// Format of a string field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextFormat {
    /// Date: `2026-07-28`.
    Date,
    /// Date and time: `2026-07-28T09:30:00Z`.
    DateTime,
    /// Email address.
    Email,
    /// A URI.
    Uri,
}

impl TextFormat {
    pub(super) const ALL: [(Self, &'static str); 4] = [
        (Self::Date, "date"),
        (Self::DateTime, "date-time"),
        (Self::Email, "email"),
        (Self::Uri, "uri"),
    ];

    pub(super) const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Field {
    /// Creates a string field.
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, FieldType::Text { length_min: None, length_max: None, format: None })
    }

    /// Creates an integer field.
    pub fn integer(name: impl Into<String>) -> Self {
        Self::new(name, FieldType::Number { minimum: None, maximum: None, is_integer: true })
    }

    /// Creates a number field.
    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, FieldType::Number { minimum: None, maximum: None, is_integer: false })
    }

    /// Creates a boolean field.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::new(name, FieldType::Boolean)
    }

    /// Creates a single-select field.
    pub fn single_select<T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = T>,
    ) -> Self {
        Self::new(
            name,
            FieldType::SingleSelect {
                options: untitled_options(options),
                titles: TitleEncoding::None,
            },
        )
    }

    /// Creates a single-select field with titled options. In 2025-06-18 the titles are sent as
    /// `enumNames`.
    pub fn single_select_titled<T: Into<String>, U: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        Self::new(
            name,
            FieldType::SingleSelect {
                options: titled_options(options),
                titles: TitleEncoding::PerOption,
            },
        )
    }

    /// Creates a single-select field like [`Field::single_select_titled`], with the titles as
    /// `enumNames` in every revision, for clients that support only this form.
    pub fn single_select_enum_names<T: Into<String>, U: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        Self::new(
            name,
            FieldType::SingleSelect {
                options: titled_options(options),
                titles: TitleEncoding::EnumNames,
            },
        )
    }

    /// Creates a multi-select field. 2025-06-18 has none: the client is sent a string field that
    /// asks for comma-separated options, which is read back as a list.
    pub fn multi_select<T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = T>,
    ) -> Self {
        let options = untitled_options(options);
        let titles = TitleEncoding::None;
        Self::new(
            name,
            FieldType::MultiSelect { options, titles, items_min: None, items_max: None },
        )
    }

    /// Creates a multi-select field with titled options.
    pub fn multi_select_titled<T: Into<String>, U: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        let options = titled_options(options);
        let titles = TitleEncoding::PerOption;
        Self::new(
            name,
            FieldType::MultiSelect { options, titles, items_min: None, items_max: None },
        )
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// Marks the field as required.
    #[must_use]
    pub fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Sets the default (2025-11-25 and later; boolean fields also in 2025-06-18). A default that
    /// the field would reject is omitted.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> Self {
        Self { default: Some(value.into()), ..self }
    }

    /// Sets bounds: of the length of a string in characters, of the value of a number, or of the
    /// number of selected options. Ignored for other fields.
    #[must_use]
    pub fn bounds(mut self, from: impl Into<Option<u32>>, to: impl Into<Option<u32>>) -> Self {
        let (from, to) = (from.into(), to.into());
        match &mut self.field_type {
            FieldType::Text { length_min: min, length_max: max, .. }
            | FieldType::MultiSelect { items_min: min, items_max: max, .. } => {
                (*min, *max) = (from.map(u64::from), to.map(u64::from));
            }
            FieldType::Number { minimum, maximum, .. } => {
                (*minimum, *maximum) = (from.map(f64::from), to.map(f64::from));
            }
            FieldType::Boolean | FieldType::SingleSelect { .. } => {}
        }
        self
    }

    /// Sets bounds of a number that may be negative or fractional. Ignored for other fields.
    #[must_use]
    pub fn number_bounds(
        mut self,
        from: impl Into<Option<f64>>,
        to: impl Into<Option<f64>>,
    ) -> Self {
        if let FieldType::Number { minimum, maximum, .. } = &mut self.field_type {
            (*minimum, *maximum) = (from.into(), to.into());
        }
        self
    }

    /// Sets the format of a string field, which clients may validate. Ignored for other fields.
    #[must_use]
    pub fn format(mut self, string_format: TextFormat) -> Self {
        if let FieldType::Text { format, .. } = &mut self.field_type {
            *format = Some(string_format);
        }
        self
    }

    /// Discards what only the user sees.
    pub(super) fn discard_texts(&mut self) {
        (self.title, self.description, self.default) = (None, None, None);
        if let FieldType::SingleSelect { options, .. } | FieldType::MultiSelect { options, .. } =
            &mut self.field_type
        {
            for option in options {
                option.title = None;
            }
        }
    }

    pub(super) fn new(name: impl Into<String>, field_type: FieldType) -> Self {
        let name = name.into();
        Self { name, title: None, description: None, default: None, is_required: false, field_type }
    }
}

impl HeapBytes for Field {
    fn heap_bytes(&self) -> usize {
        let options = match &self.field_type {
            FieldType::Text { .. } | FieldType::Number { .. } | FieldType::Boolean => 0,
            FieldType::SingleSelect { options, .. } | FieldType::MultiSelect { options, .. } => {
                options.heap_bytes()
            }
        };
        let texts =
            self.name.heap_bytes() + self.title.heap_bytes() + self.description.heap_bytes();
        texts + self.default.heap_bytes() + options
    }
}

impl HeapBytes for SelectOption {
    fn heap_bytes(&self) -> usize {
        self.value.heap_bytes() + self.title.heap_bytes()
    }
}

fn untitled_options<T: Into<String>>(options: impl IntoIterator<Item = T>) -> Vec<SelectOption> {
    options.into_iter().map(|value| SelectOption { value: value.into(), title: None }).collect()
}

fn titled_options<T: Into<String>, U: Into<String>>(
    options: impl IntoIterator<Item = (T, U)>,
) -> Vec<SelectOption> {
    options
        .into_iter()
        .map(|(value, title)| SelectOption { value: value.into(), title: Some(title.into()) })
        .collect()
}
