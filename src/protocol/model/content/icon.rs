//! Icons of servers, tools, prompts and resources.
//!
//! MCP schema: `Icon` of 2025-11-25 and 2026-07-28.

use crate::json::ObjectWriter;
use corelane_base::heap_bytes::HeapBytes;
use std::borrow::Cow;

/// An icon for display. Omitted in revisions before 2025-11-25.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Icon {
    /// Location: an `https:` or `data:` URI.
    pub src: Cow<'static, str>,
    /// MIME type, if it does not follow from `src`.
    pub mime_type: Option<Cow<'static, str>>,
    /// Sizes in which it can be used, such as `"48x48"`, or `"any"` for scalable formats.
    pub sizes: Vec<Cow<'static, str>>,
    /// Theme that the icon is designed for.
    pub theme: Option<IconTheme>,
}

/// Theme of a user interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IconTheme {
    /// Light background.
    Light,
    /// Dark background.
    Dark,
}

impl HeapBytes for Icon {
    fn heap_bytes(&self) -> usize {
        self.src.heap_bytes() + self.mime_type.heap_bytes() + self.sizes.heap_bytes()
    }
}

impl Icon {
    /// Creates an icon from its URI alone.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// Appends the object.
    #[doc(hidden)]
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        object.string("src", &self.src).string_opt("mimeType", self.mime_type.as_ref());
        if !self.sizes.is_empty() {
            object.strings("sizes", &self.sizes);
        }
        object.string_opt("theme", self.theme.map(IconTheme::as_str));
        object.close();
    }

    /// Appends an array of icons.
    #[doc(hidden)]
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

impl IconTheme {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}
