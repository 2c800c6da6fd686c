//! Pictures that stand for a server, a tool, a prompt or a resource.
//!
//! Source: `Icon` in the schema of 2025-11-25 and 2026-07-28.

use crate::protocol::json::ObjectWriter;
use std::borrow::Cow;

/// A picture for people. Revisions before 2025-11-25 know none and are not told of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Icon {
    /// Where it is: an `https:` or `data:` URI.
    pub src: Cow<'static, str>,
    /// What it is, where `src` does not say it.
    pub mime_type: Option<Cow<'static, str>>,
    /// The sizes in which it may be shown: `"48x48"`, or `"any"` for a picture without pixels.
    pub sizes: Vec<Cow<'static, str>>,
    /// The background it is made for.
    pub theme: Option<Theme>,
}

/// A background.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Theme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Icon {
    /// A picture that says itself what it is.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// Appends the object.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        object.text("src", &self.src).text_if("mimeType", self.mime_type.as_ref());
        if !self.sizes.is_empty() {
            object.texts("sizes", &self.sizes);
        }
        object.text_if("theme", self.theme.map(Theme::as_str));
        object.close();
    }

    /// Appends a list of them.
    pub fn write_all(icons: &[Self], out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, icon) in icons.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            icon.write(out);
        }
        out.push(b']');
    }
}

impl Theme {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}
