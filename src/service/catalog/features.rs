//! Features of a catalog as bits, and the server capabilities they imply.

use std::fmt;
use std::ops::BitOr;

use corelane_protocol::eras::{Method, SKILLS_EXTENSION};
use corelane_protocol::model::{
    PromptsCapability, ResourcesCapability, ServerCapabilities, TasksCapability, ToolsCapability,
};

/// Features of a server. A method of a feature that is not enabled is not found (-32601).
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Features(u16);

impl Features {
    /// No features.
    pub const NONE: Self = Self(0);
    /// `completion/complete`.
    pub const COMPLETIONS: Self = Self(1);
    /// `notifications/…/list_changed` are sent. Enabled by default.
    pub const LIST_CHANGED: Self = Self(1 << 1);
    /// `notifications/message` is sent and `logging/setLevel` is served. Enabled by default.
    pub const LOGGING: Self = Self(1 << 2);
    /// `prompts/list` and `prompts/get`.
    pub const PROMPTS: Self = Self(1 << 3);
    /// `resources/list`, `resources/templates/list` and `resources/read`.
    pub const RESOURCES: Self = Self(1 << 4);
    /// `skills/list`, `skills/get` and `resources/directory/read` (the extension
    /// `io.modelcontextprotocol/skills`, since 2026-07-28).
    pub const SKILLS: Self = Self(1 << 8);
    /// `resources/subscribe` and `notifications/resources/updated`. Enabled by default if there are
    /// resources.
    pub const SUBSCRIPTIONS: Self = Self(1 << 5);
    /// Tool calls may become tasks.
    pub const TASKS: Self = Self(1 << 6);
    /// `tools/list` and `tools/call`. Enabled by default: an empty list is a valid result.
    pub const TOOLS: Self = Self(1 << 7);

    /// Whether all of `others` are included.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The union with `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The difference: these without `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The feature that `method` belongs to; [`Features::NONE`] for methods of every server.
    #[doc(hidden)]
    pub const fn required_by(method: Method) -> Self {
        match method {
            Method::CompletionComplete => Self::COMPLETIONS,
            Method::LoggingSetLevel => Self::LOGGING,
            Method::PromptsGet | Method::PromptsList => Self::PROMPTS,
            Method::ResourcesList | Method::ResourcesRead | Method::ResourcesTemplatesList => {
                Self::RESOURCES
            }
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => Self::SUBSCRIPTIONS,
            Method::ResourcesDirectoryRead | Method::SkillsGet | Method::SkillsList => Self::SKILLS,
            Method::TasksCancel
            | Method::TasksGet
            | Method::TasksList
            | Method::TasksResult
            | Method::TasksUpdate => Self::TASKS,
            Method::ToolsCall | Method::ToolsList => Self::TOOLS,
            Method::Discover | Method::Initialize | Method::Ping | Method::SubscriptionsListen => {
                Self::NONE
            }
        }
    }

    /// The capabilities for `initialize` and `server/discover`.
    pub(super) fn capabilities(self) -> ServerCapabilities {
        let list_changed = self.contains(Self::LIST_CHANGED);
        let subscribe = self.contains(Self::SUBSCRIPTIONS);
        ServerCapabilities {
            tools: self.contains(Self::TOOLS).then_some(ToolsCapability { list_changed }),
            prompts: self.contains(Self::PROMPTS).then_some(PromptsCapability { list_changed }),
            resources: self
                .contains(Self::RESOURCES)
                .then_some(ResourcesCapability { subscribe, list_changed }),
            completions: self.contains(Self::COMPLETIONS),
            logging: self.contains(Self::LOGGING),
            tasks: self
                .contains(Self::TASKS)
                .then_some(TasksCapability { list: true, cancel: true }),
            extensions: if self.contains(Self::SKILLS) { SKILLS } else { &[] },
        }
    }
}

/// The Skills extension, with `resources/directory/read`.
const SKILLS: &[(&str, &str)] = &[(SKILLS_EXTENSION, r#"{"directoryRead":true}"#)];

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        self.with(others)
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Features({:#b})", self.0)
    }
}
