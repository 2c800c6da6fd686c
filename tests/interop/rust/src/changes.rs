//! What changes while a client is connected: tools, prompts, a watched directory and its files.
//!
//! A legacy client hears of lists unasked and subscribes to resources one by one; a modern one
//! listens to a stream of both. The server must offer one directory that this may write to.

use std::fs;
use std::path::PathBuf;

use rmcp::model::{
    GetPromptRequestParams, ReadResourceRequestParams, ServerNotification, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::Subscription;
use serde_json::{Value, json};

use crate::host::Host;
use crate::server::{Client, Failure, Server};
use crate::told::{Heard, call, outcome, wire};

const TOOL: &str = "test_dynamic_tool";
const PROMPT: &str = "test_dynamic_prompt";

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::default()).await?;
    let heard = client.service().changes.clone();
    let resources = client.list_all_resources().await?;
    let mut files = resources.iter().filter(|resource| resource.uri.starts_with("file:"));
    let uri = files.next().ok_or("the server offers no file")?.uri.clone();
    let mut seen = json!({ "uri": uri, "honored": {} });

    let mut following = None;
    if server.is_legacy() {
        client.subscribe(SubscribeRequestParams::new(&uri)).await?;
    } else {
        let stream = client.listen(filter(&uri)).await?;
        seen["honored"] = wire(stream.acknowledged());
        following = Some(tokio::spawn(follow(stream, heard.clone())));
    }
    seen["tools"] = tools(&client, &heard).await?;
    seen["prompts"] = prompts(&client, &heard).await?;
    seen["file"] = file(&client, &heard, &uri).await?;
    match following {
        Some(following) => following.abort(),
        None => client.unsubscribe(UnsubscribeRequestParams::new(&uri)).await?,
    }
    seen["heard"] = heard.take().into();
    client.cancel().await?;
    Ok(seen)
}

fn filter(uri: &str) -> SubscriptionFilter {
    SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .resource_subscription(uri)
        .build()
}

/// Keeps what a stream tells, as the handlers of a legacy client do.
async fn follow(mut stream: Subscription, heard: Heard) {
    while let Ok(Some(said)) = stream.next().await {
        heard.add(json!(match said {
            ServerNotification::ResourceUpdatedNotification(updated) =>
                format!("notifications/resources/updated {}", updated.params.uri),
            other => wire(&other)["method"].as_str().unwrap_or_default().to_owned(),
        }));
    }
}

/// A tool that comes, is called, and goes.
async fn tools(client: &Client, heard: &Heard) -> Result<Value, Failure> {
    let offered = async || -> Result<bool, Failure> {
        Ok(client.list_all_tools().await?.iter().any(|tool| tool.name == TOOL))
    };
    let toggle = async |count| -> Result<bool, Failure> {
        client.call_tool(call("test_trigger_tool_change", json!({}))).await?;
        heard.until(count, Some("notifications/tools/list_changed")).await;
        offered().await
    };
    let (before, come) = (offered().await?, toggle(1).await?);
    let called = outcome(client.call_tool(call(TOOL, json!({}))).await);
    Ok(json!({ "offered": [before, come, toggle(2).await?], "called": called }))
}

/// A prompt that comes, is read, and goes.
async fn prompts(client: &Client, heard: &Heard) -> Result<Value, Failure> {
    let offered = async || -> Result<bool, Failure> {
        Ok(client.list_all_prompts().await?.iter().any(|prompt| prompt.name == PROMPT))
    };
    let toggle = async |count| -> Result<bool, Failure> {
        client.call_tool(call("test_trigger_prompt_change", json!({}))).await?;
        heard.until(count, Some("notifications/prompts/list_changed")).await;
        offered().await
    };
    let (before, come) = (offered().await?, toggle(1).await?);
    let called = outcome(client.get_prompt(GetPromptRequestParams::new(PROMPT)).await);
    Ok(json!({ "offered": [before, come, toggle(2).await?], "called": called }))
}

/// A file that is rewritten, and another that appears beside it.
async fn file(client: &Client, heard: &Heard, uri: &str) -> Result<Value, Failure> {
    let text = async || -> Result<Value, Failure> {
        let read = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        Ok(wire(&read)["contents"][0]["text"].clone())
    };
    // The only sign of it that needs escaping is the space in its name.
    let path = PathBuf::from(uri.trim_start_matches("file://").replace("%20", " "));
    fs::write(&path, "after")?;
    let updated = format!("notifications/resources/updated {uri}");
    // One write may be told in two.
    for count in 1.. {
        heard.until(count, Some(&updated)).await;
        if text().await? == "after" {
            break;
        }
    }
    let (folder, _) = uri.rsplit_once('/').ok_or("a file stands in a folder")?;
    let second = format!("{folder}/second.txt");
    fs::write(path.with_file_name("second.txt"), "second")?;
    for count in 1.. {
        heard.until(count, Some("notifications/resources/list_changed")).await;
        if client.list_all_resources().await?.iter().any(|resource| resource.uri == second) {
            break;
        }
    }
    Ok(json!({ "text": text().await?, "second": second }))
}
