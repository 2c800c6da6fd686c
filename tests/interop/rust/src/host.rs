//! The user and the model behind a client: handlers that answer what a server asks, and that keep
//! what it says.

use std::sync::LazyLock;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, Implementation,
    ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
    ResourceUpdatedNotificationParam, Role, Root, RootsCapabilities, SamplingCapability,
    SamplingMessage,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value, json};

use crate::told::{Heard, wire};

/// What the user and the model behind any client say.
static ANSWERS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../answers.json")).expect("the answers are JSON")
});

/// An answer by its name.
pub(crate) fn answer(name: &str) -> &'static str {
    ANSWERS[name].as_str().expect("there is such an answer")
}

/// Answers, and keeps what was asked and what was said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Whether it declares that it answers.
    is_declared: bool,
    pub(crate) asked: Heard,
    pub(crate) progress: Heard,
    pub(crate) logs: Heard,
    /// Changes, as `METHOD` or `METHOD URI`.
    pub(crate) changes: Heard,
}

impl Host {
    /// A host that declares all that it can answer.
    pub(crate) fn declared() -> Self {
        Self { is_declared: true, ..Self::default() }
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.is_declared {
            capabilities.elicitation = Some(ElicitationCapability::default());
            capabilities.roots = Some(RootsCapabilities::default());
            capabilities.sampling = Some(SamplingCapability::default());
        }
        ClientConfig::new(capabilities, Implementation::new("interop", "1.0.0"))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.asked.add(json!({ "method": "sampling/createMessage", "params": wire(&params) }));
        let message = SamplingMessage::new(Role::Assistant, answer("sampled"));
        Ok(CreateMessageResult::new(message, "interop".to_owned()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = wire(&params);
        let action = match params["message"].as_str() {
            Some(message) if message == answer("declined") => ElicitationAction::Decline,
            Some(message) if message == answer("cancelled") => ElicitationAction::Cancel,
            _ => ElicitationAction::Accept,
        };
        let result = ElicitResult::new(action.clone());
        let content = content(&params["requestedSchema"]["properties"]);
        self.asked.add(json!({ "method": "elicitation/create", "params": params }));
        Ok(if action == ElicitationAction::Accept { result.with_content(content) } else { result })
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.asked.add(json!({ "method": "roots/list" }));
        Ok(ListRootsResult::new(vec![Root::new(answer("root")).with_name("project")]))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.add(json!([params.progress, params.total, params.message]));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.logs.add(json!({ "level": params.level, "data": params.data }));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.changes.add(json!(format!("notifications/resources/updated {}", params.uri)));
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.add(json!("notifications/resources/list_changed"));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.add(json!("notifications/tools/list_changed"));
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.add(json!("notifications/prompts/list_changed"));
    }
}

/// A form filled in: what it suggests itself, else what the user always says.
fn content(fields: &Value) -> Value {
    let fields = fields.as_object().into_iter().flatten();
    let fill = |(name, field): (&String, &Value)| {
        let suggested = field.get("default").unwrap_or(&ANSWERS["fields"][name]);
        (name.clone(), suggested.clone())
    };
    Value::Object(fields.map(fill).collect::<Map<String, Value>>())
}
