//! The catalog: everything that a server offers, with the results that are the same for all
//! clients already encoded.
//!
//! A catalog is immutable, validated as a whole and shared by every shard. An update builds a new
//! version ([`Catalog::to_builder`]), which shares unchanged entries and lists with the old one.

mod pages;

mod features;

mod registry;

mod builder;

mod dispatch;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;
use corelane_protocol::json::ObjectWriter;
use corelane_protocol::model::{self, CacheHint, Implementation, ListKind};
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;

pub use self::builder::CatalogBuilder;
use self::builder::CatalogSettings;
pub use self::dispatch::call_tool_at;
pub use self::features::Features;
use self::registry::Registry;
use crate::service::call::CallToolRequest;
use crate::service::prompt::Prompt;
use crate::service::resource::{Resource, ResourceTemplate};
use crate::service::skill::Skill;
use crate::service::tool::Tool;

/// Everything that a server offers. Immutable: share it between shards in an `Arc`.
pub struct Catalog {
    settings: CatalogSettings,
    features: Features,
    /// A tool requires scopes of its callers.
    requires_scopes: bool,
    tools: Arc<Registry<Tool>>,
    prompts: Arc<Registry<Prompt>>,
    resources: Arc<Registry<Resource>>,
    templates: Arc<Registry<ResourceTemplate>>,
    skills: Arc<Registry<Skill>>,
    encoded_results: EncodedResults,
}

/// Returns the position of the tool called `name` in [`Catalog::tools`], or `None`.
#[inline]
pub fn tool_position(catalog: &Catalog, name: &str) -> Option<usize> {
    catalog.tools.position(name)
}

/// Returns the tool at a position in [`Catalog::tools`], or `None`.
#[inline]
pub fn tool_at(catalog: &Catalog, position: usize) -> Option<&Tool> {
    catalog.tools.get(position)
}

/// Encoded results that are the same for all clients of one revision, by revision.
struct EncodedResults {
    initialize: [Bytes; Revision::ALL.len()],
    result_suffixes: [Bytes; Revision::ALL.len()],
    discover: Bytes,
}

/// Lists that differ between two versions of a catalog.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ListChanges {
    /// The tool list differs.
    pub tools: bool,
    /// The prompt list differs.
    pub prompts: bool,
    /// The list of resources, of resource templates or of skills differs.
    pub resources: bool,
}

impl ListChanges {
    /// Whether no list differs.
    pub const fn is_empty(self) -> bool {
        !(self.tools || self.prompts || self.resources)
    }
}

impl Catalog {
    /// Starts a catalog for a server with this name and version.
    pub fn builder(info: Implementation) -> CatalogBuilder {
        CatalogBuilder::new(info)
    }

    /// Starts the next version, with all entries of this one. It keeps every feature of this
    /// version enabled, even if no entry is left, because clients have been sent it; see
    /// [`CatalogBuilder::disable_features`].
    ///
    /// ```
    /// use corelane::model::Implementation;
    /// use corelane::{Catalog, NoArguments, Tool};
    ///
    /// let first = Catalog::builder(Implementation::new("shop", "1")).build()?;
    /// let tool = Tool::new("open").inline_writer(|_: NoArguments, out, _| {
    ///     out.text("Opened.");
    ///     Ok(())
    /// });
    /// let second = first.to_builder().tool(tool).build()?;
    /// assert!(second.changes_from(&first).tools);
    /// let third = second.to_builder().remove_tool("open").build()?;
    /// assert!(third.changes_from(&first).is_empty());
    /// # Ok::<(), corelane::CatalogError>(())
    /// ```
    pub fn to_builder(&self) -> CatalogBuilder {
        CatalogBuilder::from_catalog(self)
    }

    /// Compares the lists with those of `old`, as clients of any revision see them.
    #[doc(hidden)]
    pub fn changes_from(&self, old: &Self) -> ListChanges {
        ListChanges {
            tools: self.tools.differs_from(&old.tools),
            prompts: self.prompts.differs_from(&old.prompts),
            resources: self.resources.differs_from(&old.resources)
                || self.templates.differs_from(&old.templates)
                || self.skills.differs_from(&old.skills),
        }
    }

    /// Name, version and other facts about the server.
    pub fn server_info(&self) -> &Implementation {
        &self.settings.server_info
    }

    /// Enabled features.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Whether all of `features` are enabled.
    #[doc(hidden)]
    pub const fn has_features(&self, features: Features) -> bool {
        self.features.contains(features)
    }

    /// Fails with method not found (-32601) if `method` belongs to a feature that is not enabled.
    ///
    /// Source: MCP 2026-07-28, basic/index, "Error Codes"; the same in all revisions.
    #[doc(hidden)]
    #[inline]
    pub fn check_method(&self, method: Method) -> Result<(), Error> {
        if self.has_features(Features::required_by(method)) {
            return Ok(());
        }
        Err(Error::method_not_found(method.as_str()))
    }

    /// The tools in order of registration, which is the order of `tools/list`.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.entries()
    }

    /// Whether a tool requires scopes of its callers.
    #[inline]
    pub(crate) const fn requires_scopes(&self) -> bool {
        self.requires_scopes
    }

    /// The prompts in the order of `prompts/list`.
    pub fn prompts(&self) -> impl ExactSizeIterator<Item = &Prompt> {
        self.prompts.entries()
    }

    /// The resources in the order of `resources/list`.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &Resource> {
        self.resources.entries()
    }

    /// The resource templates in the order of `resources/templates/list`.
    pub fn templates(&self) -> impl ExactSizeIterator<Item = &ResourceTemplate> {
        self.templates.entries()
    }

    /// The skills in the order of `skills/list`.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Skill> {
        self.skills.entries()
    }

    /// The tool called `name`, or `None`. Cost: about ten nanoseconds.
    #[inline]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.find(name)
    }

    /// The prompt called `name`, or `None`.
    pub fn prompt(&self, name: &str) -> Option<&Prompt> {
        self.prompts.find(name)
    }

    /// The resource with this URI, or `None`; templates are not matched. Scheme and host are
    /// compared without regard to case, `file:/a` and `file://localhost/a` are `file:///a`, and
    /// characters may be percent-encoded (RFC 3986, section 6.2.2).
    pub fn resource(&self, uri: &str) -> Option<&Resource> {
        self.resources.find_uri(uri)
    }

    /// The URI by which rules name what `uri` reads: that of the resource if there is one,
    /// otherwise the normalized one.
    pub(crate) fn resolved_uri<'u>(&'u self, uri: &'u str) -> Cow<'u, str> {
        match self.resource(uri) {
            Some(resource) => Cow::Borrowed(resource.uri()),
            None => uri::normalize(uri),
        }
    }

    /// The resource template with this URI template, compared as by [`Catalog::resource`], or
    /// `None`.
    pub fn template(&self, uri_template: &str) -> Option<&ResourceTemplate> {
        self.templates.find_uri(uri_template)
    }

    /// The tool that `call` names. Fails with invalid params (-32602) if it does not exist.
    ///
    /// Source: MCP 2026-07-28, server/tools, "Error Handling"; the same in all revisions.
    #[doc(hidden)]
    #[inline]
    pub fn find_called_tool(&self, call: &CallToolRequest<'_>) -> Result<&Tool, Error> {
        self.tool(call.name()).ok_or_else(|| Error::unknown_name("tool", call.name()))
    }

    /// Encoded result of `initialize` for a client that requests `revision`. 2026-07-28 has no
    /// `initialize`; a client that requests it is offered the latest revision that has.
    ///
    /// Source: MCP 2025-11-25, basic/lifecycle, "Version Negotiation".
    #[doc(hidden)]
    pub const fn initialize_result(&self, revision: Revision) -> &Bytes {
        &self.encoded_results.initialize[revision as usize]
    }

    /// Encoded result of `server/discover`.
    ///
    /// Source: MCP 2026-07-28, server/discover.
    #[doc(hidden)]
    pub const fn discover_result(&self) -> &Bytes {
        &self.encoded_results.discover
    }

    /// Encoded result of `tools/list`: the page of `cursor`, or the first page.
    ///
    /// Fails with invalid params (-32602) if this catalog did not issue the cursor.
    ///
    /// Source: MCP 2026-07-28, server/tools, "Listing Tools"; server/utilities/pagination.
    #[doc(hidden)]
    pub fn tools_page(&self, revision: Revision, cursor: Option<&str>) -> Result<&Bytes, Error> {
        self.tools.page(revision, cursor)
    }

    /// Encoded result of `prompts/list`; see [`Catalog::tools_page`].
    #[doc(hidden)]
    pub fn prompts_page(&self, revision: Revision, cursor: Option<&str>) -> Result<&Bytes, Error> {
        self.prompts.page(revision, cursor)
    }

    /// Encoded result of `resources/list`; see [`Catalog::tools_page`].
    #[doc(hidden)]
    pub fn resources_page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Result<&Bytes, Error> {
        self.resources.page(revision, cursor)
    }

    /// Encoded result of `resources/templates/list`; see [`Catalog::tools_page`].
    #[doc(hidden)]
    pub fn templates_page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Result<&Bytes, Error> {
        self.templates.page(revision, cursor)
    }

    /// Encoded result of `skills/list`; see [`Catalog::tools_page`].
    #[doc(hidden)]
    pub fn skills_page(&self, revision: Revision, cursor: Option<&str>) -> Result<&Bytes, Error> {
        self.skills.page(revision, cursor)
    }

    /// Appends the result of `skills/get`; `is_public` is whether every caller may read the skill.
    ///
    /// Fails with invalid params (-32602) if no skill has this URI.
    ///
    /// Source: SEP-2640.
    #[doc(hidden)]
    pub fn write_skill(
        &self,
        revision: Revision,
        uri: &str,
        is_public: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(skill) = self.skills.find_encoded(uri, revision) else {
            return Err(Error::unknown_name("skill", uri));
        };
        let private = CacheHint { ttl_ms: 0, is_public: false };
        let hint = if is_public { self.settings.cache_hint() } else { private };
        model::write_skill_result(out, skill, hint, self.result_suffix(revision));
        Ok(())
    }

    /// Appends the result of `resources/directory/read`: the files and folders in a folder of
    /// skills that the caller may read, for which `is_listed` returns `true`; `is_public` is
    /// whether they are the same for every caller.
    ///
    /// Fails with invalid params (-32602) if there are none.
    ///
    /// Source: SEP-2640.
    #[doc(hidden)]
    pub fn write_directory(
        &self,
        revision: Revision,
        uri: &str,
        is_public: bool,
        is_listed: impl Fn(&str) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let folder = format!("{}/", uri.strip_suffix('/').unwrap_or(uri));
        let files = self.skills.entries().flat_map(Skill::files);
        let files = files.filter_map(|file| Some((file, file.uri.strip_prefix(&folder)?)));
        let files = files.filter(|(_, path)| !path.starts_with('/'));
        let mut children = BTreeMap::new();
        for (file, path) in files.filter(|(file, _)| is_listed(&file.uri)) {
            if let Some((name, _)) = path.split_once('/') {
                let encoded = || Bytes::from(encode_folder(&folder, name));
                children.entry(name).or_insert_with(encoded);
            } else {
                let encoded = self.resources.find_encoded(&file.uri, revision);
                children.extend(encoded.map(|encoded| (path, encoded.clone())));
            }
        }
        if children.is_empty() {
            return Err(Error::unknown_name("folder of skills", uri));
        }
        let private = CacheHint { ttl_ms: 0, is_public: false };
        let hint = if is_public { self.settings.cache_hint() } else { private };
        let (kind, suffix) = (ListKind::Resources, self.result_suffix(revision));
        model::write_list_result(out, revision, kind, children.values(), None, hint, suffix);
        Ok(())
    }

    /// Appends the result of a list for a caller who may use only the entries for which `is_listed`
    /// returns `true`, by name or URI; see [`Catalog::tools_page`].
    #[doc(hidden)]
    pub fn write_list_page(
        &self,
        method: Method,
        revision: Revision,
        cursor: Option<&str>,
        is_listed: impl Fn(&str) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let suffix = self.result_suffix(revision);
        match method {
            Method::ToolsList => self.tools.write_page(revision, cursor, is_listed, suffix, out),
            Method::PromptsList => {
                self.prompts.write_page(revision, cursor, is_listed, suffix, out)
            }
            Method::ResourcesList => {
                self.resources.write_page(revision, cursor, is_listed, suffix, out)
            }
            Method::ResourcesTemplatesList => {
                self.templates.write_page(revision, cursor, is_listed, suffix, out)
            }
            Method::SkillsList => self.skills.write_page(revision, cursor, is_listed, suffix, out),
            other => Err(Error::method_not_found(other.as_str())),
        }
    }

    /// Last members of every result of `revision`: `resultType` and `_meta` with the server's
    /// identity since 2026-07-28, empty before. For `CallToolResultWriter::open`.
    #[doc(hidden)]
    pub fn result_suffix(&self, revision: Revision) -> &[u8] {
        &self.encoded_results.result_suffixes[revision as usize]
    }
}

/// Encodes a folder as a resource; `parent` ends with a slash.
fn encode_folder(parent: &str, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.string("uri", &format!("{parent}{name}")).string("name", name);
    object.string("mimeType", "inode/directory");
    object.close();
    out
}

impl fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Catalog")
            .field("tools", &self.tools)
            .field("prompts", &self.prompts)
            .field("resources", &self.resources)
            .field("templates", &self.templates)
            .field("skills", &self.skills)
            .finish_non_exhaustive()
    }
}
