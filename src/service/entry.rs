//! An entry of a list: what tools, prompts, resources and templates have in common.
//!
//! What it keeps true: a member is written only for revisions that know it (title and `_meta` from
//! 2025-06-18 on, icons from 2025-11-25 on), so that a strict client of an old revision sees
//! nothing it has no name for.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::protocol::json::ObjectWriter;
use crate::protocol::message::{Icon, Listed};
use crate::protocol::revision::Revision;

/// What a catalog lists.
pub(in crate::service) trait Entry {
    /// The list it stands in.
    const LISTED: Listed;

    /// What it is called in sentences.
    const KIND: &'static str;

    /// What finds it: a name, a URI or a URI template. Unique in its list.
    fn key(&self) -> &str;

    /// Checks it and makes it ready to be used, once; `Err` says what is wrong, as the end of a
    /// sentence about it.
    fn fit(&mut self) -> Result<(), Cow<'static, str>>;

    /// Appends the object that stands in the list of `revision`.
    fn write(&self, out: &mut Vec<u8>, revision: Revision);
}

/// Name, title, description, icons and `_meta` of an entry.
#[derive(Clone, Debug)]
pub(in crate::service) struct About {
    pub(in crate::service) name: Box<str>,
    pub(in crate::service) title: Option<Box<str>>,
    pub(in crate::service) description: Option<Box<str>>,
    pub(in crate::service) icons: Vec<Icon>,
    pub(in crate::service) meta: Map<String, Value>,
}

impl About {
    /// Nothing but a name.
    pub(in crate::service) fn new(name: Box<str>) -> Self {
        Self { name, title: None, description: None, icons: Vec::new(), meta: Map::new() }
    }

    /// What a list says first.
    pub(in crate::service) fn open(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        object.text("name", &self.name);
        if revision.dialect().titles {
            object.text_if("title", self.title.as_ref());
        }
        object.text_if("description", self.description.as_ref());
    }

    /// What a list says last.
    pub(in crate::service) fn close(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        let dialect = revision.dialect();
        if dialect.icons && !self.icons.is_empty() {
            Icon::write_all(&self.icons, object.key("icons"));
        }
        if dialect.meta_on_types && !self.meta.is_empty() {
            object.map_if("_meta", Some(&self.meta));
        }
    }
}
