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
    /// Appends the object as `revision` knows it.
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        if !self.audience.is_empty() {
            object.texts("audience", self.audience.iter().map(|role| role.as_str()));
        }
        if let Some(priority) = self.priority.filter(|priority| priority.is_finite()) {
            write::float(object.key("priority"), priority.clamp(0.0, 1.0));
        }
        if let Some(unix_ms) = self.last_modified_ms
            && revision.dialect().annotations_last_modified
        {
            timestamp(object.key("lastModified"), unix_ms);
        }
        object.close();
    }
}
