//! Upstreams that ask in the middle of a call: elicitation, sampling and roots, in every cell.

use serde_json::{Value, json};

use crate::client::{Client, all_inputs, answer, retry, text_of};
use crate::gateway::{Gateway, KINDS, MODERN_HTTP, MODERN_TCP, in_every_cell};

/// The tools of the fixture that ask, and the methods of their input requests.
const ASKING: [(&str, &str); 3] =
    [("ask", "elicitation/create"), ("sample", "sampling/createMessage"), ("roots", "roots/list")];

#[test]
fn input_requests_reach_client_and_responses_call() {
    in_every_cell(&[], |gateway, kind, _| {
        for (tool, method) in ASKING {
            let mut client = Client::with_capabilities(gateway, kind, all_inputs());
            let text = client.text(tool, json!({"message": "Ada"}));
            let [input_request] = &client.input_requests[..] else {
                panic!("{:?}", client.input_requests)
            };
            assert_eq!(input_request["method"], method);
            let given: Value = serde_json::from_str(&text).expect("the answer as JSON");
            let expected = answer(input_request);
            for (key, value) in expected.as_object().expect("an object") {
                assert_eq!(given[key], *value, "{given}");
            }
        }
    });
}

#[test]
fn several_input_requests_follow_each_other() {
    in_every_cell(&[], |gateway, kind, _| {
        for (tool, _) in ASKING {
            let mut client = Client::with_capabilities(gateway, kind, all_inputs());
            client.text(tool, json!({"rounds": 4}));
            assert_eq!(client.input_requests.len(), 4, "{tool}: {:?}", client.input_requests);
        }
    });
}

#[test]
fn client_without_capability_is_not_asked() {
    in_every_cell(&[], |gateway, kind, era| {
        for (tool, _) in ASKING {
            let mut client = gateway.client(kind);
            let response = client.call(tool, json!({}));
            assert!(client.input_requests.is_empty(), "{:?}", client.input_requests);
            if era == "modern" {
                assert_eq!(response["error"]["code"], -32021, "{response}");
            } else {
                assert_eq!(response["result"]["isError"], true, "{response}");
            }
        }
    });
}

#[test]
fn two_calls_are_answered_in_other_order() {
    for era in ["2025-06-18", "legacy", "modern"] {
        let gateway = Gateway::new(&["--era", era]);
        for kind in [MODERN_TCP, MODERN_HTTP] {
            let mut client = Client::with_capabilities(&gateway, kind, all_inputs());
            let params = |name: &str| json!({"name": "ask", "arguments": {"message": name}});
            let calls = ["Ada", "Bea", "Cleo"].map(|name| {
                let params = params(name);
                let response = client.request("tools/call", params.clone());
                assert_eq!(response["result"]["resultType"], "input_required", "{response}");
                (name, params, response)
            });
            for (name, params, response) in calls.into_iter().rev() {
                let answers = client.answers_to(&response);
                let retried = retry(&params, &response, answers);
                let ended = client.request("tools/call", retried);
                let given: Value = serde_json::from_str(text_of(&ended)).expect("JSON");
                assert_eq!(given["content"]["name"], name, "{era}: {given}");
            }
        }
        gateway.end();
    }
}

#[test]
fn requests_at_once_are_one_round_trip() {
    let gateway = Gateway::new(&[]);
    for kind in [MODERN_TCP, MODERN_HTTP] {
        let mut client = Client::with_capabilities(&gateway, kind, all_inputs());
        let params = json!({"name": "ask", "arguments": {"at_once": 3}});
        let response = client.request("tools/call", params.clone());
        let answers = client.answers_to(&response);
        assert_eq!(answers.as_object().map(serde_json::Map::len), Some(3), "{response}");
        let done = client.request("tools/call", retry(&params, &response, answers));
        assert!(text_of(&done).contains("accept"), "{done}");
    }
    gateway.end();
}

#[test]
fn modern_upstream_keeps_keys_and_state() {
    let gateway = Gateway::with_keys("", &["--era", "modern", "--record", "FOLDER/record"]);
    for kind in [MODERN_TCP, MODERN_HTTP] {
        let mut client = Client::with_capabilities(&gateway, kind, all_inputs());
        let params = json!({"name": "ask", "arguments": {"message": "Ada"}});
        let response = client.request("tools/call", params.clone());
        let input_requests = &response["result"]["inputRequests"];
        assert_eq!(input_requests["answer"]["method"], "elicitation/create", "{response}");
        let state = response["result"]["requestState"].as_str().expect("a state");
        assert!(!state.contains("fixture"), "{state}");
        // The state is with the client: the upstream may have ended meanwhile.
        let ended = client.call("exit", json!({}));
        assert!(ended.get("error").is_some(), "{ended}");
        let answers = client.answers_to(&response);
        assert_eq!(answers["answer"]["content"]["name"], "Ada", "{answers}");
        let done = client.request("tools/call", retry(&params, &response, answers));
        assert!(text_of(&done).contains("Ada"), "{done}");
    }
    gateway.end();
}

#[test]
fn input_responses_without_state_reach_modern_upstream() {
    let gateway = Gateway::with_keys("", &["--era", "modern", "--record", "FOLDER/record"]);
    let mut client = Client::with_capabilities(&gateway, MODERN_TCP, all_inputs());
    let given = json!({"answer": {"action": "decline"}});
    let params = json!({"name": "ask", "arguments": {}, "inputResponses": given});
    let response = client.request("tools/call", params);
    assert_eq!(response["result"]["resultType"], "input_required", "{response}");
    assert_eq!(gateway.folder.recorded(r#""inputResponses":{"answer":{"action":"decline"}}"#), 1);
    gateway.end();
}

#[test]
fn two_legacy_calls_are_asked_at_once() {
    for era in ["2025-06-18", "legacy", "modern"] {
        let gateway = Gateway::new(&["--era", era]);
        for kind in KINDS.into_iter().filter(|kind| kind.revision != "2026-07-28") {
            let mut client = Client::with_capabilities(&gateway, kind, all_inputs());
            for is_reversed in [false, true] {
                answer_two_calls(&mut client, is_reversed);
            }
        }
        gateway.end();
    }
}

/// Makes two calls that ask, and answers their input requests, the last one first if `is_reversed`.
fn answer_two_calls(client: &mut Client, is_reversed: bool) {
    client.holds_input_requests = true;
    let params = |name: &str| json!({"name": "ask", "arguments": {"message": name}});
    let ids = ["Ada", "Bea"].map(|name| (name, client.start("tools/call", params(name))));
    for (_, id) in ids {
        client.handle_next(id);
    }
    client.holds_input_requests = false;
    let mut input_requests = std::mem::take(&mut client.input_requests);
    if is_reversed {
        input_requests.reverse();
    }
    for input_request in input_requests {
        let result = answer(&input_request);
        client.notify(&json!({"jsonrpc": "2.0", "id": input_request["id"], "result": result}));
        let name = &input_request["params"]["message"];
        let (_, id) =
            ids.iter().find(|(known, _)| name == known).expect("an input request of a call");
        let given: Value = serde_json::from_str(text_of(&client.response(*id))).expect("JSON");
        assert_eq!(given["content"]["name"], *name, "{given}");
    }
}

#[test]
fn declined_and_failed_answers_reach_the_call() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::new(&["--era", era]);
        for kind in [MODERN_TCP, MODERN_HTTP] {
            let mut client = Client::with_capabilities(&gateway, kind, all_inputs());
            let params = json!({"name": "ask", "arguments": {}});
            let response = client.request("tools/call", params.clone());
            let input_requests =
                response["result"]["inputRequests"].as_object().expect("input_requests");
            let answers: Value = input_requests
                .keys()
                .map(|key| (key.clone(), json!({"action": "decline"})))
                .collect();
            let ended = client.request("tools/call", retry(&params, &response, answers));
            let given: Value = serde_json::from_str(text_of(&ended)).expect("JSON");
            assert_eq!(given["action"], "decline", "{era}");
        }
        gateway.end();
    }
}

#[test]
fn cancelled_input_request_ends_its_call() {
    in_every_cell(&[], |gateway, kind, era| {
        if kind.revision == "2026-07-28" || era == "modern" {
            return;
        }
        let mut client = Client::with_capabilities(gateway, kind, all_inputs());
        client.holds_input_requests = true;
        let id = client.start("tools/call", json!({"name": "ask", "arguments": {}}));
        client.handle_next(id);
        client.cancel(id);
        while client.state()["waiting"] != 0 {}
    });
}

#[test]
fn input_request_without_client_has_error() {
    let gateway = Gateway::with_keys("share = \"all\"", &[]);
    for kind in KINDS {
        for (tool, _) in ASKING {
            let mut client = gateway.client(kind);
            let response = client.call(tool, json!({}));
            assert_eq!(response["result"]["isError"], true, "{response}");
            assert!(client.input_requests.is_empty(), "{:?}", client.input_requests);
        }
    }
    gateway.end();
}
