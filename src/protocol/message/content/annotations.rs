//! What is said about a piece of content: for whom, how important, how old.
//!
//! Source: `Annotations` in the schema of each revision.

use crate::protocol::json::{ObjectWriter, timestamp, write};
use crate::protocol::revision::Revision;

/// Who speaks, or who is spoken to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }
}

/// Hints about a piece of content, for whoever shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContentAnnotations {
    /// Whom it is for; everybody where it is empty.
    pub audience: Vec<Role>,
    /// How important it is, from 0 (may be left out) to 1 (required). Written within these bounds.
    pub priority: Option<f64>,
    /// When it last changed, in milliseconds since 1970 (2025-06-18 and later).
    pub last_modified_ms: Option<u64>,
}

impl ContentAnnotations {
    /// Appends the member `annotations` to what is annotated, where `revision` knows any of it.
    pub fn write(&self, annotated: &mut ObjectWriter<'_>, revision: Revision) {
        let last_modified_ms =
            self.last_modified_ms.filter(|_| revision.dialect().annotations_last_modified);
        let priority = self.priority.filter(|priority| priority.is_finite());
        if self.audience.is_empty() && priority.is_none() && last_modified_ms.is_none() {
            return;
        }
        let mut object = annotated.object("annotations");
        if !self.audience.is_empty() {
            object.texts("audience", self.audience.iter().map(|role| role.as_str()));
        }
        if let Some(priority) = priority {
            write::float(object.key("priority"), priority.clamp(0.0, 1.0));
        }
        if let Some(unix_ms) = last_modified_ms {
            timestamp(object.key("lastModified"), unix_ms);
        }
        object.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_knows_none_of_them_hears_of_no_annotations() {
        let annotations =
            ContentAnnotations { last_modified_ms: Some(0), ..ContentAnnotations::default() };
        let said = |revision| {
            let mut out = Vec::new();
            let mut object = ObjectWriter::open(&mut out);
            annotations.write(&mut object, revision);
            object.close();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(said(Revision::V2025_03_26), "{}");
        let known = r#"{"annotations":{"lastModified":"1970-01-01T00:00:00.000Z"}}"#;
        assert_eq!(said(Revision::V2025_06_18), known);
    }
}
