//! What operators see of the upstreams of a running gateway.

use std::collections::BTreeSet;

use corelane_test_support::promtool::check_metrics;
use corelane_test_support::{HttpClient, Request};
use serde_json::{Value, json};

use crate::client::error_text;
use crate::gateway::{Gateway, KINDS, LEGACY_TCP, MODERN_HTTP, TOKEN_FIELD, eventually, upstream};

/// The document `/upstreams` of a gateway.
fn document(gateway: &Gateway) -> Value {
    let request = Request::new("GET", "/upstreams").field("Authorization", TOKEN_FIELD);
    let response = HttpClient::connect(gateway.http).exchange(&request);
    assert_eq!(response.status(), 200);
    response.message()
}

/// What the gateway shows of one upstream.
pub(crate) fn status(gateway: &Gateway, name: &str) -> Value {
    let document = document(gateway);
    let upstreams = document["upstreams"].as_array().expect("a list");
    let found = upstreams.iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {document}")).clone()
}

#[test]
fn failed_upstream_shows_error_and_stderr() {
    let script = "printf 'cannot \\033[31mstart\\n' >&2; exit 3";
    let bad = format!(
        "[[upstream]]\nname = \"bad\"\ncommand = {:?}\nenv = {{ TOKEN = \"secret-of-env\" }}\n",
        ["sh", "-c", script, "secret-of-arguments"]
    );
    let good = upstream("good", "share = \"all\"", &["--tools", "2"]);
    let gateway = Gateway::declared(&(bad + &good), &[]);
    eventually("the second failure", || status(&gateway, "bad")["list_failures"] == 2);
    let bad = status(&gateway, "bad");
    assert_eq!(bad["state"], "failed", "{bad}");
    assert!(bad["error"].as_str().is_some_and(|it| it.contains("status 3")), "{bad}");
    assert!(bad["retry_in_ms"].as_u64().is_some_and(|it| it <= 500), "{bad}");
    assert_eq!(bad["target"], "stdio:sh");
    assert_eq!((&bad["revision"], &bad["offered"]), (&Value::Null, &Value::Null));
    assert_eq!(bad["children"], json!({"open": 0, "started": 0, "restarts": 0}));
    let lines = bad["stderr"].as_array().expect("lines");
    assert!(lines.contains(&json!("cannot \\u{1b}[31mstart")), "{bad}");
    let good = status(&gateway, "good");
    assert_eq!((&good["state"], &good["error"]), (&json!("ready"), &Value::Null));
    assert_eq!((&good["revision"], &good["share"]), (&json!("2025-11-25"), &json!("all")));
    assert_eq!(good["children"], json!({"open": 1, "started": 1, "restarts": 0}));
    assert!(good["offered"]["tools"].as_u64().is_some_and(|it| it >= 2), "{good}");
    assert!(good["server"]["name"].is_string(), "{good}");
    assert!(!document(&gateway).to_string().contains("secret"));
    // The lines of a program are in the log, too.
    assert!(gateway.end().contains("line=\"cannot"));
}

#[test]
fn calls_are_counted_by_outcome() {
    let gateway = Gateway::with_keys("share = \"all\"\ncall_timeout = \"400ms\"\n", &[]);
    for kind in [LEGACY_TCP, MODERN_HTTP] {
        let mut client = gateway.client(kind);
        for _ in 0..3 {
            client.text("echo", json!({"message": "hello"}));
        }
        assert_eq!(client.call("fail", json!({}))["result"]["isError"], true);
        assert_eq!(client.call("error", json!({}))["error"]["code"], -32050);
        let slow = json!({"release": "/no/such/file"});
        assert!(error_text(&client.call("slow", slow)).contains("not answered in time"));
        client.result("prompts/list", json!({}));
    }
    let calls = status(&gateway, "fixture");
    let tool = |name: &str| {
        let tools = calls["tools"].as_array().expect("a list");
        tools.iter().find(|tool| tool["name"] == name).expect("a tool").clone()
    };
    let all = &calls["calls"];
    assert_eq!((&all["total"], &all["in_flight"]), (&json!(12), &json!(0)), "{all}");
    assert_eq!((&all["result"], &tool("echo")["result"]), (&json!(6), &json!(6)));
    assert_eq!((&all["tool_error"], &tool("fail")["tool_error"]), (&json!(2), &json!(2)));
    assert_eq!((&all["error"], &tool("error")["error"]), (&json!(2), &json!(2)));
    assert_eq!((&all["timeout"], &tool("slow")["timeout"]), (&json!(2), &json!(2)));
    let ms = |name: &str| all[name].as_f64().expect("a number");
    assert!(ms("p50_ms") <= ms("p99_ms") && ms("p99_ms") >= 350.0, "{all}");
    gateway.end();
}

#[test]
fn cancelled_call_leaves_calls_in_flight() {
    let gateway = Gateway::with_keys("share = \"all\"", &[]);
    for (count, kind) in [LEGACY_TCP, MODERN_HTTP].into_iter().enumerate() {
        let mut client = gateway.client(kind);
        let slow = json!({"name": "slow", "arguments": {"release": "/no/such/file"}});
        let id = client.start("tools/call", slow);
        let of = |name: &str| status(&gateway, "fixture")["calls"][name].clone();
        eventually("a call in flight", || of("in_flight") == 1);
        client.cancel(id);
        eventually("no call in flight", || of("in_flight") == 0);
        assert_eq!(of("cancelled"), count + 1);
    }
    gateway.end();
}

#[test]
fn ended_program_counts_as_restarted() {
    let gateway = Gateway::with_keys("share = \"all\"", &[]);
    let mut client = gateway.client(LEGACY_TCP);
    let children =
        |open, started, restarts| json!({"open": open, "started": started, "restarts": restarts});
    assert_eq!(status(&gateway, "fixture")["children"], children(1, 1, 0));
    client.call("stderr", json!({"message": "last words"}));
    assert!(error_text(&client.call("exit", json!({"status": 3}))).contains("status 3"));
    client.text("echo", json!({"message": "hello"}));
    let shown = status(&gateway, "fixture");
    assert_eq!(shown["children"], children(1, 2, 1));
    assert_eq!(shown["calls"]["failed"], 1);
    assert_eq!(shown["stderr"], json!(["last words"]));
    gateway.end();
}

#[test]
fn programs_of_sessions_are_counted() {
    let gateway = Gateway::new(&[]);
    let open = || status(&gateway, "fixture")["children"]["open"].clone();
    let mut clients = [(); 3].map(|()| gateway.client(LEGACY_TCP));
    for client in &mut clients {
        client.text("echo", json!({"message": "hello"}));
    }
    // With the one that lists are read from.
    assert_eq!(open(), 4);
    drop(clients);
    eventually("one program", || open() == 1);
    assert_eq!(status(&gateway, "fixture")["children"]["started"], 4);
    assert_eq!(status(&gateway, "fixture")["share"], "session");
    gateway.end();
}

#[test]
fn address_is_shown_without_path_and_headers() {
    let backend = Gateway::with_keys("share = \"all\"", &[]);
    let declaration = format!(
        "[[upstream]]\nname = \"far\"\nurl = \"http://{}/mcp?key=secret-of-query\"\n\
         headers = {{ X-Key = \"secret-of-header\" }}\n",
        backend.http
    );
    let gateway = Gateway::declared(&declaration, &[]);
    gateway.client(MODERN_HTTP).text("echo", json!({"message": "hello"}));
    let shown = status(&gateway, "far");
    assert_eq!(shown["target"], format!("http://{}", backend.http));
    assert_eq!((&shown["state"], &shown["children"]["open"]), (&json!("ready"), &json!(1)));
    assert!(!shown.to_string().contains("secret"), "{shown}");
    gateway.end();
    backend.end();
}

#[test]
fn metrics_have_calls_of_each_tool() {
    let bad = "[[upstream]]\nname = \"bad\"\ncommand = [\"/no/such/program\"]\n";
    let good = upstream("good", "share = \"all\"", &[]);
    let gateway = Gateway::declared(&(bad.to_owned() + &good), &[]);
    let mut client = gateway.client(LEGACY_TCP);
    for _ in 0..3 {
        client.text("echo", json!({"message": "hello"}));
    }
    client.call("error", json!({}));
    client.result("prompts/list", json!({}));
    let response = HttpClient::connect(gateway.http).exchange(&Request::new("GET", "/metrics"));
    let text = String::from_utf8(response.body).expect("UTF-8");
    for line in [
        "corelane_upstream_ready{upstream=\"bad\"} 0",
        "corelane_upstream_ready{upstream=\"good\"} 1",
        "corelane_upstream_calls_in_flight{upstream=\"good\"} 0",
        "corelane_upstream_children{upstream=\"good\"} 1",
        "corelane_upstream_children_started_total{upstream=\"good\"} 1",
        "corelane_upstream_restarts_total{upstream=\"good\"} 0",
        "corelane_upstream_list_failures_total{upstream=\"good\"} 0",
        "corelane_upstream_calls_total{upstream=\"good\",outcome=\"result\"} 3",
        "corelane_upstream_calls_total{upstream=\"good\",outcome=\"error\"} 1",
        "corelane_upstream_call_seconds_count{upstream=\"good\"} 4",
        "corelane_upstream_call_seconds_bucket{upstream=\"good\",le=\"+Inf\"} 4",
        "corelane_upstream_tool_calls_total{upstream=\"good\",tool=\"echo\",outcome=\"result\"} 3",
        "corelane_upstream_tool_call_seconds_count{upstream=\"good\",tool=\"error\"} 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    // The samples of a metric follow its one head.
    let heads: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix("# TYPE ")).collect();
    let names: BTreeSet<&str> = heads.iter().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(names.len(), heads.len(), "{heads:?}");
    gateway.end();
}

#[test]
#[ignore = "needs promtool: ./test.sh installs it and runs the test"]
fn metrics_of_upstreams_pass_promtool() {
    let gateway = Gateway::with_keys("share = \"all\"", &[]);
    gateway.client(LEGACY_TCP).text("echo", json!({"message": "hello"}));
    let response = HttpClient::connect(gateway.http).exchange(&Request::new("GET", "/metrics"));
    let ended = check_metrics(env!("CARGO_TARGET_TMPDIR"), &response.body);
    let problems = String::from_utf8_lossy(&ended.stderr).into_owned();
    let is_ours = |line: &&str| line.contains("upstream") || line.contains("error");
    let found: Vec<&str> = problems.lines().filter(is_ours).collect();
    // Status 3: the text is valid, and names of the parity dialect break conventions.
    assert!(ended.status.code() == Some(3) && found.is_empty(), "{ended:?}");
    gateway.end();
}

#[test]
fn entries_name_their_upstream() {
    let gateway = Gateway::declared(&upstream("one", "", &[]), &[]);
    for kind in KINDS {
        let mut client = gateway.client(kind);
        for (method, list) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let result = client.result(method, json!({}));
            let entries = result[list].as_array().expect("a list");
            assert!(!entries.is_empty(), "{method}");
            let named = entries.iter().all(|entry| entry["_meta"]["corelane/source"] == "one");
            assert!(named, "{kind:?}: {result}");
        }
    }
    gateway.end();
}
