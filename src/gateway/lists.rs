//! What an upstream offers: its lists, as it sends them.

use corelane_client::{Client, ClientError, ServerInfo};
use corelane_protocol::eras::Method;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The lists of one upstream.
#[derive(Clone, Debug)]
pub struct Lists {
    /// What it declared in the handshake.
    pub server: Arc<ServerInfo>,
    /// Items of `tools/list`.
    pub tools: Vec<Definition>,
    /// Items of `resources/list`.
    pub resources: Vec<Definition>,
    /// Items of `resources/templates/list`.
    pub templates: Vec<Definition>,
    /// Items of `prompts/list`.
    pub prompts: Vec<Definition>,
}

/// One item of a list.
pub type Definition = Map<String, Value>;

impl Lists {
    /// Reads the lists that the server declares.
    ///
    /// # Errors
    ///
    /// Those of the handshake and of a request. A list that the server does not have after all
    /// (-32601) is empty.
    pub async fn read(client: &Client) -> Result<Self, ClientError> {
        let server = client.server().await?;
        let capabilities = &server.capabilities;
        let (has_tools, has_resources, has_prompts) = (
            capabilities.tools.is_some(),
            capabilities.resources.is_some(),
            capabilities.prompts.is_some(),
        );
        Ok(Self {
            tools: read_list(client, has_tools, Method::ToolsList, "tools").await?,
            resources: read_list(client, has_resources, Method::ResourcesList, "resources").await?,
            templates: read_list(
                client,
                has_resources,
                Method::ResourcesTemplatesList,
                "resourceTemplates",
            )
            .await?,
            prompts: read_list(client, has_prompts, Method::PromptsList, "prompts").await?,
            server,
        })
    }
}

async fn read_list(
    client: &Client,
    is_declared: bool,
    method: Method,
    key: &'static str,
) -> Result<Vec<Definition>, ClientError> {
    if !is_declared {
        return Ok(Vec::new());
    }
    let items = match client.raw_pages(method, key).fresh().collect().await {
        Ok(items) => items,
        Err(error) if is_unknown_method(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // What is no object is no definition.
    let objects = items.into_iter().filter_map(|item| match item {
        Value::Object(definition) => Some(definition),
        _ => None,
    });
    Ok(objects.collect())
}

fn is_unknown_method(error: &ClientError) -> bool {
    matches!(error.kind(), corelane_client::ClientErrorKind::Rpc { code: -32601 })
}

/// Whether calls of a tool of a server up to 2025-11-25 must be tasks.
pub fn requires_task(definition: &Definition) -> bool {
    let execution = definition.get("execution");
    execution.and_then(|it| it.get("taskSupport")).is_some_and(|it| it == "required")
}
