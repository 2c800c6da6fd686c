//! From entries to a catalog: checked as a whole, framed for every revision.
//!
//! What it keeps true: a catalog that was built answers every client; what could be wrong with it
//! was said by [`CatalogBuilder::build`], with the name of the entry and the remedy.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::protocol::message::{self, CacheHint, ServerInfo};
use crate::protocol::revision::Revision;
use crate::service::catalog::features::Features;
use crate::service::catalog::shelf::{Binding, Draft};
use crate::service::catalog::{Bodies, Catalog};
use crate::service::problem::CatalogError;
use crate::service::prompt::Prompt;
use crate::service::resource::{Resource, ResourceTemplate};
use crate::service::tool::{TaskSupport, Tool};

/// A catalog that still takes entries: a first one, or the next edition of one that is offered.
///
/// Entries that stay keep their place; new ones come last. An edition shares with the one before
/// whatever it does not change.
#[derive(Debug)]
#[must_use = "a catalog begins to exist with `build`"]
pub struct CatalogBuilder {
    about: Settings,
    tools: Draft<Tool>,
    prompts: Draft<Prompt>,
    resources: Draft<Resource>,
    templates: Draft<ResourceTemplate>,
}

/// What a catalog says of itself, beside its entries.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) info: Arc<ServerInfo>,
    instructions: Option<Box<str>>,
    page_length_max: usize,
    fresh_for: Duration,
    /// What is offered whatever is registered.
    offered: Features,
}

impl CatalogBuilder {
    pub(super) fn new(info: ServerInfo) -> Self {
        let about = Settings {
            info: Arc::new(info),
            instructions: None,
            page_length_max: PAGE_LENGTH_MAX_DEFAULT,
            fresh_for: FRESH_FOR_DEFAULT,
            offered: OFFERED_DEFAULT,
        };
        Self {
            about,
            tools: Draft::new(),
            prompts: Draft::new(),
            resources: Draft::new(),
            templates: Draft::new(),
        }
    }

    pub(super) fn of(catalog: &Catalog) -> Self {
        let mut about = catalog.about.clone();
        // Clients were told so when they came: a list that becomes empty stays a list, and that it
        // did is a change to be told.
        about.offered = about.offered.with(catalog.features);
        Self {
            about,
            tools: Draft::of(&catalog.tools),
            prompts: Draft::of(&catalog.prompts),
            resources: Draft::of(&catalog.resources),
            templates: Draft::of(&catalog.templates),
        }
    }

    /// Adds a tool at the end of the list.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools at the end of the list.
    pub fn tools(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        tools.into_iter().fold(self, Self::tool)
    }

    /// Takes out the tool called `name`; nothing happens where there is none. Calls in flight end
    /// with it.
    pub fn remove_tool(mut self, name: &str) -> Self {
        self.tools.remove(name);
        self
    }

    /// Whether there is a tool called `name`.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.has(name)
    }

    /// Adds a prompt at the end of the list.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Adds prompts at the end of the list.
    pub fn prompts(self, prompts: impl IntoIterator<Item = Prompt>) -> Self {
        prompts.into_iter().fold(self, Self::prompt)
    }

    /// Takes out the prompt called `name`; nothing happens where there is none.
    pub fn remove_prompt(mut self, name: &str) -> Self {
        self.prompts.remove(name);
        self
    }

    /// Takes out the prompts of all these names, at the cost of one walk over the list.
    pub fn remove_prompts(mut self, names: &HashSet<String>) -> Self {
        self.prompts.remove_all(names);
        self
    }

    /// Puts each prompt in the place of the one of its name; see
    /// [`CatalogBuilder::replace_resources`].
    pub fn replace_prompts(mut self, prompts: impl IntoIterator<Item = Prompt>) -> Self {
        self.prompts.replace_all(prompts);
        self
    }

    /// Whether there is a prompt called `name`.
    pub fn has_prompt(&self, name: &str) -> bool {
        self.prompts.has(name)
    }

    /// Adds a resource at the end of the list.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds resources at the end of the list.
    pub fn resources(self, resources: impl IntoIterator<Item = Resource>) -> Self {
        resources.into_iter().fold(self, Self::resource)
    }

    /// Takes out the resource under `uri`; nothing happens where there is none.
    pub fn remove_resource(mut self, uri: &str) -> Self {
        self.resources.remove(uri);
        self
    }

    /// Takes out the resources under all these URIs, at the cost of one walk over the list.
    pub fn remove_resources(mut self, uris: &HashSet<String>) -> Self {
        self.resources.remove_all(uris);
        self
    }

    /// Puts each resource in the place of the one under its URI, at the end where there is none: at
    /// the cost of one walk over the list. Cursors that clients hold stay good where no URI is new.
    pub fn replace_resources(mut self, resources: impl IntoIterator<Item = Resource>) -> Self {
        self.resources.replace_all(resources);
        self
    }

    /// Whether there is a resource under `uri`.
    pub fn has_resource(&self, uri: &str) -> bool {
        self.resources.has(uri)
    }

    /// Adds a resource template at the end of the list. A URI that is no resource is read by the
    /// first template that it fits.
    pub fn template(mut self, template: ResourceTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Adds resource templates at the end of the list.
    pub fn templates(self, templates: impl IntoIterator<Item = ResourceTemplate>) -> Self {
        templates.into_iter().fold(self, Self::template)
    }

    /// Takes out the resource template `uri_template`; nothing happens where there is none.
    pub fn remove_template(mut self, uri_template: &str) -> Self {
        self.templates.remove(uri_template);
        self
    }

    /// How to use this server, for the model: sent with `initialize` and `server/discover`. Default
    /// nothing.
    pub fn instructions(mut self, instructions: impl Into<Box<str>>) -> Self {
        self.about.instructions = Some(instructions.into());
        self
    }

    /// The most entries on one page of any list, at least 1. Default 100. Cost: one answer holds a
    /// page, with the schemas of tools some hundred bytes an entry; shorter pages mean more round
    /// trips for the client.
    pub fn page_length_max(mut self, page_length_max: usize) -> Self {
        self.about.page_length_max = page_length_max;
        self.unbind();
        self
    }

    /// How long a client may take lists and discovery for fresh (`ttlMs`, from 2026-07-28 on).
    /// Default five minutes. Cost: for that long it may not see the entries of a newer server.
    pub fn fresh_for(mut self, span: Duration) -> Self {
        self.about.fresh_for = span;
        self.unbind();
        self
    }

    /// Offers features for which nothing is registered, such as prompts that will be there later.
    /// What is registered is offered in any case.
    ///
    /// Log messages and changes of lists are offered by default, and changes of single resources
    /// where there are resources: what a handler logs, or a program changes, would otherwise reach
    /// nobody. A client that wants none of it pays nothing; see [`CatalogBuilder::withhold`].
    pub const fn offer(mut self, features: Features) -> Self {
        self.about.offered = self.about.offered.with(features);
        self
    }

    /// Does not offer features for which nothing is registered: a server whose lists never change
    /// and that logs nothing may spare its clients the question. What is registered is offered all
    /// the same. Cost: what is changed or logged is told to nobody.
    pub const fn withhold(mut self, features: Features) -> Self {
        self.about.offered = self.about.offered.without(features);
        self
    }

    /// Checks everything that is new and frames the constant answers that changed.
    ///
    /// Cost: each new entry some microseconds (a complex schema some hundred), each list that
    /// changed a copy of its framed entries.
    pub fn build(self) -> Result<Catalog, CatalogError> {
        if self.about.page_length_max == 0 {
            return Err(CatalogError::EmptyPages);
        }
        let features = self.features();
        let Self { about, tools, prompts, resources, templates } = self;
        let bodies = about.frame(features);
        let binding = Binding {
            length_max: about.page_length_max,
            cache: about.cache(),
            suffixes: &bodies.result_suffixes,
        };
        Ok(Catalog {
            tools: tools.finish(&binding)?,
            prompts: prompts.finish(&binding)?,
            resources: resources.finish(&binding)?,
            templates: templates.finish(&binding)?,
            about,
            features,
            bodies,
        })
    }

    /// What is offered: what was reserved, and what is there.
    fn features(&self) -> Features {
        let completes = self.prompts.any(Prompt::is_completed)
            || self.templates.any(ResourceTemplate::is_completed);
        let tasks = self.tools.any(|tool| tool.task_support() != TaskSupport::Forbidden);
        let there = [
            (Features::PROMPTS, !self.prompts.is_empty()),
            (Features::RESOURCES, !self.resources.is_empty() || !self.templates.is_empty()),
            (Features::COMPLETIONS, completes),
            (Features::TASKS, tasks),
            (Features::TOOLS, !self.tools.is_empty()),
        ];
        let there = there.into_iter().filter(|(_, is_there)| *is_there);
        let all = there.fold(self.about.offered, |features, (feature, _)| features.with(feature));
        // Nobody can subscribe to a resource of a server that has none.
        if all.has(Features::RESOURCES) { all } else { all.without(Features::SUBSCRIPTIONS) }
    }

    /// The pages of every list must be framed anew.
    fn unbind(&mut self) {
        self.tools.unbind();
        self.prompts.unbind();
        self.resources.unbind();
        self.templates.unbind();
    }
}

impl Settings {
    /// Frames what does not depend on entries.
    fn frame(&self, features: Features) -> Bodies {
        let (info, instructions) = (&*self.info, self.instructions.as_deref());
        let capabilities = features.capabilities();
        let initialize = |revision: Revision| {
            let revision = revision.min(Revision::LATEST_LEGACY);
            framed(|out| {
                message::initialize_result(out, revision, capabilities, info, instructions);
            })
        };
        let discover = framed(|out| {
            message::discover_result(out, capabilities, info, instructions, self.cache());
        });
        let suffix = |revision| message::result_suffix(revision, info).into();
        Bodies {
            initialize: Revision::ALL.map(initialize),
            result_suffixes: Revision::ALL.map(suffix),
            discover,
        }
    }

    /// Nothing here depends on who asks, so that a cache may give it to anybody.
    fn cache(&self) -> CacheHint {
        let fresh_ms = u64::try_from(self.fresh_for.as_millis()).unwrap_or(u64::MAX);
        CacheHint { fresh_ms, shared: true }
    }
}

/// What `write` appends, without spare room: it is kept as long as the catalog.
fn framed(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    write(&mut out);
    out.into_boxed_slice().into()
}

const OFFERED_DEFAULT: Features = Features::TOOLS
    .with(Features::LIST_CHANGED.with(Features::LOGGING.with(Features::SUBSCRIPTIONS)));

const PAGE_LENGTH_MAX_DEFAULT: usize = 100;

const FRESH_FOR_DEFAULT: Duration = Duration::from_mins(5);
