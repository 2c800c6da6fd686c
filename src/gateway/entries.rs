//! The entries of the catalog that stand for what the upstreams offer.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;

use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;
use corelane_protocol::json::write;
use corelane_protocol::model::{Icon, IconTheme};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::declared::{Entry, Fingerprint, Item, Key};
use crate::gateway::call::{Outgoing, Upstream, call_of, forward};
use crate::gateway::lists::{Definition, Lists, requires_task};
use crate::gateway::names::{EntryId, NameMap, NameRules, UpstreamEntries};
use crate::gateway::output::MissingMembers;
use crate::gateway::status::ToolCounts;
use crate::gateway::tool_search::{SearchedTool, ToolSearch, search_tools};
use crate::server::options::ExposeMode;
use crate::service::{
    Catalog, ForwardedCompletion, HandlerError, HandlerOutput, Prompt, PromptArgument,
    PromptArguments, RequestContext, Resource, ResourceBuilder, ResourceTemplate, TaskSupport,
    Tool, ToolAnnotations,
};

/// Key of `_meta` that states where an entry comes from: the name of its upstream.
const SOURCE_KEY: &str = "corelane/source";
/// Characters of a name in the log.
const NAME_CHARACTERS_SHOWN: usize = 100;

/// One upstream with its lists, if they are known.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub upstream: &'a Arc<Upstream>,
    pub lists: Option<&'a Lists>,
}

/// The entries of all upstreams, and why others are left out.
#[derive(Debug, Default)]
pub struct Merged {
    pub entries: Vec<Entry>,
    pub left_out: Vec<String>,
}

impl Merged {
    /// Merges the lists of `sources`, in their order.
    pub fn new(sources: &[Source<'_>], rules: NameRules, expose: ExposeMode) -> Self {
        let mut merged = Self::default();
        merged.add_tools(sources, rules, expose);
        merged.add_prompts(sources, rules);
        merged.add_resources(sources);
        merged
    }

    fn add_tools(&mut self, sources: &[Source<'_>], rules: NameRules, expose: ExposeMode) {
        let names = self.assign("tool", sources, rules, |lists| &lists.tools);
        let mut searched = Vec::new();
        for named in named(sources, &names, |lists| &lists.tools) {
            let Named { upstream, definition, own, offered, .. } = &named;
            match tool_of(&named) {
                Ok(tool) => {
                    if expose != ExposeMode::All {
                        searched.push(SearchedTool {
                            offered: Arc::clone(offered),
                            own: (*own).into(),
                            definition: (*definition).clone(),
                            upstream: Arc::clone(upstream),
                            counts: ToolCounts::default(),
                        });
                    }
                    if expose != ExposeMode::Search
                        || upstream.pool.settings.selection.is_pinned(own)
                    {
                        self.push(upstream, definition, Item::Tool(Box::new(tool)));
                    }
                }
                Err(why) => self.leave_out(upstream, "tool", own, &why),
            }
        }
        if expose != ExposeMode::All {
            self.add_search(searched);
        }
    }

    /// Adds the tools that search. They are other ones when a tool has changed.
    fn add_search(&mut self, searched: Vec<SearchedTool>) {
        let mut hash = Sha256::new();
        for SearchedTool { offered, own, definition, upstream, .. } in &searched {
            for part in [&**offered, &**own, upstream.name()] {
                hash.update(part.len().to_le_bytes());
                hash.update(part.as_bytes());
            }
            hash.update(serde_json::to_vec(definition).unwrap_or_default());
        }
        let fingerprint: Fingerprint = hash.finalize().into();
        let tools = search_tools(&Arc::new(ToolSearch::new(searched))).map(|tool| {
            let item = Item::Tool(Box::new(tool));
            Entry { fingerprint, rate_rule: None, runner: None, item }
        });
        // Before tools of upstreams with the same names.
        self.entries.splice(0..0, tools);
    }

    fn add_prompts(&mut self, sources: &[Source<'_>], rules: NameRules) {
        let names = self.assign("prompt", sources, rules, |lists| &lists.prompts);
        for named in named(sources, &names, |lists| &lists.prompts) {
            match prompt_of(&named) {
                Ok(prompt) => self.push(named.upstream, named.definition, Item::Prompt(prompt)),
                Err(why) => self.leave_out(named.upstream, "prompt", named.own, &why),
            }
        }
    }

    /// URIs stay as they are, but those that several upstreams have get the name of theirs before
    /// them: `name+uri`.
    fn add_resources(&mut self, sources: &[Source<'_>]) {
        for kind in [ResourceKind::Resource, ResourceKind::Template] {
            let listed = |source: &Source<'_>| -> HashSet<String> {
                let definitions = source.lists.into_iter().flat_map(|it| kind.definitions(it));
                definitions.map(|it| text(it, kind.key()).to_owned()).collect()
            };
            let mut upstreams: HashMap<String, usize> = HashMap::new();
            for uri in sources.iter().flat_map(listed) {
                *upstreams.entry(uri).or_default() += 1;
            }
            for source in sources {
                self.add_resources_of(*source, kind, &upstreams);
            }
        }
    }

    /// Adds the resources or templates of one upstream; `upstreams` has the number of upstreams
    /// that have a URI.
    fn add_resources_of(
        &mut self,
        Source { upstream, lists }: Source<'_>,
        kind: ResourceKind,
        upstreams: &HashMap<String, usize>,
    ) {
        let Some(lists) = lists else { return };
        let mut known = HashSet::new();
        for definition in kind.definitions(lists) {
            let own = text(definition, kind.key());
            if !known.insert(own) {
                self.leave_out(upstream, kind.name(), own, "the upstream lists it twice");
                continue;
            }
            let is_shared = upstreams.get(own).is_some_and(|count| *count > 1);
            let offered = if is_shared {
                format!("{}+{own}", upstream.name()).into()
            } else {
                Cow::Borrowed(own)
            };
            let completes = lists.server.capabilities.completions;
            match resource_of(upstream, definition, kind, &offered, completes) {
                Ok(item) => self.push(upstream, definition, item),
                Err(why) => self.leave_out(upstream, kind.name(), own, &why),
            }
        }
    }

    /// Assigns the names of a list. What is left out is noted.
    fn assign<'s>(
        &mut self,
        kind: &str,
        sources: &[Source<'s>],
        rules: NameRules,
        list: impl Fn(&'s Lists) -> &'s Vec<Definition>,
    ) -> NameMap {
        let names: Vec<Vec<&str>> = sources
            .iter()
            .map(|it| it.lists.into_iter().flat_map(&list).map(|it| text(it, "name")).collect())
            .collect();
        let entries: Vec<UpstreamEntries<'_>> = sources
            .iter()
            .zip(&names)
            .map(|(source, names)| UpstreamEntries {
                upstream: source.upstream.name(),
                names,
                renames: &source.upstream.pool.settings.selection.renames,
            })
            .collect();
        let names = rules.assign(&entries);
        for left_out in &names.left_out {
            self.left_out.push(format!("{kind}: {left_out}"));
        }
        for unused in &names.unused_renames {
            self.left_out.push(format!("{kind}: {unused}"));
        }
        names
    }

    fn push(&mut self, upstream: &Upstream, definition: &Definition, item: Item) {
        let mut entry = Entry { fingerprint: [0; 32], rate_rule: None, runner: None, item };
        entry.fingerprint = fingerprint(upstream, definition, &entry.key());
        self.entries.push(entry);
    }

    fn leave_out(&mut self, upstream: &Upstream, kind: &str, name: &str, why: &str) {
        let upstream = upstream.name();
        let name: String = name.chars().take(NAME_CHARACTERS_SHOWN).collect();
        self.left_out.push(format!("{kind} `{name}` of upstream `{upstream}`: {why}"));
    }
}

/// The keys of all entries of a catalog.
pub fn keys_of(catalog: &Catalog) -> BTreeSet<Key> {
    let key = |kind: &'static str, name: &str| Key { kind, name: name.to_owned() };
    let tools = catalog.tools().map(|it| key("tool", it.name()));
    let prompts = catalog.prompts().map(|it| key("prompt", it.name()));
    let resources = catalog.resources().map(|it| key("resource", it.uri()));
    let templates = catalog.templates().map(|it| key("resource template", it.uri_template()));
    tools.chain(prompts).chain(resources).chain(templates).collect()
}

/// An item of a list with its name.
struct Named<'s> {
    upstream: &'s Arc<Upstream>,
    definition: &'s Definition,
    /// Its name at the upstream.
    own: &'s str,
    /// Its name in the catalog.
    offered: Arc<str>,
    /// Whether the upstream completes arguments.
    completes: bool,
}

/// The items of a list that have names.
fn named<'s>(
    sources: &[Source<'s>],
    names: &NameMap,
    list: impl Fn(&'s Lists) -> &'s Vec<Definition>,
) -> Vec<Named<'s>> {
    let mut named = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let Some(lists) = source.lists else { continue };
        for (entry, definition) in list(lists).iter().enumerate() {
            let id = EntryId { upstream: index, entry };
            let Some(offered) = names.offered(id) else { continue };
            named.push(Named {
                upstream: source.upstream,
                definition,
                own: text(definition, "name"),
                offered: Arc::clone(offered),
                completes: lists.server.capabilities.completions,
            });
        }
    }
    named
}

/// Sets what definitions of all kinds have.
macro_rules! described {
    ($builder:expr, $definition:expr, $upstream:expr) => {{
        let (mut builder, definition) = ($builder, $definition);
        if let Some(title) = optional_text(definition, "title") {
            builder = builder.title(title);
        }
        if let Some(description) = optional_text(definition, "description") {
            builder = builder.description(description);
        }
        for icon in icons_of(definition) {
            builder = builder.icon(icon);
        }
        for (key, value) in meta_of(definition) {
            builder = builder.meta(key, value.clone());
        }
        builder.meta(SOURCE_KEY, $upstream.name())
    }};
}

fn tool_of(named: &Named<'_>) -> Result<Tool, Cow<'static, str>> {
    let Named { upstream, definition, own, offered, .. } = named;
    let mut builder = Tool::new(&**offered);
    builder = described!(builder, definition, upstream);
    if let Some(schema) = definition.get("inputSchema") {
        builder = builder.input_schema(schema.clone());
    }
    if let Some(schema) = definition.get("outputSchema") {
        builder = builder.output_schema(schema.clone());
    }
    if let Some(annotations) = definition.get("annotations").and_then(Value::as_object) {
        builder = builder.annotations(annotations_of(annotations));
    }
    for scope in &upstream.pool.settings.selection.scopes {
        builder = builder.require_scope(scope.as_str());
    }
    let (upstream, own) = (Arc::clone(upstream), Box::<str>::from(*own));
    let (counts, requires_task) = (ToolCounts::default(), requires_task(definition));
    let builder = builder.task_support(TaskSupport::Optional).deferred_task();
    let tool = builder.forward(move |arguments: Vec<u8>, ctx| {
        let tool = Some(counts.of(&upstream.pool.status.calls, &own));
        let outgoing = Outgoing { tool, ..call_of(&own, &arguments, requires_task) };
        forward(Arc::clone(&upstream), outgoing, ctx)
    });
    tool.checked()
}

fn prompt_of(named: &Named<'_>) -> Result<Prompt, Cow<'static, str>> {
    let Named { upstream, definition, own, offered, completes } = named;
    let mut builder = Prompt::new(&**offered);
    builder = described!(builder, definition, upstream);
    let arguments = definition.get("arguments").and_then(Value::as_array);
    for argument in arguments.into_iter().flatten().filter_map(Value::as_object) {
        builder = builder.argument(argument_of(argument));
    }
    let completer = completes.then(|| completer(upstream, "ref/prompt", "name", own));
    let (upstream, own) = (Arc::clone(upstream), Box::<str>::from(*own));
    let prompt = builder.forward(move |arguments: PromptArguments<'static>, ctx| {
        let mut params = b"{\"name\":".to_vec();
        write::string(&mut params, &own);
        params.extend_from_slice(b",\"arguments\":{");
        for (index, (name, value)) in arguments.iter().enumerate() {
            if index > 0 {
                params.push(b',');
            }
            write::string(&mut params, name);
            params.push(b':');
            write::string(&mut params, value);
        }
        params.extend_from_slice(b"}}");
        let outgoing = Outgoing {
            method: Method::PromptsGet,
            target: own.clone(),
            params,
            missing: MissingMembers::ResultType,
            requires_task: false,
            tool: None,
        };
        forward(Arc::clone(&upstream), outgoing, ctx)
    });
    let prompt = match completer {
        Some(completer) => prompt.forward_completions(completer),
        None => prompt,
    };
    prompt.checked()
}

fn argument_of(argument: &Definition) -> PromptArgument {
    let mut made = PromptArgument::new(text(argument, "name"));
    if let Some(title) = optional_text(argument, "title") {
        made = made.title(title);
    }
    if let Some(description) = optional_text(argument, "description") {
        made = made.description(description);
    }
    if argument.get("required").and_then(Value::as_bool) == Some(true) {
        made = made.required();
    }
    made
}

/// Resources or templates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ResourceKind {
    Resource,
    Template,
}

impl ResourceKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Template => "resource template",
        }
    }

    /// The member of a definition with its URI or template.
    const fn key(self) -> &'static str {
        match self {
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    const fn definitions(self, lists: &Lists) -> &Vec<Definition> {
        match self {
            Self::Resource => &lists.resources,
            Self::Template => &lists.templates,
        }
    }
}

/// Makes a resource or a template whose URI in the catalog is `offered`.
fn resource_of(
    upstream: &Arc<Upstream>,
    definition: &Definition,
    kind: ResourceKind,
    offered: &str,
    completes: bool,
) -> Result<Item, Cow<'static, str>> {
    let (name, own) = (text(definition, "name"), text(definition, kind.key()));
    // Before the URI of the upstream.
    let prefix = offered.len() - own.len();
    if kind == ResourceKind::Resource {
        let resource = build_resource(Resource::new(offered, name), upstream, definition, prefix);
        return resource.checked().map(Item::Resource);
    }
    let mut builder = ResourceTemplate::new(offered, name);
    if completes {
        builder = builder.forward_completions(completer(upstream, "ref/resource", "uri", own));
    }
    build_resource(builder, upstream, definition, prefix).checked().map(Item::Template)
}

/// Passes on completions of what `reference_type` and the member `key`, which is `name`, refer to.
fn completer(
    upstream: &Arc<Upstream>,
    reference_type: &'static str,
    key: &'static str,
    name: &str,
) -> impl Fn(ForwardedCompletion, RequestContext) -> Forwarding + Send + Sync + 'static {
    let (upstream, name) = (Arc::clone(upstream), Box::<str>::from(name));
    move |completion, ctx| {
        let ForwardedCompletion { argument, value, others } = completion;
        let mut params = json!({
            "ref": { "type": reference_type, key: name },
            "argument": { "name": argument, "value": value },
        });
        if !others.is_empty() {
            let others = others
                .into_iter()
                .map(|(name, value)| (String::from(name), Value::String(value.into())));
            let others: Map<String, Value> = others.collect();
            params["context"] = json!({ "arguments": others });
        }
        let outgoing = Outgoing {
            method: Method::CompletionComplete,
            target: name.clone(),
            params: params.to_string().into_bytes(),
            missing: MissingMembers::ResultType,
            requires_task: false,
            tool: None,
        };
        Box::pin(forward(Arc::clone(&upstream), outgoing, ctx))
    }
}

/// A request that is passed on.
type Forwarding = Pin<Box<dyn Future<Output = Result<HandlerOutput, HandlerError>>>>;

fn build_resource<T>(
    mut builder: ResourceBuilder<T>,
    upstream: &Arc<Upstream>,
    definition: &Definition,
    prefix: usize,
) -> T {
    builder = described!(builder, definition, upstream);
    if let Some(mime_type) = optional_text(definition, "mimeType") {
        builder = builder.mime_type(mime_type);
    }
    let upstream = Arc::clone(upstream);
    builder.forward(move |read, ctx| {
        let own = read.uri().get(prefix..).unwrap_or_else(|| read.uri());
        read_resource(Arc::clone(&upstream), own, read.uri(), ctx)
    })
}

/// Passes on a read of the resource `own` of an upstream, whose URI in the catalog is `offered`.
fn read_resource(
    upstream: Arc<Upstream>,
    own: &str,
    offered: &str,
    ctx: RequestContext,
) -> Forwarding {
    if upstream.pool.settings.selection.hides(own) {
        let error = Error::resource_not_found(offered, ctx.client().revision);
        return Box::pin(std::future::ready(Err(error.into())));
    }
    let mut params = b"{\"uri\":".to_vec();
    write::string(&mut params, own);
    params.push(b'}');
    let (method, missing) = (Method::ResourcesRead, MissingMembers::CacheHints);
    let target = own.into();
    let outgoing = Outgoing { method, target, params, missing, requires_task: false, tool: None };
    Box::pin(forward(upstream, outgoing, ctx))
}

fn annotations_of(annotations: &Definition) -> ToolAnnotations {
    let hint = |key| annotations.get(key).and_then(Value::as_bool);
    ToolAnnotations {
        title: optional_text(annotations, "title").map(Box::from),
        read_only_hint: hint("readOnlyHint"),
        destructive_hint: hint("destructiveHint"),
        idempotent_hint: hint("idempotentHint"),
        open_world_hint: hint("openWorldHint"),
    }
}

/// The icons of a definition that clients load: those with `https:` and `data:` URIs.
fn icons_of(definition: &Definition) -> impl Iterator<Item = Icon> {
    let icons = definition.get("icons").and_then(Value::as_array).into_iter().flatten();
    icons.filter_map(Value::as_object).filter_map(|given| {
        let src = text(given, "src");
        if !src.starts_with("https:") && !src.starts_with("data:") {
            return None;
        }
        let mut icon = Icon::new(src.to_owned());
        icon.mime_type = optional_text(given, "mimeType").map(|it| it.to_owned().into());
        let sizes = given.get("sizes").and_then(Value::as_array).into_iter().flatten();
        icon.sizes = sizes.filter_map(Value::as_str).map(|it| it.to_owned().into()).collect();
        icon.theme = match text(given, "theme") {
            "light" => Some(IconTheme::Light),
            "dark" => Some(IconTheme::Dark),
            _ => None,
        };
        Some(icon)
    })
}

fn meta_of(definition: &Definition) -> impl Iterator<Item = (&String, &Value)> {
    definition.get("_meta").and_then(Value::as_object).into_iter().flatten()
}

fn optional_text<'d>(definition: &'d Definition, key: &str) -> Option<&'d str> {
    definition.get(key).and_then(Value::as_str)
}

fn text<'d>(definition: &'d Definition, key: &str) -> &'d str {
    optional_text(definition, key).unwrap_or_default()
}

/// What decides whether an entry differs from another one with the same key.
fn fingerprint(upstream: &Upstream, definition: &Definition, key: &Key) -> Fingerprint {
    let mut hash = Sha256::new();
    for part in [upstream.name(), key.kind, &key.name] {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    // Serializing a map of JSON values does not fail.
    hash.update(serde_json::to_vec(definition).unwrap_or_default());
    hash.finalize().into()
}
