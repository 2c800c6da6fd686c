//! Builder of catalogs: validates all entries and encodes the constant results of every revision.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corelane_protocol::model::{self, CacheHint, Implementation};
use corelane_protocol::revision::Revision;

use crate::service::CatalogError;
use crate::service::catalog::features::Features;
use crate::service::catalog::registry::{PageParams, RegistryBuilder};
use crate::service::catalog::{Catalog, EncodedResults};
use crate::service::prompt::Prompt;
use crate::service::resource::{Resource, ResourceTemplate};
use crate::service::skill::Skill;
use crate::service::tool::{TaskSupport, Tool};

/// Builder of a catalog: of the first one, or of the next version.
///
/// Existing entries keep their position; new ones are appended. The new version shares what it does
/// not change with the previous one.
#[derive(Debug)]
#[must_use = "call `build` to create the catalog"]
pub struct CatalogBuilder {
    settings: CatalogSettings,
    tools: RegistryBuilder<Tool>,
    prompts: RegistryBuilder<Prompt>,
    resources: RegistryBuilder<Resource>,
    templates: RegistryBuilder<ResourceTemplate>,
    skills: RegistryBuilder<Skill>,
}

/// Settings of a catalog beside its entries.
#[derive(Clone, Debug)]
pub(super) struct CatalogSettings {
    pub(super) server_info: Arc<Implementation>,
    instructions: Option<Box<str>>,
    page_size: usize,
    cache_ttl: Duration,
    /// Features that are enabled even if nothing is registered for them.
    enabled_features: Features,
}

impl CatalogBuilder {
    pub(super) fn new(info: Implementation) -> Self {
        let settings = CatalogSettings {
            server_info: Arc::new(info),
            instructions: None,
            page_size: PAGE_SIZE_DEFAULT,
            cache_ttl: CACHE_TTL_DEFAULT,
            enabled_features: ENABLED_FEATURES_DEFAULT,
        };
        Self {
            settings,
            tools: RegistryBuilder::new(),
            prompts: RegistryBuilder::new(),
            resources: RegistryBuilder::new(),
            templates: RegistryBuilder::new(),
            skills: RegistryBuilder::new(),
        }
    }

    pub(super) fn from_catalog(catalog: &Catalog) -> Self {
        let mut settings = catalog.settings.clone();
        // Clients received these features when they connected. If a list becomes empty, it is
        // still listed, and the removal is a list change to notify.
        settings.enabled_features = settings.enabled_features.with(catalog.features);
        Self {
            settings,
            tools: RegistryBuilder::from_registry(&catalog.tools),
            prompts: RegistryBuilder::from_registry(&catalog.prompts),
            resources: RegistryBuilder::from_registry(&catalog.resources),
            templates: RegistryBuilder::from_registry(&catalog.templates),
            skills: RegistryBuilder::from_registry(&catalog.skills),
        }
    }

    /// Appends a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Appends tools.
    pub fn tools(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        tools.into_iter().fold(self, Self::tool)
    }

    /// Removes the tool `name`, if it exists. Calls in flight end with it.
    pub fn remove_tool(mut self, name: &str) -> Self {
        self.tools.remove(name);
        self
    }

    /// Removes the tools of all these names, in one pass over the list.
    pub fn remove_tools(mut self, names: &HashSet<String>) -> Self {
        self.tools.remove_all(names);
        self
    }

    /// Replaces tools by those with the same name; see [`CatalogBuilder::replace_resources`].
    pub fn replace_tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.replace_all(tools);
        self
    }

    /// Whether a tool is called `name`.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.contains(name)
    }

    /// Appends a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Appends prompts.
    pub fn prompts(self, prompts: impl IntoIterator<Item = Prompt>) -> Self {
        prompts.into_iter().fold(self, Self::prompt)
    }

    /// Removes the prompt `name`, if it exists.
    pub fn remove_prompt(mut self, name: &str) -> Self {
        self.prompts.remove(name);
        self
    }

    /// Removes the prompts of all these names, in one pass over the list.
    pub fn remove_prompts(mut self, names: &HashSet<String>) -> Self {
        self.prompts.remove_all(names);
        self
    }

    /// Replaces prompts by those with the same name; see [`CatalogBuilder::replace_resources`].
    pub fn replace_prompts(mut self, prompts: impl IntoIterator<Item = Prompt>) -> Self {
        self.prompts.replace_all(prompts);
        self
    }

    /// Whether a prompt is called `name`.
    pub fn has_prompt(&self, name: &str) -> bool {
        self.prompts.contains(name)
    }

    /// Appends a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Appends resources.
    pub fn resources(self, resources: impl IntoIterator<Item = Resource>) -> Self {
        resources.into_iter().fold(self, Self::resource)
    }

    /// Removes the resource with this URI, if it exists.
    pub fn remove_resource(mut self, uri: &str) -> Self {
        self.resources.remove(uri);
        self
    }

    /// Removes the resources of all these URIs, in one pass over the list.
    pub fn remove_resources(mut self, uris: &HashSet<String>) -> Self {
        self.resources.remove_all(uris);
        self
    }

    /// Replaces resources by those with the same URI and appends the others, in one pass over the
    /// list. Cursors stay valid if no URI is new.
    pub fn replace_resources(mut self, resources: impl IntoIterator<Item = Resource>) -> Self {
        self.resources.replace_all(resources);
        self
    }

    /// Whether a resource has this URI.
    pub fn has_resource(&self, uri: &str) -> bool {
        self.resources.contains(uri)
    }

    /// Appends a resource template. A URI that matches no resource is read by the first template
    /// that matches it.
    pub fn template(mut self, template: ResourceTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Appends resource templates.
    pub fn templates(self, templates: impl IntoIterator<Item = ResourceTemplate>) -> Self {
        templates.into_iter().fold(self, Self::template)
    }

    /// Whether a resource template has this URI template.
    pub fn has_template(&self, uri_template: &str) -> bool {
        self.templates.contains(uri_template)
    }

    /// Removes the resource template `uri_template`, if it exists.
    pub fn remove_template(mut self, uri_template: &str) -> Self {
        self.templates.remove(uri_template);
        self
    }

    /// Removes the templates of all these URI templates, in one pass over the list.
    pub fn remove_templates(mut self, uri_templates: &HashSet<String>) -> Self {
        self.templates.remove_all(uri_templates);
        self
    }

    /// Replaces templates by those with the same URI template; see
    /// [`CatalogBuilder::replace_resources`].
    pub fn replace_templates(
        mut self,
        templates: impl IntoIterator<Item = ResourceTemplate>,
    ) -> Self {
        self.templates.replace_all(templates);
        self
    }

    /// Appends a skill. Its files are resources, which are appended by themselves.
    pub fn skill(mut self, skill: Skill) -> Self {
        self.skills.push(skill);
        self
    }

    /// Appends skills.
    pub fn skills(self, skills: impl IntoIterator<Item = Skill>) -> Self {
        skills.into_iter().fold(self, Self::skill)
    }

    /// Removes the skills of all these URIs, in one pass over the list. Their files stay.
    pub fn remove_skills(mut self, uris: &HashSet<String>) -> Self {
        self.skills.remove_all(uris);
        self
    }

    /// Replaces skills by those with the same URI; see [`CatalogBuilder::replace_resources`].
    pub fn replace_skills(mut self, skills: impl IntoIterator<Item = Skill>) -> Self {
        self.skills.replace_all(skills);
        self
    }

    /// Instructions for the model on how to use this server, sent with `initialize` and
    /// `server/discover`. Default none.
    pub fn instructions(mut self, instructions: impl Into<Box<str>>) -> Self {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// Maximum number of entries on a page of any list, at least 1. Default 100. Cost: a response
    /// holds a page, some hundred bytes per tool with its schemas; smaller pages mean more round
    /// trips.
    pub fn page_size(mut self, page_size: usize) -> Self {
        self.settings.page_size = page_size;
        self.invalidate_pages();
        self
    }

    /// How long clients may cache lists and discovery (`ttlMs`, since 2026-07-28). Default five
    /// minutes. Cost: for that long a client may not see the entries of a newer version.
    pub fn cache_ttl(mut self, ttl: Duration) -> Self {
        self.settings.cache_ttl = ttl;
        self.invalidate_pages();
        self
    }

    /// Enables features for which nothing is registered, such as prompts that are added later.
    /// Features with registered entries are always enabled.
    ///
    /// [`Features::TOOLS`], [`Features::LIST_CHANGED`] and [`Features::LOGGING`] are enabled by
    /// default, and [`Features::SUBSCRIPTIONS`] if there are resources, so that log messages and
    /// change notifications of handlers reach clients. See [`CatalogBuilder::disable_features`].
    pub const fn enable_features(mut self, features: Features) -> Self {
        self.settings.enabled_features = self.settings.enabled_features.with(features);
        self
    }

    /// Disables features for which nothing is registered, for servers whose lists never change or
    /// that never log. Features with registered entries stay enabled. Cost: notifications of a
    /// disabled feature are not sent.
    pub const fn disable_features(mut self, features: Features) -> Self {
        self.settings.enabled_features = self.settings.enabled_features.without(features);
        self
    }

    /// Validates new entries and encodes the constant results that changed.
    ///
    /// Fails with the first problem found. Cost: some microseconds per new entry (some hundred for
    /// a complex schema), and a copy of the encoded entries of each list that changed.
    pub fn build(self) -> Result<Catalog, CatalogError> {
        if self.settings.page_size == 0 {
            return Err(CatalogError::ZeroPageSize);
        }
        let features = self.features();
        let Self { settings, tools, prompts, resources, templates, skills } = self;
        let encoded = settings.encode_results(features);
        let params = PageParams {
            page_size: settings.page_size,
            cache_hint: settings.cache_hint(),
            result_suffixes: &encoded.result_suffixes,
        };
        let tools = tools.build(&params)?;
        let requires_scopes = tools.entries().any(|tool| !tool.required_scopes().is_empty());
        Ok(Catalog {
            tools,
            requires_scopes,
            prompts: prompts.build(&params)?,
            resources: resources.build(&params)?,
            templates: templates.build(&params)?,
            skills: skills.build(&params)?,
            settings,
            features,
            encoded_results: encoded,
        })
    }

    /// Features enabled explicitly, and those with registered entries.
    fn features(&self) -> Features {
        let completes = self.prompts.any(Prompt::has_completer)
            || self.templates.any(ResourceTemplate::has_completer);
        let tasks = self.tools.any(|tool| tool.task_support() != TaskSupport::Forbidden);
        let has_resources = !self.resources.is_empty() || !self.templates.is_empty();
        let has_skills = !self.skills.is_empty();
        let registered = [
            (Features::PROMPTS, !self.prompts.is_empty()),
            // Skills are read as resources.
            (Features::RESOURCES, has_resources || has_skills),
            (Features::SKILLS, has_skills),
            (Features::COMPLETIONS, completes),
            (Features::TASKS, tasks),
            (Features::TOOLS, !self.tools.is_empty()),
        ];
        let registered = registered.into_iter().filter(|(_, is_registered)| *is_registered);
        let all = registered
            .fold(self.settings.enabled_features, |features, (feature, _)| features.with(feature));
        // A server without resources has nothing to subscribe to.
        if all.contains(Features::RESOURCES) { all } else { all.without(Features::SUBSCRIPTIONS) }
    }

    /// Forces the pages of every list to be encoded again.
    fn invalidate_pages(&mut self) {
        self.tools.invalidate_pages();
        self.prompts.invalidate_pages();
        self.resources.invalidate_pages();
        self.templates.invalidate_pages();
        self.skills.invalidate_pages();
    }
}

impl CatalogSettings {
    /// Encodes the results that do not depend on entries.
    fn encode_results(&self, features: Features) -> EncodedResults {
        let (info, instructions) = (&*self.server_info, self.instructions.as_deref());
        let capabilities = features.capabilities();
        let initialize = |revision: Revision| {
            let revision = revision.min(Revision::LATEST_LEGACY);
            encode(|out| {
                model::write_initialize_result(out, revision, capabilities, info, instructions);
            })
        };
        let discover = encode(|out| {
            model::write_discover_result(out, capabilities, info, instructions, self.cache_hint());
        });
        let suffix = |revision| model::result_suffix(revision, info).into();
        EncodedResults {
            initialize: Revision::ALL.map(initialize),
            result_suffixes: Revision::ALL.map(suffix),
            discover,
        }
    }

    /// Shared caches are allowed, because lists are the same for all clients.
    pub(super) fn cache_hint(&self) -> CacheHint {
        let ttl_ms = u64::try_from(self.cache_ttl.as_millis()).unwrap_or(u64::MAX);
        CacheHint { ttl_ms, is_public: true }
    }
}

/// Encodes what `write` appends, without spare capacity, because it lives as long as the catalog.
fn encode(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    write(&mut out);
    out.into_boxed_slice().into()
}

const ENABLED_FEATURES_DEFAULT: Features = Features::TOOLS
    .with(Features::LIST_CHANGED.with(Features::LOGGING.with(Features::SUBSCRIPTIONS)));

const PAGE_SIZE_DEFAULT: usize = 100;

const CACHE_TTL_DEFAULT: Duration = Duration::from_mins(5);
