//! The host of a client: handlers for elicitation, sampling, roots and notifications.
//!
//! Each request handler sends progress before its result if the request has a progress token, which
//! only requests of the legacy era have.

use std::sync::LazyLock;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    CustomNotification, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ResourceUpdatedNotificationParam,
    Role, Root, RootsCapabilities, SamplingCapability, SamplingMessage, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value, json};

use crate::outcomes::{EventLog, wire};

/// Fixed responses of the user and the model, shared by all clients.
static ANSWERS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../answers.json")).expect("answers.json is JSON")
});

pub(crate) fn answer(name: &str) -> &'static str {
    ANSWERS[name].as_str().expect("the answer exists and is a string")
}

/// Responds to server requests and records them, and all notifications.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Declares elicitation, sampling and roots.
    is_declared: bool,
    pub(crate) requests: EventLog,
    /// For each progress notification to the server, whether it was sent.
    pub(crate) progress_sent: EventLog,
    /// Elicitation ids of `notifications/elicitation/complete`.
    pub(crate) completed: EventLog,
    pub(crate) progress: EventLog,
    pub(crate) logs: EventLog,
    /// Change notifications, as `METHOD` or `METHOD URI`.
    pub(crate) changes: EventLog,
}

impl Host {
    pub(crate) fn declared() -> Self {
        Self { is_declared: true, ..Self::default() }
    }

    /// Records a request, and sends progress twice if it has a token.
    async fn record(&self, context: &RequestContext<RoleClient>, method: &str, params: Value) {
        self.requests.add(json!({ "method": method, "params": params }));
        let Some(token) = context.meta.get_progress_token() else { return };
        for done in [1.0, 2.0] {
            let report = ProgressNotificationParam::new(token.clone(), done).with_total(2.0);
            let sent = context.peer.notify_progress(report.with_message("thinking")).await;
            self.progress_sent.add(json!(sent.is_ok()));
        }
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.is_declared {
            let elicitation = ElicitationCapability::new();
            let elicitation = elicitation.with_form(FormElicitationCapability::new());
            capabilities.elicitation = Some(elicitation.with_url(UrlElicitationCapability::new()));
            capabilities.roots = Some(RootsCapabilities::default());
            capabilities.sampling = Some(SamplingCapability::default());
        }
        ClientConfig::new(capabilities, Implementation::new("interop", "1.0.0"))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.record(&context, "sampling/createMessage", wire(&params)).await;
        let message = SamplingMessage::new(Role::Assistant, answer("sampled"));
        Ok(CreateMessageResult::new(message, "interop".to_owned()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let mut params = wire(&params);
        // The SDK represents an absent id as an empty one.
        if let Some(fields) = params.as_object_mut() {
            fields.retain(|name, value| name != "elicitationId" || value != "");
        }
        let action = match params["message"].as_str() {
            Some(message) if message == answer("declined") => ElicitationAction::Decline,
            Some(message) if message == answer("cancelled") => ElicitationAction::Cancel,
            _ => ElicitationAction::Accept,
        };
        let is_filled = action == ElicitationAction::Accept && params["mode"] != "url";
        let filled = fill_in(&params["requestedSchema"]["properties"]);
        self.record(&context, "elicitation/create", params).await;
        let result = ElicitResult::new(action);
        Ok(if is_filled { result.with_content(filled) } else { result })
    }

    async fn list_roots(
        &self,
        context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.record(&context, "roots/list", Value::Null).await;
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

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        if notification.method == "notifications/elicitation/complete" {
            self.completed.add(notification.params.unwrap_or_default()["elicitationId"].clone());
        }
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

/// Fills in a form: the default of each field, else the fixed answer for its name.
fn fill_in(fields: &Value) -> Value {
    let fields = fields.as_object().into_iter().flatten();
    let fill = |(name, field): (&String, &Value)| {
        let suggested = field.get("default").unwrap_or(&ANSWERS["fields"][name]);
        (name.clone(), suggested.clone())
    };
    Value::Object(fields.map(fill).collect::<Map<String, Value>>())
}
