//! An entry of the catalog that was declared.

use std::sync::Arc;

use crate::declared::backend::Runner;
use crate::service::{Prompt, Resource, ResourceTemplate, Skill, Tool};

/// A hash of a declaration and of the files that it names.
pub type Fingerprint = [u8; 32];

/// An entry of the catalog and where it came from.
#[derive(Debug)]
pub struct Entry {
    /// What decides whether the entry differs from another one with the same key.
    pub fingerprint: Fingerprint,
    /// Its rate limit, as a rule of the option `rate.rules`.
    pub rate_rule: Option<String>,
    /// What runs the calls of a tool.
    pub runner: Option<Arc<Runner>>,
    /// The entry.
    pub item: Item,
}

/// An entry of the catalog.
#[derive(Debug)]
pub enum Item {
    /// A tool.
    Tool(Box<Tool>),
    /// A resource.
    Resource(Resource),
    /// A resource template.
    Template(ResourceTemplate),
    /// A prompt.
    Prompt(Prompt),
    /// A skill.
    Skill(Skill),
}

/// What identifies an entry of the catalog.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// Kind, as errors of the catalog have it: `tool`, `resource`, `resource template`, `prompt`,
    /// `skill`.
    pub kind: &'static str,
    /// Name, URI or URI template.
    pub name: String,
}

impl Entry {
    /// What identifies the entry.
    pub fn key(&self) -> Key {
        let (kind, name) = match &self.item {
            Item::Tool(tool) => ("tool", tool.name()),
            Item::Resource(resource) => ("resource", resource.uri()),
            Item::Template(template) => ("resource template", template.uri_template()),
            Item::Prompt(prompt) => ("prompt", prompt.name()),
            Item::Skill(skill) => ("skill", skill.uri()),
        };
        Key { kind, name: name.to_owned() }
    }
}
