//! Argument values of a `prompts/get` request.

use corelane_protocol::params::StringMap;
use corelane_protocol::revision::Revision;

/// Argument values of one `prompts/get`, by name. Every required argument is present.
#[derive(Clone, Debug)]
pub struct PromptArguments<'a> {
    revision: Revision,
    values: ArgumentValues<'a>,
}

#[derive(Clone, Debug)]
enum ArgumentValues<'a> {
    Owned(Box<[(Box<str>, Box<str>)]>),
    Borrowed(StringMap<'a>),
}

impl<'a> PromptArguments<'a> {
    /// Arguments that borrow from the parsed message.
    pub(super) const fn borrowed(revision: Revision, texts: StringMap<'a>) -> Self {
        Self { revision, values: ArgumentValues::Borrowed(texts) }
    }

    /// The value of the argument `name`, or `None`; the last one if it was sent more than once.
    /// Cost: one comparison per argument of the request.
    pub fn get(&self, name: &str) -> Option<&str> {
        match &self.values {
            ArgumentValues::Borrowed(texts) => texts.find(name),
            ArgumentValues::Owned(values) => {
                values.iter().rfind(|(known, _)| **known == *name).map(|(_, text)| &**text)
            }
        }
    }

    /// The number of arguments, duplicates counted.
    pub(super) const fn len(&self) -> usize {
        match &self.values {
            ArgumentValues::Borrowed(texts) => texts.len(),
            ArgumentValues::Owned(values) => values.len(),
        }
    }

    /// Names and values in the order of the request, duplicates included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (borrowed, owned) = match &self.values {
            ArgumentValues::Borrowed(texts) => (*texts, &[][..]),
            ArgumentValues::Owned(values) => (StringMap::default(), &**values),
        };
        borrowed.iter().chain(owned.iter().map(|(name, text)| (&**name, &**text)))
    }

    /// The value of the argument `name`, or an empty string.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Protocol revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Copies the values, so that they outlive the message. Allocates each of them.
    pub fn into_owned(self) -> PromptArguments<'static> {
        let values = match self.values {
            ArgumentValues::Borrowed(texts) => ArgumentValues::Owned(
                texts.iter().map(|(name, text)| (name.into(), text.into())).collect(),
            ),
            ArgumentValues::Owned(values) => ArgumentValues::Owned(values),
        };
        PromptArguments { revision: self.revision, values }
    }
}
