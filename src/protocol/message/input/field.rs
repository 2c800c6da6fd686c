//! One field of a form: a flat value, as people fill it in.
//!
//! How it is written and what may be filled in stand in files of their own.
//!
//! Source: `PrimitiveSchemaDefinition` in the schemas from 2025-06-18 on; `client/elicitation`.

use serde_json::Value;

/// One field of a [`super::Form`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) is_required: bool,
    pub(super) shape: Shape,
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Text {
        length_min: Option<u64>,
        length_max: Option<u64>,
        format: Option<TextFormat>,
    },
    Number {
        minimum: Option<f64>,
        maximum: Option<f64>,
        is_whole: bool,
    },
    Boolean,
    One {
        options: Vec<Choice>,
        titles: Titles,
    },
    Several {
        options: Vec<Choice>,
        titles: Titles,
        /// How many may be chosen, at least and at most.
        items_min: Option<u64>,
        items_max: Option<u64>,
    },
}

/// How the titles of options are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Titles {
    /// There are none.
    None,
    /// Beside each option (2025-11-25 and later).
    Beside,
    /// In a list of their own, `enumNames`.
    Listed,
}

/// One option.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Choice {
    pub(super) value: String,
    pub(super) title: Option<String>,
}

/// What a text is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextFormat {
    /// A day: `2026-07-28`.
    Date,
    /// A moment: `2026-07-28T09:30:00Z`.
    DateTime,
    /// An address for mail.
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
    /// A line of text.
    pub fn text(name: impl Into<String>) -> Self {
        Self::of(name, Shape::Text { length_min: None, length_max: None, format: None })
    }

    /// A whole number.
    pub fn integer(name: impl Into<String>) -> Self {
        Self::of(name, Shape::Number { minimum: None, maximum: None, is_whole: true })
    }

    /// A number.
    pub fn number(name: impl Into<String>) -> Self {
        Self::of(name, Shape::Number { minimum: None, maximum: None, is_whole: false })
    }

    /// Yes or no.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::of(name, Shape::Boolean)
    }

    /// One of several options.
    pub fn one<T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = T>,
    ) -> Self {
        Self::of(name, Shape::One { options: untitled(options), titles: Titles::None })
    }

    /// One of several options, each with a title for people. 2025-06-18 hears the titles as
    /// `enumNames`.
    pub fn one_titled<T: Into<String>, U: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        Self::of(name, Shape::One { options: titled(options), titles: Titles::Beside })
    }

    /// The same as [`Field::one_titled`], with the titles as `enumNames` in every revision: for
    /// clients that know no other form.
    pub fn one_named<T: Into<String>, U: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        Self::of(name, Shape::One { options: titled(options), titles: Titles::Listed })
    }

    /// Any number of several options. 2025-06-18 has no such field: it is asked for a text with the
    /// options between commas, which is read back as a list.
    pub fn several<T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = T>,
    ) -> Self {
        let options = untitled(options);
        let titles = Titles::None;
        Self::of(name, Shape::Several { options, titles, items_min: None, items_max: None })
    }

    /// Any number of several options, each with a title for people.
    pub fn several_titled<T: Into<String>, U: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        let options = titled(options);
        let titles = Titles::Beside;
        Self::of(name, Shape::Several { options, titles, items_min: None, items_max: None })
    }

    /// The same field, named for people.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// The same field, with what is to be filled in.
    #[must_use]
    pub fn describe(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// The same field, which has to be filled in.
    #[must_use]
    pub fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// The same field, filled in already (2025-11-25 and later; yes or no in 2025-06-18, too). What
    /// the field itself would refuse is not written.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> Self {
        Self { default: Some(value.into()), ..self }
    }

    /// The same field with bounds: the characters of a text, the number itself, or how many options
    /// may be chosen. Other fields have none.
    #[must_use]
    pub fn bounds(mut self, from: impl Into<Option<u32>>, to: impl Into<Option<u32>>) -> Self {
        let (from, to) = (from.into(), to.into());
        match &mut self.shape {
            Shape::Text { length_min: least, length_max: most, .. }
            | Shape::Several { items_min: least, items_max: most, .. } => {
                (*least, *most) = (from.map(u64::from), to.map(u64::from));
            }
            Shape::Number { minimum, maximum, .. } => {
                (*minimum, *maximum) = (from.map(f64::from), to.map(f64::from));
            }
            Shape::Boolean | Shape::One { .. } => {}
        }
        self
    }

    /// The same number with bounds that may be negative or broken. Other fields have none.
    #[must_use]
    pub fn between(mut self, from: impl Into<Option<f64>>, to: impl Into<Option<f64>>) -> Self {
        if let Shape::Number { minimum, maximum, .. } = &mut self.shape {
            (*minimum, *maximum) = (from.into(), to.into());
        }
        self
    }

    /// The same text in this format, which clients may check. Other fields have none.
    #[must_use]
    pub fn format(mut self, wanted: TextFormat) -> Self {
        if let Shape::Text { format, .. } = &mut self.shape {
            *format = Some(wanted);
        }
        self
    }

    pub(super) fn of(name: impl Into<String>, shape: Shape) -> Self {
        let name = name.into();
        Self { name, title: None, description: None, default: None, is_required: false, shape }
    }
}

fn untitled<T: Into<String>>(options: impl IntoIterator<Item = T>) -> Vec<Choice> {
    options.into_iter().map(|value| Choice { value: value.into(), title: None }).collect()
}

fn titled<T: Into<String>, U: Into<String>>(
    options: impl IntoIterator<Item = (T, U)>,
) -> Vec<Choice> {
    options
        .into_iter()
        .map(|(value, title)| Choice { value: value.into(), title: Some(title.into()) })
        .collect()
}
