//! What a prompt was filled with.

use crate::protocol::params::Texts;
use crate::protocol::revision::Revision;

/// The arguments of one `prompts/get`: names with texts. Every required one is there.
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    revision: Revision,
    filled: Filled<'a>,
}

#[derive(Clone, Debug)]
enum Filled<'a> {
    Kept(Box<[(Box<str>, Box<str>)]>),
    Sent(Texts<'a>),
}

impl<'a> Arguments<'a> {
    /// Arguments where they lie in the message.
    pub(super) const fn sent(revision: Revision, texts: Texts<'a>) -> Self {
        Self { revision, filled: Filled::Sent(texts) }
    }

    /// The argument called `name`, where it is filled in; the last one where it was sent twice.
    pub fn find(&self, name: &str) -> Option<&str> {
        match &self.filled {
            Filled::Sent(texts) => texts.find(name),
            Filled::Kept(kept) => {
                kept.iter().rfind(|(known, _)| **known == *name).map(|(_, text)| &**text)
            }
        }
    }

    /// The argument called `name`, or nothing: for texts in which a gap does no harm.
    pub fn text(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// The revision that the caller speaks.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The same arguments, to outlive the message. Allocates each of them.
    pub fn into_owned(self) -> Arguments<'static> {
        let filled = match self.filled {
            Filled::Sent(texts) => {
                Filled::Kept(texts.iter().map(|(name, text)| (name.into(), text.into())).collect())
            }
            Filled::Kept(kept) => Filled::Kept(kept),
        };
        Arguments { revision: self.revision, filled }
    }
}
