//! Server capabilities as each revision declares them.
//!
//! MCP schema: `ServerCapabilities` of each revision; the Tasks extension 2026-07-28.

use crate::eras::TASKS_EXTENSION;
use crate::json::{Object, ObjectWriter, Value};
use crate::revision::Revision;

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
