//! Held calls: a legacy upstream has asked a client of 2026-07-28, whose answer comes with another
//! request.

use serde_json::{Value, json};

use crate::client::{Client, all_inputs, error_text, retry, text_of};
use crate::gateway::{Gateway, MODERN_HTTP, MODERN_TCP};

/// SHA-256 of `key-of-ada` and `key-of-bea`.
pub(crate) const KEYS: &str = "\
    ada:5532e44183f47ed1fc146851b96d585c24da5bd5fe31a885cebc357261ed8f7f
    bea:e56da5bd9a668a6856fe2b056f782c4c269b26acdcfdca6333a6fedbf8f62734
";

/// A call of `ask` that is held.
struct Held {
    client: Client,
    params: Value,
    response: Value,
}

impl Held {
    fn new(mut client: Client) -> Self {
        let params = json!({"name": "ask", "arguments": {}});
        let response = client.request("tools/call", params.clone());
        assert_eq!(response["result"]["resultType"], "input_required", "{response}");
        Self { client, params, response }
    }

    /// The params of the request that answers.
    fn answering(&mut self) -> Value {
        let answers = self.client.answers_to(&self.response);
        retry(&self.params, &self.response, answers)
    }
}

fn asked(gateway: &Gateway) -> Client {
    Client::with_capabilities(gateway, MODERN_TCP, all_inputs())
}

#[test]
fn second_answer_to_held_call_is_refused() {
    let gateway = Gateway::new(&[]);
    let mut held = Held::new(asked(&gateway));
    let params = held.answering();
    text_of(&held.client.request("tools/call", params.clone()));
    let again = held.client.request("tools/call", params);
    assert_eq!(again["error"]["code"], -32602, "{again}");
    assert!(error_text(&again).contains("used before"), "{again}");
    gateway.end();
}

#[test]
fn answer_of_other_connection_ends_held_call() {
    let gateway = Gateway::new(&[]);
    let mut held = Held::new(asked(&gateway));
    let params = held.answering();
    held.client.reset();
    let mut other = Client::with_capabilities(&gateway, MODERN_HTTP, all_inputs());
    text_of(&other.request("tools/call", params));
    gateway.end();
}

#[test]
fn answer_of_other_principal_is_refused() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let keys = folder.path().join("keys.txt");
    std::fs::write(&keys, KEYS).expect("keys are written");
    let keys = keys.to_str().expect("UTF-8");
    let declaration = crate::gateway::upstream("fixture", "", &[]);
    let gateway = Gateway::declared(&declaration, &["--auth-api-keys", keys]);
    let client = |key| Client::with_key(&gateway, MODERN_HTTP, all_inputs(), Some(key));
    let mut held = Held::new(client("key-of-ada"));
    let params = held.answering();
    let refused = client("key-of-bea").request("tools/call", params.clone());
    assert!(refused.get("error").is_some(), "{refused}");
    text_of(&held.client.request("tools/call", params));
    gateway.end();
}

#[test]
fn held_call_of_ended_program_has_error() {
    let gateway = Gateway::new(&[]);
    let mut held = Held::new(asked(&gateway));
    let programs = gateway.folder.processes();
    for program in programs {
        let id = i32::try_from(program).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.expect("an id"), rustix::process::Signal::KILL)
            .expect("it runs");
        crate::gateway::wait_for_exit(program);
    }
    let params = held.answering();
    let response = held.client.request("tools/call", params);
    assert!(error_text(&response).contains("`fixture` has ended"), "{response}");
    // The next call starts another one.
    assert_eq!(held.client.text("echo", json!({"message": "again"})), "again");
    let mut again = Held::new(held.client);
    let params = again.answering();
    text_of(&again.client.request("tools/call", params));
    gateway.end();
}

#[test]
fn held_calls_end_with_the_gateway() {
    let gateway = Gateway::new(&[]);
    let held: Vec<Held> = (0..5).map(|_| Held::new(asked(&gateway))).collect();
    assert!(gateway.folder.processes().len() >= 5);
    gateway.end();
    drop(held);
}

#[test]
fn program_of_held_call_ends_after_answer() {
    let gateway = Gateway::new(&[]);
    let before = {
        gateway.client(MODERN_TCP).text("pid", json!({}));
        gateway.folder.processes()
    };
    let mut held = Held::new(asked(&gateway));
    let own: Vec<u32> =
        gateway.folder.processes().into_iter().filter(|it| !before.contains(it)).collect();
    assert_eq!(own.len(), 1, "{own:?}");
    let params = held.answering();
    text_of(&held.client.request("tools/call", params));
    crate::gateway::wait_for_exit(own[0]);
    gateway.end();
}

#[test]
fn held_call_ends_after_its_time() {
    let declaration = crate::gateway::upstream("fixture", "", &[]);
    let gateway = Gateway::declared(&declaration, &["--gateway-hold-time", "300ms"]);
    let mut client = asked(&gateway);
    client.text("pid", json!({}));
    let before = gateway.folder.processes();
    let mut held = Held::new(client);
    for program in gateway.folder.processes() {
        if !before.contains(&program) {
            crate::gateway::wait_for_exit(program);
        }
    }
    let params = held.answering();
    let response = held.client.request("tools/call", params);
    assert_eq!(response["error"]["code"], -32602, "{response}");
    assert!(error_text(&response).contains("its time was over"), "{response}");
    text_of(&held.client.call("ask", json!({})));
    gateway.end();
}

#[test]
fn input_request_beyond_held_calls_has_error() {
    let declaration = crate::gateway::upstream("fixture", "", &[]);
    let gateway = Gateway::declared(&declaration, &["--gateway-held-max", "2"]);
    let mut held: Vec<Held> = (0..2).map(|_| Held::new(asked(&gateway))).collect();
    let mut client = asked(&gateway);
    let response = client.call("ask", json!({}));
    assert_eq!(response["result"]["isError"], true, "{response}");
    let text = corelane_test_support::messages::result_text(&response);
    assert!(text.contains("holds as many calls as it may"), "{text}");
    for held in &mut held {
        let params = held.answering();
        text_of(&held.client.request("tools/call", params));
    }
    text_of(&client.call("ask", json!({})));
    gateway.end();
}

#[test]
fn held_call_is_of_its_arguments() {
    let gateway = Gateway::new(&[]);
    let mut held = Held::new(asked(&gateway));
    let mut params = held.answering();
    let good = params.clone();
    params["name"] = json!("sample");
    let response = held.client.request("tools/call", params);
    assert!(response.get("error").is_some(), "{response}");
    text_of(&held.client.request("tools/call", good));
    gateway.end();
}
