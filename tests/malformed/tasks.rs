//! Requests for tasks that name none, say nothing, or come too late or twice; in both generations.

use std::time::Duration;

use corelane::Catalog;
use corelane::protocol::message::ServerInfo;
use corelane::server::Options;
use corelane::service::demo;
use serde_json::{Value, json};

use crate::client::{Client, LEGACY, MODERN, echo, expect_error, initialize, modern, request};
use crate::judged::judge;
use crate::stage::{Stage, over_each_ring};

/// A server with the fixture, which has tools that run as tasks. Some of them would take minutes.
fn open(mut options: Options) -> Stage {
    options.engine.drain_max = Duration::from_millis(50);
    let catalog = demo::offer(Catalog::builder(ServerInfo::new("malformed", "1.0.0")));
    Stage::offering(options, catalog.build().expect("the fixture"))
}

/// A connection of one generation, and the requests on it.
struct Asker {
    client: Client,
    revision: &'static str,
    id_next: u64,
}

impl Asker {
    fn modern(stage: &Stage) -> Self {
        Self { client: stage.connect(), revision: MODERN, id_next: 1 }
    }

    fn core(stage: &Stage) -> Self {
        Self::legacy(stage, LEGACY)
    }

    fn legacy(stage: &Stage, revision: &'static str) -> Self {
        let mut asker = Self { client: stage.connect(), revision, id_next: 1 };
        let mut hello = initialize(0, revision);
        hello["params"]["capabilities"] = json!({"elicitation": {}});
        asker.client.ask(hello);
        asker.client.send(crate::client::notification("notifications/initialized"));
        asker
    }

    /// Sends a request and waits for its answer, which must be told in the words of the revision.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut request = request(self.id_next, method, params);
        if self.revision == MODERN && request["params"].is_object() {
            let known = json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
            request = modern(request);
            request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = known;
        }
        self.send(&request)
    }

    fn send(&mut self, request: &Value) -> Value {
        self.client.send(request);
        self.id_next += 1;
        loop {
            let answer = self.client.answer();
            if answer.get("method").is_some() {
                continue;
            }
            assert_eq!(answer["id"], request["id"], "{answer}");
            if answer.get("error").is_some() {
                judge::judge(self.revision, &answer, None).unwrap_or_else(|it| panic!("{it}"));
            }
            return answer;
        }
    }

    /// The request must fail with this code, and be the only thing that does.
    #[track_caller]
    fn refused(&mut self, code: i64, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        expect_error(&answer, code, Some(json!(self.id_next - 1)));
        answer
    }

    /// Begins a task and tells its name.
    #[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
    fn begin(&mut self, tool: &str, arguments: Value) -> String {
        let mut params = json!({"name": tool, "arguments": arguments});
        if self.revision == LEGACY {
            params["task"] = json!({});
        }
        let answer = self.ask("tools/call", params);
        let result = &answer["result"];
        let task = if self.revision == MODERN { result } else { &result["task"] };
        task["taskId"].as_str().unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
    }

    /// Begins a task that takes longer than any test.
    fn begin_long(&mut self) -> String {
        self.begin("slow_compute", json!({"seconds": 600}))
    }

    fn status(&mut self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id}))["result"]["status"].take()
    }

    /// Asks until the task stands so.
    fn until(&mut self, id: &str, status: &str) {
        while self.status(id) != status {}
    }

    /// Asks until the task is not known any more.
    fn until_unknown(&mut self, id: &str) {
        while self.ask("tasks/get", json!({"taskId": id})).get("error").is_none() {}
    }

    fn expect_alive(&mut self) {
        let mut request = echo(self.id_next, "still here");
        if self.revision == MODERN {
            request = modern(request);
        }
        assert_eq!(crate::client::echoed(&self.send(&request)), "still here");
    }
}

/// Names that were never given out.
fn garbage() -> Vec<String> {
    ["", " ", "x", "../..", "0", "\u{0}", "日本語", "task/0/first", "null", "-1"]
        .into_iter()
        .map(str::to_owned)
        .chain(["0", "f", "F", "g", "é"].map(|digit| digit.repeat(32)))
        .chain([format!("0x{}", "0".repeat(30)), format!("+{}", "0".repeat(31))])
        .chain(["0".repeat(31), "0".repeat(33), "a".repeat(200_000)])
        .collect()
}

/// What is no name at all.
fn no_names() -> Vec<Value> {
    let wrong = [json!(7), json!(-1.5), json!(null), json!(true), json!([]), json!({})];
    let members = wrong.into_iter().map(|wrong| json!({"taskId": wrong}));
    let others = [json!({}), json!({"task": "x"}), json!({"taskid": "x"}), json!({"TASKID": "x"})];
    members.chain(others).collect()
}

/// The methods of a generation that name a task.
const METHODS: [(&str, &[&str]); 2] = [
    (LEGACY, &["tasks/get", "tasks/result", "tasks/cancel"]),
    (MODERN, &["tasks/get", "tasks/update", "tasks/cancel"]),
];

fn asker(stage: &Stage, revision: &str) -> Asker {
    if revision == MODERN { Asker::modern(stage) } else { Asker::core(stage) }
}

#[test]
fn names_that_nobody_gave_out_are_invalid_params() {
    over_each_ring(|options| {
        let stage = open(options);
        for (revision, methods) in METHODS {
            let mut asker = asker(&stage, revision);
            let own = asker.begin_long();
            for method in methods {
                for name in garbage().into_iter().chain([own.to_uppercase(), format!("{own} ")]) {
                    let params = json!({"taskId": name, "inputResponses": {}});
                    asker.refused(-32602, method, params);
                }
                for mut params in no_names() {
                    params["inputResponses"] = json!({});
                    asker.refused(-32602, method, params);
                }
            }
            assert_eq!(asker.status(&own), "working");
            asker.expect_alive();
        }
        stage.close();
    });
}

#[test]
fn a_name_that_is_said_twice_or_in_no_object_is_refused() {
    over_each_ring(|options| {
        let stage = open(options);
        let mut asker = Asker::core(&stage);
        let own = asker.begin_long();
        let twice = format!(r#"{{"taskId":"{own}","taskId":"{own}"}}"#);
        for params in [twice.as_str(), "[]", "7", "\"x\"", "null", "[{}]"] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":"odd","method":"tasks/cancel","params":{params}}}"#
            );
            let answer = asker.client.ask(text);
            let code = answer["error"]["code"].as_i64();
            assert!(matches!(code, Some(-32602 | -32600)), "{params}: {answer}");
        }
        assert_eq!(asker.status(&own), "working");
        stage.close();
    });
}

#[test]
fn a_task_whose_time_is_over_is_as_unknown_as_any() {
    over_each_ring(|mut options| {
        options.limits.task_ttl = Duration::from_millis(50);
        options.limits.task_ttl_max = Duration::from_millis(50);
        let stage = open(options);
        for (revision, methods) in METHODS {
            let mut asker = asker(&stage, revision);
            let never = asker.refused(-32602, "tasks/get", json!({"taskId": "0".repeat(32)}));
            for arguments in [json!({"seconds": 600}), json!({"seconds": 0})] {
                let own = asker.begin("slow_compute", arguments);
                asker.until_unknown(&own);
                for method in methods {
                    let params = json!({"taskId": own, "inputResponses": {}});
                    let answer = asker.refused(-32602, method, params);
                    assert_eq!(answer["error"], never["error"]);
                }
            }
            asker.expect_alive();
        }
        stage.close();
    });
}

#[test]
fn each_generation_has_its_own_methods_and_its_own_tasks() {
    over_each_ring(|options| {
        let stage = open(options);
        let (mut core, mut modern) = (Asker::core(&stage), Asker::modern(&stage));
        let (old, new) = (core.begin_long(), modern.begin_long());
        for id in [&old, &new] {
            modern.refused(-32601, "tasks/result", json!({"taskId": id}));
            let params = json!({"taskId": id, "inputResponses": {}});
            core.refused(-32601, "tasks/update", params);
        }
        modern.refused(-32601, "tasks/list", json!({}));
        core.refused(-32602, "tasks/get", json!({"taskId": new}));
        core.refused(-32602, "tasks/cancel", json!({"taskId": new}));
        core.refused(-32602, "tasks/result", json!({"taskId": new}));
        modern.refused(-32602, "tasks/get", json!({"taskId": old}));
        modern.refused(-32602, "tasks/cancel", json!({"taskId": old}));
        for cursor in [json!("x"), json!(7), json!(""), json!("0".repeat(16))] {
            core.refused(-32602, "tasks/list", json!({"cursor": cursor}));
        }
        for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
            let mut earlier = Asker::legacy(&stage, revision);
            for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
                earlier.refused(-32601, method, json!({"taskId": old}));
            }
        }
        stage.close();
    });
}

#[test]
fn who_does_not_know_tasks_is_told_what_is_missing() {
    over_each_ring(|options| {
        let stage = open(options);
        let own = Asker::modern(&stage).begin_long();
        let mut client = stage.connect();
        let required = json!({"extensions": {EXTENSION: {}}});
        let ids = json!({"taskIds": [own]});
        for (method, params) in [
            ("tasks/get", json!({"taskId": own})),
            ("tasks/get", json!({"taskId": 7})),
            ("tasks/update", json!({"taskId": own, "inputResponses": {}})),
            ("tasks/cancel", json!({"taskId": own})),
            ("tools/call", json!({"name": "failing_job", "arguments": {}})),
            ("tools/call", json!({"name": "test_tool_with_task", "arguments": {}})),
            ("subscriptions/listen", json!({"notifications": ids})),
        ] {
            let answer = client.ask(modern(request(1, method, params)));
            expect_error(&answer, -32021, Some(json!(1)));
            assert_eq!(answer["error"]["data"]["requiredCapabilities"], required, "{answer}");
        }
        // Neither generation has this for it.
        for method in ["tasks/result", "tasks/list"] {
            let answer = client.ask(modern(request(2, method, json!({"taskId": own}))));
            expect_error(&answer, -32601, Some(json!(2)));
        }
        stage.close();
    });
}

#[test]
fn answers_that_are_none_change_nothing_and_those_that_nobody_asked_for_are_passed_over() {
    over_each_ring(|options| {
        let stage = open(options);
        let mut asker = Asker::modern(&stage);
        let own = asker.begin("multi_input", json!({}));
        asker.until(&own, "input_required");
        let good = json!({"action": "accept", "content": {"confirm": true}});
        for responses in [
            json!(7),
            json!([]),
            json!("first"),
            json!(null),
            json!({"first": null}),
            json!({"first": 7}),
            json!({"first": {}}),
            json!({"first": {"action": "perhaps"}}),
            json!({"first": {"action": "accept", "content": 7}}),
            json!({"first": good, "second": {"action": 7}}),
            json!({"first": good, "second": []}),
        ] {
            let params = json!({"taskId": own, "inputResponses": responses});
            asker.refused(-32602, "tasks/update", params);
        }
        asker.refused(-32602, "tasks/update", json!({"taskId": own}));
        for responses in [json!({}), json!({"third": 7, "": null, "FIRST": good})] {
            let params = json!({"taskId": own, "inputResponses": responses});
            let answer = asker.ask("tasks/update", params);
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        }
        let shown = asker.ask("tasks/get", json!({"taskId": own}));
        let open = shown["result"]["inputRequests"].as_object().expect("questions");
        assert_eq!(open.keys().collect::<Vec<_>>(), ["first", "second"], "{shown}");
        let answers = json!({"taskId": own, "inputResponses": {"first": good, "second": good}});
        asker.ask("tasks/update", answers.clone());
        asker.until(&own, "completed");
        // Too late is no fault.
        for params in [answers, json!({"taskId": own, "inputResponses": {"first": 7}})] {
            let answer = asker.ask("tasks/update", params);
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        }
        assert_eq!(asker.status(&own), "completed");
        stage.close();
    });
}

#[test]
fn a_task_ends_once_however_often_it_is_cancelled() {
    over_each_ring(|options| {
        let stage = open(options);
        let mut modern = Asker::modern(&stage);
        let mut core = Asker::core(&stage);
        let (new, old) = (modern.begin_long(), core.begin_long());
        for _ in 0..3 {
            let answer = modern.ask("tasks/cancel", json!({"taskId": new}));
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        }
        core.ask("tasks/cancel", json!({"taskId": old}));
        for _ in 0..2 {
            core.refused(-32602, "tasks/cancel", json!({"taskId": old}));
            core.refused(-32603, "tasks/result", json!({"taskId": old}));
        }
        let done = core.begin("slow_compute", json!({"seconds": 0}));
        core.ask("tasks/result", json!({"taskId": done}));
        core.refused(-32602, "tasks/cancel", json!({"taskId": done}));
        assert_eq!(
            (modern.status(&new), core.status(&old)),
            (json!("cancelled"), json!("cancelled"))
        );
        assert_eq!(stage.close().requests.tasks_cancelled, 2);
    });
}

#[test]
fn a_wish_for_a_task_that_is_none_is_refused_where_it_means_something() {
    over_each_ring(|options| {
        let stage = open(options);
        let wrong = [
            json!(7),
            json!("60000"),
            json!(true),
            json!([]),
            json!({"ttl": -1}),
            json!({"ttl": 1.5}),
            json!({"ttl": "60000"}),
            json!({"ttl": true}),
            json!({"ttl": {}}),
        ];
        let mut core = Asker::core(&stage);
        let mut modern = Asker::modern(&stage);
        for task in wrong {
            for tool in ["slow_compute", "test_tool_with_task"] {
                let arguments = json!({"seconds": 600});
                let params = json!({"name": tool, "arguments": arguments, "task": task});
                core.refused(-32602, "tools/call", params);
            }
            // From 2026-07-28 on there is no such member.
            let arguments = json!({"message": "x"});
            let params = json!({"name": "echo", "arguments": arguments, "task": task});
            let answer = modern.ask("tools/call", params);
            assert_eq!(crate::client::echoed(&answer), "x", "{answer}");
        }
        let params = json!({"name": "echo", "arguments": {"message": "x"}, "task": {}});
        core.refused(-32601, "tools/call", params);
        core.refused(-32601, "tools/call", json!({"name": "failing_job", "arguments": {}}));
        assert_eq!(stage.close().requests.tasks_begun, 0);
    });
}

#[test]
fn names_to_listen_to_that_are_none_are_refused() {
    over_each_ring(|options| {
        let stage = open(options);
        let mut asker = Asker::modern(&stage);
        for wrong in [json!(7), json!("x"), json!({}), json!([7]), json!([null]), json!(["x", []])]
        {
            let params = json!({"notifications": {"taskIds": wrong}});
            asker.refused(-32602, "subscriptions/listen", params);
        }
        asker.expect_alive();
        assert_eq!(stage.close().subscriptions.opened, 0);
    });
}

#[test]
fn a_round_before_a_task_takes_no_answer_that_is_none_and_no_state_that_is_not_its_own() {
    over_each_ring(|options| {
        let stage = open(options);
        let mut peer = Asker::modern(&stage);
        let mut call = |more: &[(&str, Value)]| {
            let mut params = json!({"name": "test_tool_with_task", "arguments": {}});
            for (key, value) in more {
                params[*key] = value.clone();
            }
            peer.ask("tools/call", params)
        };
        for state in [json!(7), json!(""), json!("x"), json!("A".repeat(1000))] {
            let answer = call(&[("requestState", state)]);
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        let sealed = |asked: &Value| ("requestState", asked["result"]["requestState"].clone());
        let asked = call(&[]);
        let wrong = json!({"user_name": {"action": "perhaps"}});
        let answer = call(&[sealed(&asked), ("inputResponses", wrong)]);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        // An answer to something else is none to this: it asks again.
        let asked = call(&[]);
        let other = json!({"password": {"action": "accept", "content": {}}});
        let again = call(&[sealed(&asked), ("inputResponses", other)]);
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
        let named = json!({"user_name": {"action": "accept", "content": {"name": "Ada"}}});
        let begun = call(&[sealed(&again), ("inputResponses", named.clone())]);
        assert_eq!(begun["result"]["resultType"], "task", "{begun}");
        let again = call(&[sealed(&again), ("inputResponses", named)]);
        assert_eq!(again["error"]["code"], -32602, "the state is spent: {again}");
        assert_eq!(stage.close().requests.tasks_begun, 1);
    });
}

#[test]
fn a_storm_of_tasks_whose_clients_go_leaves_nothing_that_runs() {
    over_each_ring(|mut options| {
        options.limits.tasks_max = 50;
        let stage = open(options);
        for revision in [LEGACY, MODERN] {
            let mut asker = asker(&stage, revision);
            let tasks: Vec<_> = (0..20).map(|_| asker.begin_long()).collect();
            for id in &tasks[..10] {
                asker.ask("tasks/cancel", json!({"taskId": id}));
            }
            asker.client.reset();
        }
        let counters = stage.close();
        assert_eq!(counters.requests.tasks_begun, 40, "{counters}");
        assert_eq!(counters.requests.tasks_cancelled, 40, "{counters}");
    });
}

/// The key of the extension.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
