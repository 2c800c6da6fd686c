//! The catalog: everything that a server offers, and every answer that is the same for all callers.
//!
//! What it keeps true: a catalog never changes. It is built once, checked as a whole and shared by
//! every shard; a change is the next edition ([`Catalog::edit`]), which shares what stayed the
//! same. Constant answers are framed when it is built, so that giving one costs a copy of its
//! bytes. It knows no connection and runs nothing that has to wait.

mod name;

mod page;

mod features;

mod shelf;

mod builder;

mod serving;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use self::builder::CatalogBuilder;
pub use self::features::Features;

use self::builder::Settings;
use self::shelf::Shelf;
use crate::protocol::era::Method;
use crate::protocol::error::Error;
use crate::protocol::message::ServerInfo;
use crate::protocol::revision::Revision;
use crate::service::call::Call;
use crate::service::prompt::Prompt;
use crate::service::resource::{Resource, ResourceTemplate};
use crate::service::tool::Tool;

/// What a server offers. Immutable: share it in an `Arc` between shards.
pub struct Catalog {
    about: Settings,
    features: Features,
    tools: Arc<Shelf<Tool>>,
    prompts: Arc<Shelf<Prompt>>,
    resources: Arc<Shelf<Resource>>,
    templates: Arc<Shelf<ResourceTemplate>>,
    bodies: Bodies,
}

/// Bodies that are the same for all callers of one revision, by revision.
struct Bodies {
    initialize: [Bytes; Revision::ALL.len()],
    result_suffixes: [Bytes; Revision::ALL.len()],
    discover: Bytes,
}

/// Which lists read differently than in another edition.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The list of resources, or that of resource templates.
    pub resources: bool,
}

impl Changes {
    /// Whether every list reads as before.
    pub const fn is_empty(self) -> bool {
        !(self.tools || self.prompts || self.resources)
    }
}

impl Catalog {
    /// Begins a catalog for the server `info`.
    pub fn builder(info: ServerInfo) -> CatalogBuilder {
        CatalogBuilder::new(info)
    }

    /// Begins the next edition, with all that this one has. It offers every feature that this one
    /// offers, even where nothing is left of it, as clients were told when they came; see
    /// [`CatalogBuilder::withhold`].
    ///
    /// ```
    /// use corelane::protocol::message::ServerInfo;
    /// use corelane::service::{Catalog, NoArguments, Tool};
    ///
    /// let first = Catalog::builder(ServerInfo::new("shop", "1")).build()?;
    /// let tool = Tool::new("open").inline(|_: NoArguments, answer| {
    ///     answer.text("Come in.");
    ///     Ok(())
    /// });
    /// let second = first.edit().tool(tool).build()?;
    /// assert!(second.changes_from(&first).tools);
    /// let third = second.edit().remove_tool("open").build()?;
    /// assert!(third.changes_from(&first).is_empty());
    /// # Ok::<(), corelane::service::CatalogError>(())
    /// ```
    pub fn edit(&self) -> CatalogBuilder {
        CatalogBuilder::of(self)
    }

    /// Which lists a client of some revision would read differently than in `old`.
    pub fn changes_from(&self, old: &Self) -> Changes {
        Changes {
            tools: self.tools.differs_from(&old.tools),
            prompts: self.prompts.differs_from(&old.prompts),
            resources: self.resources.differs_from(&old.resources)
                || self.templates.differs_from(&old.templates),
        }
    }

    /// Who offers all this.
    pub fn info(&self) -> &ServerInfo {
        &self.about.info
    }

    /// What is offered.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Whether all of `features` are offered.
    pub const fn has(&self, features: Features) -> bool {
        self.features.has(features)
    }

    /// Fails with method not found (-32601) where `method` belongs to a feature that is not
    /// offered.
    ///
    /// Source: 2026-07-28, basic/index, "Error Codes"; the same in all revisions.
    #[inline]
    pub fn serves(&self, method: Method) -> Result<(), Error> {
        if self.has(Features::of(method)) {
            return Ok(());
        }
        Err(Error::method_not_found(method.as_str()))
    }

    /// The tools in the order in which they were registered, which is the order of every list.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.entries()
    }

    /// The prompts in the order of their list.
    pub fn prompts(&self) -> impl ExactSizeIterator<Item = &Prompt> {
        self.prompts.entries()
    }

    /// The resources in the order of their list.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &Resource> {
        self.resources.entries()
    }

    /// The resource templates in the order of their list.
    pub fn templates(&self) -> impl ExactSizeIterator<Item = &ResourceTemplate> {
        self.templates.entries()
    }

    /// The tool called `name`, where there is one. Cost: some ten nanoseconds.
    #[inline]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.find(name)
    }

    /// The prompt called `name`, where there is one.
    pub fn prompt(&self, name: &str) -> Option<&Prompt> {
        self.prompts.find(name)
    }

    /// The resource under `uri`, where there is one; templates are not looked at.
    pub fn resource(&self, uri: &str) -> Option<&Resource> {
        self.resources.find(uri)
    }

    /// The resource template `uri_template`, where there is one.
    pub fn template(&self, uri_template: &str) -> Option<&ResourceTemplate> {
        self.templates.find(uri_template)
    }

    /// The tool that `call` asks for. Fails with invalid params (-32602) where there is none.
    ///
    /// Source: 2026-07-28, server/tools, "Error Handling"; the same in all revisions.
    #[inline]
    pub fn called(&self, call: &Call<'_>) -> Result<&Tool, Error> {
        self.tool(call.name()).ok_or_else(|| Error::invalid_params("unknown tool"))
    }

    /// The result of `initialize` that agrees on `revision`. The modern revision has no
    /// `initialize`; a client that names it there is offered the latest one that has.
    ///
    /// Source: 2025-11-25, basic/lifecycle, "Version Negotiation".
    pub const fn initialize_body(&self, revision: Revision) -> &Bytes {
        &self.bodies.initialize[revision as usize]
    }

    /// The result of `server/discover`.
    ///
    /// Source: 2026-07-28, server/discover.
    pub const fn discover_body(&self) -> &Bytes {
        &self.bodies.discover
    }

    /// The result of `tools/list`: the page that `cursor` leads to, the first one without it.
    ///
    /// Fails with invalid params (-32602) where this catalog did not issue the cursor.
    ///
    /// Source: 2026-07-28, server/tools, "Listing Tools"; server/utilities/pagination.
    pub fn tools_page(&self, revision: Revision, cursor: Option<&str>) -> Result<&Bytes, Error> {
        self.tools.page(revision, cursor)
    }

    /// The result of `prompts/list`; see [`Catalog::tools_page`].
    pub fn prompts_page(&self, revision: Revision, cursor: Option<&str>) -> Result<&Bytes, Error> {
        self.prompts.page(revision, cursor)
    }

    /// The result of `resources/list`; see [`Catalog::tools_page`].
    pub fn resources_page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Result<&Bytes, Error> {
        self.resources.page(revision, cursor)
    }

    /// The result of `resources/templates/list`; see [`Catalog::tools_page`].
    pub fn templates_page(
        &self,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Result<&Bytes, Error> {
        self.templates.page(revision, cursor)
    }

    /// What ends every result of `revision`: empty before 2026-07-28, from then on the members
    /// that name its kind and the server. For `Answer::open`.
    pub fn result_suffix(&self, revision: Revision) -> &[u8] {
        &self.bodies.result_suffixes[revision as usize]
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Catalog")
            .field("tools", &self.tools)
            .field("prompts", &self.prompts)
            .field("resources", &self.resources)
            .field("templates", &self.templates)
            .finish_non_exhaustive()
    }
}
