//! What all entries of a catalog have in common: tools, prompts, resources and resource templates.
//!
//! Members are written only for revisions that define them (`title` and `_meta` since 2025-06-18,
//! `icons` since 2025-11-25), because clients of older revisions may reject unknown members.

use std::borrow::Cow;

use corelane_protocol::json::ObjectWriter;
use corelane_protocol::model::{Icon, ListKind};
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value};

/// An entry of a catalog list.
pub(super) trait Entry {
    /// The list that contains it.
    const LIST: ListKind;

    /// Its kind, for error messages.
    const KIND: &'static str;

    /// Its name, URI or URI template; unique in its list.
    fn key(&self) -> &str;

    /// The text under which it is also found, if its key has several spellings and is not the one
    /// that all others are compared with.
    fn other_key(&self) -> Option<&str> {
        None
    }

    /// Validates and prepares the entry, once, when it enters a catalog. `Err` is phrased to follow
    /// "`kind` `name`: ".
    fn prepare(&mut self) -> Result<(), Cow<'static, str>>;

    /// Appends its object in the list result of `revision`.
    fn write(&self, out: &mut Vec<u8>, revision: Revision);
}

/// Name, title, description, icons and `_meta` of an entry.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) name: Box<str>,
    pub(super) title: Option<Box<str>>,
    pub(super) description: Option<Box<str>>,
    pub(super) icons: Vec<Icon>,
    pub(super) meta: Map<String, Value>,
}

impl Metadata {
    pub(super) fn new(name: Box<str>) -> Self {
        Self { name, title: None, description: None, icons: Vec::new(), meta: Map::new() }
    }

    /// Writes `name`, `title` and `description`.
    pub(super) fn write_leading_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        object.string("name", &self.name);
        if revision.dialect().titles {
            object.string_opt("title", self.title.as_ref());
        }
        object.string_opt("description", self.description.as_ref());
    }

    /// Writes `icons` and `_meta`.
    pub(super) fn write_trailing_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        let dialect = revision.dialect();
        if dialect.icons && !self.icons.is_empty() {
            Icon::write_all(&self.icons, object.key("icons"));
        }
        if dialect.meta_on_types && !self.meta.is_empty() {
            object.map_opt("_meta", Some(&self.meta));
        }
    }
}
