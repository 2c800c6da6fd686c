//! What this server offers, as each revision says it.
//!
//! Source: `ServerCapabilities` in the schema of each revision; the Tasks extension 2026-07-28.

use crate::protocol::era::TASKS_EXTENSION;
use crate::protocol::json::ObjectWriter;
use crate::protocol::revision::Revision;

/// What this server offers. What a revision does not know is left out there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ServerCapabilities {
    /// It has tools.
    pub tools: Option<ToolsCapability>,
    /// It has prompts.
    pub prompts: Option<PromptsCapability>,
    /// It has resources.
    pub resources: Option<ResourcesCapability>,
    /// It completes arguments (said since 2025-03-26).
    pub completions: bool,
    /// It sends log messages.
    pub logging: bool,
    /// It turns calls of tools into tasks: the core tasks of 2025-11-25, the extension of
    /// 2026-07-28.
    pub tasks: Option<TasksCapability>,
    /// Extensions with their settings, a JSON object each (2026-07-28 and later); the one of tasks
    /// is written for `tasks`.
    pub extensions: &'static [(&'static str, &'static str)],
}

/// How this server offers its tools.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToolsCapability {
    /// It says when the list changes.
    pub list_changed: bool,
}

/// How this server offers its prompts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PromptsCapability {
    /// It says when the list changes.
    pub list_changed: bool,
}

/// How this server offers its resources.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResourcesCapability {
    /// It says when a resource changes, to those who want to hear it.
    pub subscribe: bool,
    /// It says when the list changes.
    pub list_changed: bool,
}

/// How this server offers tasks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TasksCapability {
    /// `tasks/list` is served (2025-11-25).
    pub list: bool,
    /// `tasks/cancel` is served; the extension has it always.
    pub cancel: bool,
}

impl ServerCapabilities {
    /// Appends the object as `revision` knows it.
    pub fn write(self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut object = ObjectWriter::open(out);
        if self.completions && dialect.completions_capability {
            object.empty("completions");
        }
        if dialect.extensions && (self.tasks.is_some() || !self.extensions.is_empty()) {
            let mut extensions = object.object("extensions");
            if self.tasks.is_some() {
                extensions.empty(TASKS_EXTENSION);
            }
            for (id, settings) in self.extensions {
                extensions.encoded(id, settings.as_bytes());
            }
            extensions.close();
        }
        if self.logging {
            object.empty("logging");
        }
        if let Some(prompts) = self.prompts {
            flags(&mut object, "prompts", &[("listChanged", prompts.list_changed)]);
        }
        if let Some(resources) = self.resources {
            let said =
                [("subscribe", resources.subscribe), ("listChanged", resources.list_changed)];
            flags(&mut object, "resources", &said);
        }
        if let Some(tasks) = self.tasks
            && dialect.core_tasks
        {
            tasks.write(object.object("tasks"));
        }
        if let Some(tools) = self.tools {
            flags(&mut object, "tools", &[("listChanged", tools.list_changed)]);
        }
        object.close();
    }
}

impl TasksCapability {
    fn write(self, mut object: ObjectWriter<'_>) {
        if self.cancel {
            object.empty("cancel");
        }
        if self.list {
            object.empty("list");
        }
        let mut requests = object.object("requests");
        let mut tools = requests.object("tools");
        tools.empty("call");
        tools.close();
        requests.close();
        object.close();
    }
}

/// Writes an object that says `true` for each flag that is set.
fn flags(object: &mut ObjectWriter<'_>, key: &str, flags: &[(&str, bool)]) {
    let mut inner = object.object(key);
    for (name, _) in flags.iter().filter(|(_, set)| *set) {
        inner.boolean(name, true);
    }
    inner.close();
}
