//! What the server declared in the handshake.

use corelane_protocol::eras::Method;
use corelane_protocol::json::{Object, Value};
use corelane_protocol::model::{Implementation, ServerCapabilities};
use corelane_protocol::revision::Revision;

/// Identifier of the Skills extension.
const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Revision, capabilities and identity of the server, from `server/discover` or `initialize`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The revision of the session.
    pub revision: Revision,
    /// What the server offers. Extensions are in `extensions`.
    pub capabilities: ServerCapabilities,
    /// Extensions of the server and their settings (2026-07-28 and later).
    pub extensions: serde_json::Map<String, serde_json::Value>,
    /// Name and version; `None` if the server sends neither (2026-07-28 does not require them).
    pub implementation: Option<Implementation>,
    /// How to use the server, for the model.
    pub instructions: Option<String>,
    /// Why `server/discover` did not suffice, if `initialize` followed it
    /// ([`EraPreference::Auto`](super::EraPreference::Auto)).
    pub discover_error: Option<String>,
}

impl ServerInfo {
    /// Reads the result of `server/discover`. Returns `None` if it is not one.
    pub(super) fn read_discover(result: Value<'_>, revision: Revision) -> Option<Self> {
        let result = result.as_object()?;
        result.find("supportedVersions")?.as_array()?;
        let meta = result.find("_meta").and_then(Value::as_object);
        let info = meta.and_then(|meta| meta.find("io.modelcontextprotocol/serverInfo"));
        Self::read(result, info, revision)
    }

    /// Reads the result of `initialize`. Returns `None` if it is not one.
    pub(super) fn read_initialize(result: Value<'_>, revision: Revision) -> Option<Self> {
        let result = result.as_object()?;
        Self::read(result, result.find("serverInfo"), revision)
    }

    fn read(result: Object<'_>, info: Option<Value<'_>>, revision: Revision) -> Option<Self> {
        let capabilities = result.find("capabilities")?.as_object()?;
        let extensions = capabilities.find("extensions").map(Value::to_json);
        Some(Self {
            revision,
            capabilities: ServerCapabilities::read(capabilities),
            extensions: match extensions {
                Some(serde_json::Value::Object(extensions)) => extensions,
                _ => serde_json::Map::new(),
            },
            implementation: info.and_then(Value::as_object).map(Implementation::read),
            instructions: result.find("instructions").and_then(Value::as_str).map(str::to_owned),
            discover_error: None,
        })
    }

    /// Returns whether tool calls may become tasks.
    pub(crate) const fn offers_tasks(&self) -> bool {
        let has_tasks = self.revision.is_modern() || self.revision.dialect().core_tasks;
        has_tasks && self.capabilities.tasks.is_some()
    }

    /// Returns why `method` cannot be called on this server, or `None` if it can.
    pub(crate) fn missing_support(&self, method: Method) -> Option<String> {
        if matches!(method, Method::SkillsList | Method::SkillsGet) {
            let is_declared = self.extensions.contains_key(SKILLS_EXTENSION);
            return (!is_declared)
                .then(|| format!("the server has no extension {SKILLS_EXTENSION}"));
        }
        // The session itself answers it for a legacy server.
        let is_emulated = method == Method::SubscriptionsListen;
        if !method.is_defined_in(self.revision) && !is_emulated {
            return Some(format!("{} is not part of MCP {}", method.as_str(), self.revision));
        }
        let declared = &self.capabilities;
        let (is_declared, capability) = match method {
            Method::ToolsCall | Method::ToolsList => (declared.tools.is_some(), "tools"),
            Method::ResourcesList | Method::ResourcesRead | Method::ResourcesTemplatesList => {
                (declared.resources.is_some(), "resources")
            }
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                let is_declared = declared.resources.is_some_and(|options| options.subscribe);
                (is_declared, "resources.subscribe")
            }
            Method::PromptsGet | Method::PromptsList => (declared.prompts.is_some(), "prompts"),
            Method::CompletionComplete => {
                // 2024-11-05 has no such capability.
                let is_implied = !self.revision.dialect().completions_capability;
                (declared.completions || is_implied, "completions")
            }
            Method::LoggingSetLevel => (declared.logging, "logging"),
            Method::TasksGet | Method::TasksUpdate | Method::TasksResult => {
                (declared.tasks.is_some(), "tasks")
            }
            Method::TasksList => (declared.tasks.is_some_and(|tasks| tasks.list), "tasks.list"),
            Method::TasksCancel => {
                (declared.tasks.is_some_and(|tasks| tasks.cancel), "tasks.cancel")
            }
            Method::Ping
            | Method::Initialize
            | Method::Discover
            | Method::SkillsList
            | Method::SkillsGet
            | Method::SubscriptionsListen => return None,
        };
        (!is_declared).then(|| {
            format!(
                "the server does not declare the capability \"{capability}\", which {} needs",
                method.as_str()
            )
        })
    }
}
