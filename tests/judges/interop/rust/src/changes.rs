//! Change notifications: tools, prompts, and resources of a watched directory.
//!
//! A legacy client receives `list_changed` without subscribing and subscribes to resources one by
//! one; a modern one opens a `subscriptions/listen` stream for both. The server must serve one
//! directory that this program may write to.

use std::fs;
use std::path::PathBuf;

use rmcp::model::{
    GetPromptRequestParams, ReadResourceRequestParams, ServerNotification, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::Subscription;
use serde_json::{Value, json};

use crate::host::Host;
use crate::outcomes::{EventLog, call, outcome, wire};
use crate::server::{Client, Failure, Server};

const TOOL: &str = "test_dynamic_tool";
const PROMPT: &str = "test_dynamic_prompt";

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::default()).await?;
    let received = client.service().changes.clone();
    let resources = client.list_all_resources().await?;
    let mut files = resources.iter().filter(|resource| resource.uri.starts_with("file:"));
    let uri = files.next().ok_or("the server lists no file resource")?.uri.clone();
    let mut results = json!({ "uri": uri, "honored": {} });

    let mut listener = None;
    if server.is_legacy() {
        client.subscribe(SubscribeRequestParams::new(&uri)).await?;
    } else {
        let stream = client.listen(filter(&uri)).await?;
        results["honored"] = wire(stream.acknowledged());
        listener = Some(tokio::spawn(record(stream, received.clone())));
    }
    results["tools"] = tools(&client, &received).await?;
    results["prompts"] = prompts(&client, &received).await?;
    results["file"] = file(&client, &received, &uri).await?;
    match listener {
        Some(listener) => listener.abort(),
        None => client.unsubscribe(UnsubscribeRequestParams::new(&uri)).await?,
    }
    results["notifications"] = received.take().into();
    client.cancel().await?;
    Ok(results)
}

fn filter(uri: &str) -> SubscriptionFilter {
    SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .resource_subscription(uri)
        .build()
}

/// Records the notifications of a stream, as the handlers of a legacy client do.
async fn record(mut stream: Subscription, received: EventLog) {
    while let Ok(Some(notification)) = stream.next().await {
        received.add(json!(match notification {
            ServerNotification::ResourceUpdatedNotification(updated) =>
                format!("notifications/resources/updated {}", updated.params.uri),
            other => wire(&other)["method"].as_str().unwrap_or_default().to_owned(),
        }));
    }
}

/// Adds a tool, calls it and removes it.
async fn tools(client: &Client, received: &EventLog) -> Result<Value, Failure> {
    let is_listed = async || -> Result<bool, Failure> {
        Ok(client.list_all_tools().await?.iter().any(|tool| tool.name == TOOL))
    };
    let toggle = async |count| -> Result<bool, Failure> {
        client.call_tool(call("test_trigger_tool_change", json!({}))).await?;
        received.wait_for(count, Some("notifications/tools/list_changed")).await;
        is_listed().await
    };
    let (before, added) = (is_listed().await?, toggle(1).await?);
    let called = outcome(client.call_tool(call(TOOL, json!({}))).await);
    Ok(json!({ "listed": [before, added, toggle(2).await?], "called": called }))
}

/// Adds a prompt, gets it and removes it.
async fn prompts(client: &Client, received: &EventLog) -> Result<Value, Failure> {
    let is_listed = async || -> Result<bool, Failure> {
        Ok(client.list_all_prompts().await?.iter().any(|prompt| prompt.name == PROMPT))
    };
    let toggle = async |count| -> Result<bool, Failure> {
        client.call_tool(call("test_trigger_prompt_change", json!({}))).await?;
        received.wait_for(count, Some("notifications/prompts/list_changed")).await;
        is_listed().await
    };
    let (before, added) = (is_listed().await?, toggle(1).await?);
    let called = outcome(client.get_prompt(GetPromptRequestParams::new(PROMPT)).await);
    Ok(json!({ "listed": [before, added, toggle(2).await?], "called": called }))
}

/// Rewrites a file and creates a second one in the same directory.
async fn file(client: &Client, received: &EventLog, uri: &str) -> Result<Value, Failure> {
    let text = async || -> Result<Value, Failure> {
        let read = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        Ok(wire(&read)["contents"][0]["text"].clone())
    };
    // Only the space in its name is percent-encoded.
    let path = PathBuf::from(uri.trim_start_matches("file://").replace("%20", " "));
    fs::write(&path, "after")?;
    let updated = format!("notifications/resources/updated {uri}");
    // One write may cause two notifications.
    for count in 1.. {
        received.wait_for(count, Some(&updated)).await;
        if text().await? == "after" {
            break;
        }
    }
    let (folder, _) = uri.rsplit_once('/').ok_or("the file URI has no directory")?;
    let second = format!("{folder}/second.txt");
    fs::write(path.with_file_name("second.txt"), "second")?;
    for count in 1.. {
        received.wait_for(count, Some("notifications/resources/list_changed")).await;
        if client.list_all_resources().await?.iter().any(|resource| resource.uri == second) {
            break;
        }
    }
    Ok(json!({ "text": text().await?, "second": second }))
}
