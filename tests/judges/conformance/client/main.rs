//! The client that the official conformance suite drives: `conformance_client URL`.
//!
//! `MCP_CONFORMANCE_SCENARIO` names the scenario and `MCP_CONFORMANCE_CONTEXT` holds its data. The
//! suite checks the requests; the program fails if a response is not what the scenario sends.

mod authorization;

use std::env;
use std::error::Error;

use corelane::Client;
use corelane::client::{ClientBuilder, ClientErrorKind, Skill, SkillInfo, block_on};
use corelane::model::{Content, CreateMessageResult, ElicitAction, ElicitResult, Role, Root};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let url = env::args().nth(1).ok_or("usage: conformance_client URL")?;
    block_on(run(&variable("MCP_CONFORMANCE_SCENARIO")?, &url))
}

#[expect(clippy::disallowed_methods, reason = "the suite passes the scenario in the environment")]
fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

async fn run(scenario: &str, url: &str) -> Outcome {
    if scenario.starts_with("auth/") {
        return authorization::run(scenario, url).await;
    }
    let client = with_handlers(Client::builder(url)).connect().await?;
    match scenario {
        "initialize" | "request-metadata" => Ok(client.ping().await?),
        "tools_call" => call_add_numbers(&client).await,
        "elicitation-sep1034-client-defaults" => {
            expect_tools(&client, &["test_client_elicitation_defaults"]).await?;
            call(&client, "test_client_elicitation_defaults", &json!({})).await.map(drop)
        }
        "sse-retry" => {
            expect_tools(&client, &["test_reconnection"]).await?;
            let text = call(&client, "test_reconnection", &json!({})).await?;
            expect(&text, "Reconnection test completed successfully")
        }
        "sep-2322-client-request-state" => call_with_request_states(&client).await,
        "http-standard-headers" => use_each_feature(&client).await,
        "http-custom-headers" => call_with_custom_headers(&client).await,
        "http-invalid-tool-headers" => {
            expect_tools(&client, &["valid_tool"]).await?;
            call(&client, "valid_tool", &json!({ "region": "us-west1" })).await.map(drop)
        }
        "json-schema-ref-no-deref" => expect_tools(&client, &["lookup_user"]).await,
        "json-schema-2020-12-preservation" => echo_schema(&client).await,
        "sep-2640-client-no-prefetch" => {
            client.pages::<SkillInfo>().collect().await?;
            Ok(())
        }
        "sep-2640-client-verify-digest"
        | "sep-2640-client-verify-frontmatter"
        | "sep-2640-client-verify-size" => refuse_skills(&client).await,
        _ => Err(format!("the scenario {scenario} is unknown").into()),
    }?;
    client.close().await;
    Ok(())
}

/// Handles every input: questions are answered with the defaults of their forms.
fn with_handlers(builder: ClientBuilder) -> ClientBuilder {
    builder
        .on_elicitation(async |question| {
            Ok(ElicitResult { action: ElicitAction::Accept, content: question.defaults() })
        })
        .on_sampling(async |_| {
            Ok(CreateMessageResult {
                role: Role::Assistant,
                content: vec![Content::text("An answer.").into()],
                model: "none".into(),
                stop_reason: Some("endTurn".into()),
            })
        })
        .on_roots(async || Ok(vec![Root { uri: "file:///srv".into(), name: None }]))
}

async fn call_add_numbers(client: &Client) -> Outcome {
    expect_tools(client, &["add_numbers"]).await?;
    let text = call(client, "add_numbers", &json!({ "a": 5, "b": 3 })).await?;
    expect(&text, "The sum of 5 and 3 is 8")
}

/// Calls a tool while another call waits for input.
async fn call_with_request_states(client: &Client) -> Outcome {
    let none = json!({});
    let waiting = client.call_tool("test_mrtr_echo_state", &none).into_future();
    expect(&call(client, "test_mrtr_unrelated", &none).await?, "unrelated-ok")?;
    expect(&waiting.await?.text(), "echo-state-ok")?;
    expect(&call(client, "test_mrtr_no_state", &none).await?, "no-state-ok")?;
    let text = call(client, "test_mrtr_no_result_type", &none).await?;
    expect(&text, "no-result-type-test-ok")
}

/// Sends a request of each method that has `Mcp-Name`.
async fn use_each_feature(client: &Client) -> Outcome {
    for tool in client.list_tools().await? {
        call(client, &tool.name, &json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        client.get_prompt(&prompt.name, &json!({})).await?;
    }
    Ok(())
}

/// Returns the data of the scenario.
fn context() -> Result<Value, Box<dyn Error>> {
    Ok(serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")?)?)
}

/// Makes the tool calls of the scenario.
async fn call_with_custom_headers(client: &Client) -> Outcome {
    expect_tools(client, &["test_custom_headers", "test_custom_headers_null"]).await?;
    let context = context()?;
    for tool_call in context["toolCalls"].as_array().ok_or("the scenario has no toolCalls")? {
        let name = tool_call["name"].as_str().ok_or("a tool call without a name")?;
        call(client, name, &tool_call["arguments"]).await?;
    }
    Ok(())
}

/// Sends the schema of one tool to the other.
async fn echo_schema(client: &Client) -> Outcome {
    let tools = client.list_tools().await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = &tool.ok_or("the tool with the schema is missing")?.input_schema;
    call(client, "json_schema_echo", &json!({ "schema": schema })).await.map(drop)
}

/// Loads the skills, which have been changed on the way.
async fn refuse_skills(client: &Client) -> Outcome {
    for skill in client.pages::<SkillInfo>().collect().await? {
        let uri = skill.uri.clone();
        match Skill::load(client, skill).await {
            Err(error) if error.kind() == ClientErrorKind::Integrity => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(format!("{uri} was accepted").into()),
        }
    }
    Ok(())
}

/// Calls a tool and returns its text.
async fn call(client: &Client, name: &str, arguments: &Value) -> Result<String, Box<dyn Error>> {
    let result = client.call_tool(name, arguments).await?;
    let text = result.text();
    if result.is_error { Err(format!("{name} failed: {text}").into()) } else { Ok(text) }
}

/// Lists the tools, which are these.
async fn expect_tools(client: &Client, expected: &[&str]) -> Outcome {
    let tools = client.list_tools().await?;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    if names == expected { Ok(()) } else { Err(format!("the tools are {names:?}").into()) }
}

fn expect(text: &str, expected: &str) -> Outcome {
    if text == expected { Ok(()) } else { Err(format!("{text} instead of {expected}").into()) }
}
