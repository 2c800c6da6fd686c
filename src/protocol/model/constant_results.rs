//! Results that are the same for every request, which the catalog encodes in advance: those of
//! `initialize`, `server/discover` and the lists; and the server capabilities in them.
//!
//! MCP schema: `InitializeResult`, `DiscoverResult`, `ServerCapabilities` and `List…Result` of each
//! revision; 2026-07-28 `server/utilities/caching`; the Tasks extension 2026-07-28.

use super::implementation::{Implementation, result_suffix};
use crate::eras::TASKS_EXTENSION;
use crate::json::{Object, ObjectWriter, Value, write};
use crate::revision::Revision;

/// How long and by whom a modern client may cache a result (`ttlMs`, `cacheScope`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheHint {
    /// Lifetime in milliseconds from receipt; 0 disables caching.
    pub ttl_ms: u64,
    /// Whether shared caches may serve it to other users (`cacheScope`: `public` or `private`).
    pub is_public: bool,
}

impl CacheHint {
    /// Appends both members, each with a leading comma.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","ttlMs":"#);
        write::unsigned(out, self.ttl_ms);
        let scope: &[u8] =
            if self.is_public { br#","cacheScope":"public""# } else { CACHE_SCOPE_PRIVATE };
        out.extend_from_slice(scope);
    }
}

/// Appends an `InitializeResult` for a legacy `revision`.
pub fn write_initialize_result(
    out: &mut Vec<u8>,
    revision: Revision,
    capabilities: ServerCapabilities,
    info: &Implementation,
    instructions: Option<&str>,
) {
    out.extend_from_slice(br#"{"protocolVersion":"#);
    write::string(out, revision.as_str());
    out.extend_from_slice(br#","capabilities":"#);
    capabilities.write(out, revision);
    out.extend_from_slice(br#","serverInfo":"#);
    info.write(out, revision);
    write_instructions(out, instructions);
    out.push(b'}');
}

/// Appends a `DiscoverResult`. It lists every supported revision, newest first: the modern ones are
/// used with `_meta`, the others with `initialize`.
pub fn write_discover_result(
    out: &mut Vec<u8>,
    capabilities: ServerCapabilities,
    info: &Implementation,
    instructions: Option<&str>,
    cache: CacheHint,
) {
    out.extend_from_slice(br#"{"supportedVersions":["#);
    for (index, revision) in Revision::ALL.iter().rev().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write::string(out, revision.as_str());
    }
    out.extend_from_slice(br#"],"capabilities":"#);
    capabilities.write(out, Revision::LATEST);
    write_instructions(out, instructions);
    cache.write(out);
    out.extend_from_slice(&result_suffix(Revision::LATEST, info));
    out.push(b'}');
}

/// The kind of a list result.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ListKind {
    /// `prompts/list`
    Prompts,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `resources/list`
    Resources,
    /// `skills/list`
    Skills,
    /// `tools/list`
    Tools,
}

/// Appends one page of a list: `items` are objects encoded for `revision`, and `next_cursor` is
/// `None` on the last page. `suffix` is the [`result_suffix`] of `revision`.
pub fn write_list_result<T: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    revision: Revision,
    listed: ListKind,
    items: impl IntoIterator<Item = T>,
    next_cursor: Option<&str>,
    cache: CacheHint,
    suffix: &[u8],
) {
    out.extend_from_slice(match listed {
        ListKind::Prompts => br#"{"prompts":["#,
        ListKind::ResourceTemplates => br#"{"resourceTemplates":["#,
        ListKind::Resources => br#"{"resources":["#,
        ListKind::Skills => br#"{"skills":["#,
        ListKind::Tools => br#"{"tools":["#,
    });
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item.as_ref());
    }
    out.push(b']');
    if let Some(cursor) = next_cursor {
        out.extend_from_slice(br#","nextCursor":"#);
        write::string(out, cursor);
    }
    if revision.dialect().cache_hints {
        cache.write(out);
    }
    out.extend_from_slice(suffix);
    out.push(b'}');
}

/// Appends the result of `skills/get`: `skill` is its object as in `skills/list`. `suffix` is the
/// [`result_suffix`] of a modern revision.
pub fn write_skill_result(out: &mut Vec<u8>, skill: &[u8], cache: CacheHint, suffix: &[u8]) {
    out.extend_from_slice(br#"{"skill":"#);
    out.extend_from_slice(skill);
    cache.write(out);
    out.extend_from_slice(suffix);
    out.push(b'}');
}

fn write_instructions(out: &mut Vec<u8>, instructions: Option<&str>) {
    if let Some(instructions) = instructions {
        out.extend_from_slice(br#","instructions":"#);
        write::string(out, instructions);
    }
}

const CACHE_SCOPE_PRIVATE: &[u8] = br#","cacheScope":"private""#;

/// Capabilities of the server. Those that a revision does not define are omitted from its object.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ServerCapabilities {
    /// Tools are offered.
    pub tools: Option<ToolsCapability>,
    /// Prompts are offered.
    pub prompts: Option<PromptsCapability>,
    /// Resources are offered.
    pub resources: Option<ResourcesCapability>,
    /// `completion/complete` is served (declared since 2025-03-26).
    pub completions: bool,
    /// Log messages are sent.
    pub logging: bool,
    /// Tool calls may run as tasks: core tasks of 2025-11-25, the Tasks extension of 2026-07-28.
    pub tasks: Option<TasksCapability>,
    /// Extensions and their settings, a JSON object each (2026-07-28 and later). The Tasks
    /// extension is declared by `tasks`.
    pub extensions: &'static [(&'static str, &'static str)],
}

/// Options of the `tools` capability.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToolsCapability {
    /// `notifications/tools/list_changed` is sent.
    pub list_changed: bool,
}

/// Options of the `prompts` capability.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PromptsCapability {
    /// `notifications/prompts/list_changed` is sent.
    pub list_changed: bool,
}

/// Options of the `resources` capability.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResourcesCapability {
    /// `notifications/resources/updated` is sent for subscribed resources.
    pub subscribe: bool,
    /// `notifications/resources/list_changed` is sent.
    pub list_changed: bool,
}

/// Options of the `tasks` capability.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TasksCapability {
    /// `tasks/list` is served (2025-11-25).
    pub list: bool,
    /// `tasks/cancel` is served; the extension always serves it.
    pub cancel: bool,
}

impl ServerCapabilities {
    /// Reads the object of a server. Members that are unknown or not objects are ignored.
    /// Extensions other than tasks are not read.
    pub fn read(object: Object<'_>) -> Self {
        let member = |name| object.find(name).and_then(Value::as_object);
        let flag =
            |options: Object<'_>, name| options.find(name).and_then(Value::as_bool) == Some(true);
        let extension = member("extensions").and_then(|declared| declared.find(TASKS_EXTENSION));
        let extension = extension.filter(|settings| !settings.is_null());
        let core_tasks = member("tasks").map(|tasks| TasksCapability {
            list: tasks.find("list").is_some(),
            cancel: tasks.find("cancel").is_some(),
        });
        Self {
            tools: member("tools")
                .map(|tools| ToolsCapability { list_changed: flag(tools, "listChanged") }),
            prompts: member("prompts")
                .map(|prompts| PromptsCapability { list_changed: flag(prompts, "listChanged") }),
            resources: member("resources").map(|resources| ResourcesCapability {
                subscribe: flag(resources, "subscribe"),
                list_changed: flag(resources, "listChanged"),
            }),
            completions: member("completions").is_some(),
            logging: member("logging").is_some(),
            tasks: extension
                .map_or(core_tasks, |_| Some(TasksCapability { list: false, cancel: true })),
            extensions: &[],
        }
    }

    /// Appends the object as `revision` defines it.
    pub fn write(self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut object = ObjectWriter::open(out);
        if self.completions && dialect.completions_capability {
            object.empty_object("completions");
        }
        if dialect.extensions && (self.tasks.is_some() || !self.extensions.is_empty()) {
            let mut extensions = object.object("extensions");
            if self.tasks.is_some() {
                extensions.empty_object(TASKS_EXTENSION);
            }
            for (id, settings) in self.extensions {
                extensions.raw(id, settings.as_bytes());
            }
            extensions.close();
        }
        if self.logging {
            object.empty_object("logging");
        }
        if let Some(prompts) = self.prompts {
            write_flags(&mut object, "prompts", &[("listChanged", prompts.list_changed)]);
        }
        if let Some(resources) = self.resources {
            let options =
                [("subscribe", resources.subscribe), ("listChanged", resources.list_changed)];
            write_flags(&mut object, "resources", &options);
        }
        if let Some(tasks) = self.tasks
            && dialect.core_tasks
        {
            tasks.write(object.object("tasks"));
        }
        if let Some(tools) = self.tools {
            write_flags(&mut object, "tools", &[("listChanged", tools.list_changed)]);
        }
        object.close();
    }
}

impl TasksCapability {
    fn write(self, mut object: ObjectWriter<'_>) {
        if self.cancel {
            object.empty_object("cancel");
        }
        if self.list {
            object.empty_object("list");
        }
        let mut requests = object.object("requests");
        let mut tools = requests.object("tools");
        tools.empty_object("call");
        tools.close();
        requests.close();
        object.close();
    }
}

/// Writes an object with `true` for each flag that is set.
fn write_flags(object: &mut ObjectWriter<'_>, key: &str, flags: &[(&str, bool)]) {
    let mut inner = object.object(key);
    for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
        inner.boolean(name, true);
    }
    inner.close();
}
