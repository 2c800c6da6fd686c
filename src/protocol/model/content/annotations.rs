//! Annotations of content: audience, priority, time of change.
//!
//! MCP schema: `Annotations` of each revision.

use crate::json::{ObjectWriter, write, write_timestamp};
use crate::revision::Revision;

/// Sender or recipient of a message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    /// Returns the role with this name on the wire.
    #[doc(hidden)]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }
}

/// Hints for clients about a piece of content (`Annotations` in the schema).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// Intended audience; empty means everyone.
    pub audience: Vec<Role>,
    /// Importance from 0 (optional) to 1 (required); clamped to this range when written.
    pub priority: Option<f64>,
    /// Time of the last change, in milliseconds since 1970 (2025-06-18 and later).
    pub last_modified_ms: Option<u64>,
}

impl Annotations {
    /// Writes the member `annotations` into `annotated`, unless `revision` defines none of the set
    /// fields.
    #[doc(hidden)]
    pub fn write(&self, annotated: &mut ObjectWriter<'_>, revision: Revision) {
        let last_modified_ms =
            self.last_modified_ms.filter(|_| revision.dialect().annotations_last_modified);
        let priority = self.priority.filter(|priority| priority.is_finite());
        if self.audience.is_empty() && priority.is_none() && last_modified_ms.is_none() {
            return;
        }
        let mut object = annotated.object("annotations");
        if !self.audience.is_empty() {
            object.strings("audience", self.audience.iter().map(|role| role.as_str()));
        }
        if let Some(priority) = priority {
            write::float(object.key("priority"), priority.clamp(0.0, 1.0));
        }
        if let Some(unix_ms) = last_modified_ms {
            write_timestamp(object.key("lastModified"), unix_ms);
        }
        object.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_unsupported_in_revision_are_omitted() {
        let annotations = Annotations { last_modified_ms: Some(0), ..Annotations::default() };
        let written = |revision| {
            let mut out = Vec::new();
            let mut object = ObjectWriter::open(&mut out);
            annotations.write(&mut object, revision);
            object.close();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Revision::V2025_03_26), "{}");
        let expected = r#"{"annotations":{"lastModified":"1970-01-01T00:00:00.000Z"}}"#;
        assert_eq!(written(Revision::V2025_06_18), expected);
    }
}
