//! Elicitation, sampling and roots.
//!
//! In the legacy era the server sends them as requests, in the modern era as input requests of a
//! call (MRTR); the client handlers are the same for both. `notifications/elicitation/complete` and
//! progress of a server request exist only in the legacy era.

use rmcp::model::GetPromptRequestParams;
use serde_json::{Value, json};

use crate::host::{Host, answer};
use crate::outcomes::{call, outcome};
use crate::server::{Failure, Server};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::declared()).await?;
    let mut results = json!({});
    for (name, tool, arguments) in calls() {
        let mut result = outcome(client.call_tool(call(tool, arguments)).await);
        result["requests"] = client.service().requests.take().into();
        results[name] = result;
    }
    let prompt = GetPromptRequestParams::new("test_input_required_result_prompt");
    let mut result = outcome(client.get_prompt(prompt).await);
    result["requests"] = client.service().requests.take().into();
    results["prompt"] = result;
    let host = client.service();
    host.completed.wait_for(usize::from(server.is_legacy()), None).await;
    results["completed"] = host.completed.take().into();
    results["progress_sent"] = host.progress_sent.take().len().into();
    client.cancel().await?;

    let client = server.connect(Host::default()).await?;
    for (name, tool) in [
        ("undeclared", "test_missing_capability"),
        ("nothing_declared", "test_input_required_result_capabilities"),
    ] {
        results[name] = outcome(client.call_tool(call(tool, json!({}))).await);
    }
    client.cancel().await?;
    Ok(results)
}

/// Key of the outcome in the summary, tool, arguments.
fn calls() -> [(&'static str, &'static str, Value); 14] {
    let message = |message: &str| json!({ "message": message });
    [
        ("sampling", "test_sampling", json!({ "prompt": "What is the capital of France?" })),
        ("elicitation", "test_elicitation", message("Who are you?")),
        ("declined", "test_elicitation", message(answer("declined"))),
        ("cancelled", "test_elicitation", message(answer("cancelled"))),
        ("defaults", "test_elicitation_sep1034_defaults", json!({})),
        ("choices", "test_elicitation_sep1330_enums", json!({})),
        ("confirmation", "test_streaming_elicitation", json!({})),
        ("url", "test_elicitation_url", message("Please sign in")),
        ("url_declined", "test_elicitation_url", message(answer("declined"))),
        ("roots", "test_input_required_result_list_roots", json!({})),
        ("state", "test_input_required_result_request_state", json!({})),
        ("multiple_inputs", "test_input_required_result_multiple_inputs", json!({})),
        ("multi_round", "test_input_required_result_multi_round", json!({})),
        ("declared", "test_input_required_result_capabilities", json!({})),
    ]
}
