//! What a catalog offers, as bits.

use std::fmt;
use std::ops::BitOr;

use crate::protocol::era::Method;
use crate::protocol::message::{
    PromptsCapability, ResourcesCapability, ServerCapabilities, TasksCapability, ToolsCapability,
};

/// Features of a server. A method of a feature that is not offered is unknown (-32601).
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Features(u16);

impl Features {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// `completion/complete`.
    pub const COMPLETIONS: Self = Self(1);
    /// Changes of lists are told. Offered unless it is withheld.
    pub const LIST_CHANGED: Self = Self(1 << 1);
    /// Log messages are sent, and `logging/setLevel` is served. Offered unless it is withheld.
    pub const LOGGING: Self = Self(1 << 2);
    /// Prompts, listed and made.
    pub const PROMPTS: Self = Self(1 << 3);
    /// Resources and templates, listed and read.
    pub const RESOURCES: Self = Self(1 << 4);
    /// Changes of single resources are told to whoever subscribed to them. Offered with resources
    /// unless it is withheld.
    pub const SUBSCRIPTIONS: Self = Self(1 << 5);
    /// Calls of tools may become tasks.
    pub const TASKS: Self = Self(1 << 6);
    /// Tools, listed and called. Offered unless it is withheld: a list of nothing is an answer too.
    pub const TOOLS: Self = Self(1 << 7);

    /// Whether all of `others` are among these.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but for `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// What `method` belongs to.
    pub const fn of(method: Method) -> Self {
        match method {
            Method::CompletionComplete => Self::COMPLETIONS,
            Method::LoggingSetLevel => Self::LOGGING,
            Method::PromptsGet | Method::PromptsList => Self::PROMPTS,
            Method::ResourcesList | Method::ResourcesRead | Method::ResourcesTemplatesList => {
                Self::RESOURCES
            }
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => Self::SUBSCRIPTIONS,
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

    /// As `initialize` and `server/discover` say it.
    pub(super) fn capabilities(self) -> ServerCapabilities {
        let list_changed = self.has(Self::LIST_CHANGED);
        let subscribe = self.has(Self::SUBSCRIPTIONS);
        ServerCapabilities {
            tools: self.has(Self::TOOLS).then_some(ToolsCapability { list_changed }),
            prompts: self.has(Self::PROMPTS).then_some(PromptsCapability { list_changed }),
            resources: self
                .has(Self::RESOURCES)
                .then_some(ResourcesCapability { subscribe, list_changed }),
            completions: self.has(Self::COMPLETIONS),
            logging: self.has(Self::LOGGING),
            tasks: self.has(Self::TASKS).then_some(TasksCapability { list: true, cancel: true }),
            ..ServerCapabilities::default()
        }
    }
}

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
