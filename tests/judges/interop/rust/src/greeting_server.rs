//! A server with rmcp over standard streams. The tool `greet` asks for a name.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, ErrorData, Implementation, InputRequest, InputRequests,
    InputRequiredResult, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, ServiceExt};
use rmcp::transport::stdio;
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::server::Failure;

/// Serves until standard input ends.
pub(crate) async fn serve() -> Result<(), Failure> {
    GreetingServer.serve(stdio()).await?.waiting().await?;
    Ok(())
}

struct GreetingServer;

impl ServerHandler for GreetingServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let text: JsonObject = read(json!({
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
        }))?;
        let none: JsonObject = read(json!({ "type": "object" }))?;
        Ok(ListToolsResult::with_all_items(vec![
            Tool::new("echo", "Returns the text.", text),
            Tool::new("greet", "Asks for a name and greets.", none),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "echo" {
            let text = request.arguments.unwrap_or_default().remove("text");
            return Ok(text_result(text.as_ref().and_then(Value::as_str).unwrap_or_default()));
        }
        let asked = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Who are you?".to_owned(),
            requested_schema: read(json!({
                "type": "object",
                "properties": { "name": { "type": "string" } },
                "required": ["name"],
            }))?,
        };
        let is_modern = context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28);
        let answer = match request.input_responses {
            Some(mut responses) => responses.remove("who").unwrap_or_default()["content"].take(),
            None if is_modern => {
                let who = InputRequest::Elicitation(ElicitRequest::new(asked));
                let requests = InputRequests::from([("who".to_owned(), who)]);
                return Ok(InputRequiredResult::from_input_requests(requests).into());
            }
            None => {
                let result = context.peer.create_elicitation(asked).await;
                let result =
                    result.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                result.content.unwrap_or_default()
            }
        };
        Ok(text_result(&format!("Hello, {}!", answer["name"].as_str().unwrap_or_default())))
    }
}

fn text_result(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|it| ErrorData::internal_error(it.to_string(), None))
}
