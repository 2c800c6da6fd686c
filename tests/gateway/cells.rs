//! Clients of every revision in front of upstreams of every era: lists, calls, reads, prompts,
//! completion, progress, logging and cancellation.

use serde_json::{Value, json};

use crate::client::{Client, all_inputs, error_text, text_of};
use crate::gateway::{Gateway, KINDS, Kind, LEGACY_TCP, MODERN_TCP, in_every_cell};

#[test]
fn lists_have_all_items_of_upstream() {
    in_every_cell(&["--page-size", "2"], |gateway, kind, _| {
        let mut client = gateway.client(kind);
        let tools = client.tools();
        assert_eq!(tools.len(), 19, "{tools:?}");
        assert_eq!(tools[..2], ["echo", "pid"]);
        let resources = client.list("resources/list", "resources", "uri");
        assert_eq!(resources, ["fixture://one", "fixture://two", "fixture://three"]);
        let templates = client.list("resources/templates/list", "resourceTemplates", "uriTemplate");
        assert_eq!(templates, ["fixture://item/{id}"]);
        assert_eq!(client.list("prompts/list", "prompts", "name"), ["greet", "plain", "last"]);
    });
}

#[test]
fn results_and_errors_of_calls_pass_through() {
    in_every_cell(&[], |gateway, kind, _| {
        let mut client = gateway.client(kind);
        let message = "ünï \"☃\" \\ \n 𝄞";
        assert_eq!(client.text("echo", json!({"message": message})), message);
        let failed = client.call("fail", json!({}));
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        assert_eq!(failed["result"]["content"][0]["text"], "the tool has failed");
        let error = client.call("error", json!({}));
        assert_eq!(error["error"]["code"], -32050, "{error}");
        assert_eq!(error["error"]["message"], "the server has failed");
        assert_eq!(error["error"]["data"], json!({"detail": [1, "two"]}));
        let unknown = client.call("no_such_tool", json!({}));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        let bytes = 3_000_000;
        assert_eq!(client.text("big", json!({"bytes": bytes})).len(), bytes);
    });
}

#[test]
fn resources_and_templates_are_read() {
    in_every_cell(&[], |gateway, kind, _| {
        let mut client = gateway.client(kind);
        for uri in ["fixture://one", "fixture://item/7"] {
            let result = client.result("resources/read", json!({"uri": uri}));
            let expected = json!([
                {"uri": uri, "mimeType": "text/plain", "text": format!("text of {uri}")}
            ]);
            assert_eq!(result["contents"], expected);
        }
        let response = client.request("resources/read", json!({"uri": "fixture://none"}));
        let code = if client.is_modern() { -32602 } else { -32002 };
        assert_eq!(response["error"]["code"], code, "{response}");
    });
}

#[test]
fn prompts_are_filled_and_arguments_completed() {
    in_every_cell(&[], |gateway, kind, _| {
        let mut client = gateway.client(kind);
        let params = json!({"name": "greet", "arguments": {"name": "Ada"}});
        let result = client.result("prompts/get", params);
        assert_eq!(result["messages"][0]["content"]["text"], "Greet Ada.");
        let missing = client.request("prompts/get", json!({"name": "greet"}));
        assert_eq!(missing["error"]["code"], -32602, "{missing}");
        for reference in [
            json!({"type": "ref/prompt", "name": "greet"}),
            json!({"type": "ref/resource", "uri": "fixture://item/{id}"}),
        ] {
            let argument = if reference["name"] == "greet" { "name" } else { "id" };
            let params = json!({"ref": reference, "argument": {"name": argument, "value": "a"}});
            let result = client.result("completion/complete", params);
            assert_eq!(result["completion"]["values"], json!(["ada", "alan"]), "{result}");
        }
    });
}

#[test]
fn progress_has_token_of_the_client() {
    in_every_cell(&[], |gateway, kind, _| {
        let mut client = gateway.client(kind);
        for token in [json!("mine"), json!(7)] {
            let params = json!({
                "name": "progress", "arguments": {}, "_meta": {"progressToken": token},
            });
            assert_eq!(client.result("tools/call", params)["content"][0]["text"], "done");
            let received = std::mem::take(&mut client.notifications);
            let progress: Vec<&Value> = received.iter().map(|it| &it["params"]).collect();
            assert_eq!(progress.len(), 3, "{received:?}");
            for (number, params) in (1_u32..).zip(progress) {
                assert_eq!(params["progressToken"], token, "{received:?}");
                assert_eq!(params["progress"].as_f64(), Some(f64::from(number)));
                assert_eq!(params["message"], format!("step {number}"));
            }
        }
        // Without a token there are no notifications.
        client.text("progress", json!({}));
        assert!(client.notifications.is_empty(), "{:?}", client.notifications);
    });
}

#[test]
fn cancelled_call_is_cancelled_at_upstream() {
    in_every_cell(&[], |gateway, kind, _| {
        let mut client = gateway.client(kind);
        let before = client.state();
        let params = json!({"name": "slow", "arguments": {"release": "/no/such/file"}});
        let id = client.start("tools/call", params);
        while client.state()["waiting"] == before["waiting"] {}
        client.cancel(id);
        while client.state()["cancelled"] == before["cancelled"] {}
        assert_eq!(client.state()["waiting"], 0);
    });
}

#[test]
fn equal_ids_of_clients_are_kept_apart() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::with_keys("share = \"all\"", &["--era", era]);
        let mut clients: Vec<Client> = KINDS.map(|kind| gateway.client(kind)).into();
        for round in 0..20 {
            let message = |index| format!("{round} for {index}");
            let send = |(index, client): (usize, &mut Client)| {
                let arguments = json!({"message": message(index)});
                client.start("tools/call", json!({"name": "echo", "arguments": arguments}))
            };
            let ids: Vec<u64> = clients.iter_mut().enumerate().map(send).collect();
            for (index, (client, id)) in clients.iter_mut().zip(ids).enumerate() {
                assert_eq!(text_of(&client.response(id)), message(index));
            }
        }
        gateway.end();
    }
}

#[test]
fn log_messages_reach_their_session_only() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::new(&["--era", era]);
        let mut client = gateway.client(LEGACY_TCP);
        let mut other = gateway.client(LEGACY_TCP);
        assert_eq!(client.result("logging/setLevel", json!({"level": "info"})), json!({}));
        assert_eq!(other.result("logging/setLevel", json!({"level": "debug"})), json!({}));
        client.text("log", json!({"level": "warning"}));
        client.text("log", json!({"level": "debug"}));
        let levels: Vec<&Value> =
            client.notifications.iter().map(|it| &it["params"]["level"]).collect();
        assert_eq!(levels, ["warning"], "{era}");
        assert_eq!(other.text("echo", json!({"message": "quiet"})), "quiet");
        assert!(other.notifications.is_empty(), "{:?}", other.notifications);
        gateway.end();
    }
}

#[test]
fn modern_call_with_log_level_gets_messages() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::new(&["--era", era]);
        // A legacy upstream that callers share does not say whose its messages are.
        let mut client = Client::with_capabilities(&gateway, MODERN_TCP, all_inputs());
        let meta = json!({"io.modelcontextprotocol/logLevel": "info"});
        let params = json!({"name": "log", "arguments": {"level": "error"}, "_meta": meta});
        client.result("tools/call", params);
        let levels: Vec<&Value> =
            client.notifications.iter().map(|it| &it["params"]["level"]).collect();
        assert_eq!(levels, ["error"], "{era}");
        gateway.end();
    }
}

#[test]
fn gateway_of_command_line_names_its_upstream() {
    let folder = crate::gateway::Folder::new();
    let mut command = std::process::Command::new(crate::CORELANE);
    command.args(["gateway", "--share", "all", "--"]).arg(crate::gateway::fixture());
    let gateway = Gateway::spawn(folder, &mut command);
    let pids: Vec<String> =
        KINDS.map(|kind: Kind| gateway.client(kind).text("pid", json!({}))).into();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let log = gateway.end();
    assert!(log.contains("upstream-fixture"), "{log}");
}

#[test]
fn several_upstreams_are_merged_by_names() {
    let upstream = crate::gateway::upstream;
    let two = [
        upstream("one", "share = \"all\"", &[]),
        upstream("two", "share = \"all\"", &["--era", "modern", "--tools", "1"]),
    ];
    let gateway = Gateway::declared(&two.concat(), &[]);
    for kind in KINDS {
        let mut client = gateway.client(kind);
        let tools = client.tools();
        assert!(tools.contains(&"more_00000".to_owned()), "{tools:?}");
        let echoes: Vec<&String> = tools.iter().filter(|it| it.ends_with("pid")).collect();
        assert_eq!(echoes.len(), 2, "{tools:?}");
        let pids: Vec<String> = echoes.iter().map(|it| client.text(it, json!({}))).collect();
        assert_ne!(pids[0], pids[1]);
        let unprefixed = client.call("pid", json!({}));
        if !tools.contains(&"pid".to_owned()) {
            assert!(!error_text(&unprefixed).is_empty());
        }
    }
    gateway.end();
}
