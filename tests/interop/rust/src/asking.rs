//! Questions of the server to the user, the model and the directories behind a client.
//!
//! In the legacy era they are requests of the server, in the modern era a round of the call; the
//! handlers of the client are the same, and so is this feature. Only in the legacy era a client
//! hears that what it agreed to open is over, and tells how far it is with what it was asked.

use rmcp::model::GetPromptRequestParams;
use serde_json::{Value, json};

use crate::host::{Host, answer};
use crate::server::{Failure, Server};
use crate::told::{call, outcome};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let client = server.connect(Host::declared()).await?;
    let mut seen = json!({});
    for (name, tool, arguments) in calls() {
        let mut ended = outcome(client.call_tool(call(tool, arguments)).await);
        ended["asked"] = client.service().asked.take().into();
        seen[name] = ended;
    }
    let prompt = GetPromptRequestParams::new("test_input_required_result_prompt");
    let mut ended = outcome(client.get_prompt(prompt).await);
    ended["asked"] = client.service().asked.take().into();
    seen["prompt"] = ended;
    let host = client.service();
    host.completed.until(usize::from(server.is_legacy()), None).await;
    seen["completed"] = host.completed.take().into();
    seen["reports"] = host.reports.take().len().into();
    client.cancel().await?;

    let client = server.connect(Host::default()).await?;
    for (name, tool) in [
        ("undeclared", "test_missing_capability"),
        ("nothing_declared", "test_input_required_result_capabilities"),
    ] {
        seen[name] = outcome(client.call_tool(call(tool, json!({}))).await);
    }
    client.cancel().await?;
    Ok(seen)
}

/// The name under which an outcome is told, the tool, its arguments.
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
        ("address", "test_elicitation_url", message("Please sign in")),
        ("address_declined", "test_elicitation_url", message(answer("declined"))),
        ("roots", "test_input_required_result_list_roots", json!({})),
        ("state", "test_input_required_result_request_state", json!({})),
        ("at_once", "test_input_required_result_multiple_inputs", json!({})),
        ("rounds", "test_input_required_result_multi_round", json!({})),
        ("declared", "test_input_required_result_capabilities", json!({})),
    ]
}
