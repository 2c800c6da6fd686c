//! Tool calls that run as tasks of the server, in both generations.

use std::time::Duration;

use corelane::client::{
    self, Change, ClientBuilder, ClientErrorKind, EraPreference, SubscriptionFilter, TaskInfo,
    TaskStatus, ToolInfo,
};
use corelane::model::{
    ElicitAction, ElicitRequest, ElicitResult, Field, Form, Implementation, Revision,
};
use corelane::testing::block_on;
use corelane::{CallToolResult, Catalog, NoArguments, RequestContext, TaskSupport, Tool};
use corelane_test_support::server::Gate;
use corelane_test_support::{TestServer, http_options, tcp_options};
use serde_json::{Value, json};

use super::{client_of, http};

/// The revisions that have tasks.
const GENERATIONS: [EraPreference; 2] =
    [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)];

/// | tool | tasks | behaviour |
/// | --- | --- | --- |
/// | `plain` | never | returns `plain` |
/// | `hold` | optional | waits for the gate |
/// | `ask` | optional | elicits a name |
/// | `fail` | required | returns a result with `isError` |
pub(crate) fn catalog(gate: &Gate) -> Catalog {
    let gate = gate.clone();
    let tools = [
        Tool::new("plain").local(|_: NoArguments, _| async { Ok(CallToolResult::text("plain")) }),
        Tool::new("hold").task_support(TaskSupport::Optional).local(
            move |_: NoArguments, ctx: RequestContext| {
                let gate = gate.clone();
                async move {
                    gate.signal("begun");
                    gate.wait(&ctx).await?;
                    Ok(CallToolResult::text("held"))
                }
            },
        ),
        Tool::new("ask").task_support(TaskSupport::Optional).local(
            |_: NoArguments, ctx: RequestContext| async move {
                let form = Form::new().field(Field::text("name").required());
                let user = ctx.elicit("name", ElicitRequest::form("Who?", form)).await?;
                let name = user.content.get("name").and_then(Value::as_str).unwrap_or_default();
                Ok(CallToolResult::text(format!("Hello, {name}!")))
            },
        ),
        Tool::new("fail")
            .task_support(TaskSupport::Required)
            .local(|_: NoArguments, _| async { Ok(CallToolResult::error("no luck")) }),
    ];
    let catalog = Catalog::builder(Implementation::new("tasks", "1.0.0")).tools(tools);
    catalog.build().expect("valid catalog")
}

/// Runs `test` over TCP and HTTP in each generation.
fn in_each_generation(test: impl Fn(&TestServer, ClientBuilder)) {
    for era in GENERATIONS {
        for mut options in [tcp_options(), http_options()] {
            options.engine.drain_timeout = Duration::from_millis(100);
            let is_http = options.http.address.is_some();
            let server = TestServer::with_gate(options, catalog);
            let client = if is_http { http::client_of(&server) } else { client_of(&server) };
            test(&server, client.era(era));
        }
    }
}

#[test]
fn task_has_status_and_result() {
    in_each_generation(|server, client| {
        let client = client.connect_blocking().unwrap();
        let task = client.call_tool("hold", &json!({})).task(Duration::from_mins(1)).wait();
        let task = task.unwrap();
        assert_eq!(server.next_signal(), "begun");
        let id = task.id().unwrap();
        assert_eq!(task.info().unwrap().status, TaskStatus::Working);
        assert!(task.info().unwrap().ttl().is_some());
        let status = task.status().wait().unwrap();
        assert_eq!((status.task_id.as_str(), status.status), (id, TaskStatus::Working));
        server.open_gate();
        assert_eq!(task.result().wait().unwrap().text(), "held");
        assert_eq!(task.status().wait().unwrap().status, TaskStatus::Completed);
        // Another client, or the same one later, knows the task by its id.
        assert_eq!(client.task(id).result().wait().unwrap().text(), "held");
    });
}

#[test]
fn task_input_comes_from_the_same_handlers() {
    in_each_generation(|_, client| {
        let client = client.on_elicitation(async |question| {
            assert_eq!(question.message, "Who?");
            let content = json!({ "name": "Ada" }).as_object().unwrap().clone();
            Ok(ElicitResult { action: ElicitAction::Accept, content })
        });
        let client = client.connect_blocking().unwrap();
        let task = client.call_tool("ask", &json!({})).task(None).wait().unwrap();
        assert_eq!(task.result().wait().unwrap().text(), "Hello, Ada!");
        // A modern server makes a task of the plain call, too.
        let result = client.call_tool("ask", &json!({})).wait().unwrap();
        assert_eq!(result.text(), "Hello, Ada!");
    });
}

#[test]
fn cancelled_task_has_no_result() {
    in_each_generation(|server, client| {
        let client = client.connect_blocking().unwrap();
        let task = client.call_tool("hold", &json!({})).task(None).wait().unwrap();
        assert_eq!(server.next_signal(), "begun");
        block_on(task.cancel()).unwrap();
        let error = task.result().wait().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::TaskCancelled, "{error}");
        assert_eq!(task.status().wait().unwrap().status, TaskStatus::Cancelled);
    });
}

#[test]
fn failed_tool_of_task_is_a_result() {
    in_each_generation(|_, client| {
        let client = client.connect_blocking().unwrap();
        let task = client.call_tool("fail", &json!({})).task(None).wait().unwrap();
        let result = task.result().wait().unwrap();
        assert!(result.is_error, "{result:?}");
        assert_eq!(result.text(), "no luck");
        let error = client.task("unknown").result().wait().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32602 });
    });
}

#[test]
fn call_waits_for_task_that_the_server_made() {
    for options in [tcp_options(), http_options()] {
        let is_http = options.http.address.is_some();
        let server = TestServer::with_gate(options, catalog);
        let client = if is_http { http::client_of(&server) } else { client_of(&server) };
        let client = client.connect_blocking().unwrap();
        let call = client.call_tool("hold", &json!({})).into_future();
        assert_eq!(server.next_signal(), "begun");
        server.open_gate();
        assert_eq!(block_on(call).unwrap().text(), "held");
        assert_eq!(client.call_tool("fail", &json!({})).wait().unwrap().text(), "no luck");
        // Whether a call becomes a task is up to the server.
        let plain = client.call_tool("plain", &json!({})).task(None).wait().unwrap();
        assert_eq!((plain.id(), plain.info()), (None, None));
        assert_eq!(plain.status().wait().unwrap().status, TaskStatus::Completed);
        assert_eq!(plain.result().wait().unwrap().text(), "plain");
    }
}

#[test]
fn subscription_notifies_of_end_of_task() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    let client = client_of(&server).connect_blocking().unwrap();
    let task = client.call_tool("hold", &json!({})).task(None).wait().unwrap();
    let id = task.id().unwrap();
    let filter = SubscriptionFilter::default().task(id);
    let mut changes = block_on(client.subscribe(&filter)).unwrap();
    assert_eq!(changes.granted(), &filter);
    server.open_gate();
    let change = block_on(changes.next()).unwrap().unwrap();
    assert_eq!(change, Change::Task { id: id.to_owned() });
    assert_eq!(task.result().wait().unwrap().text(), "held");
}

#[test]
fn client_without_tasks_gets_results_only() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    server.open_gate();
    let client = client_of(&server).tasks(false).connect_blocking().unwrap();
    assert_eq!(client.call_tool("hold", &json!({})).wait().unwrap().text(), "held");
    let error = client.call_tool("fail", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32021 });
}

#[test]
fn tasks_are_listed() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    let client = client_of(&server).era(GENERATIONS[1]).connect_blocking().unwrap();
    let tasks: Vec<_> =
        (0..3).map(|_| client.call_tool("hold", &json!({})).task(None).wait().unwrap()).collect();
    let listed: Vec<TaskInfo> = block_on(client.pages().collect()).unwrap();
    for task in &tasks {
        assert!(listed.iter().any(|info| Some(info.task_id.as_str()) == task.id()));
    }
    assert_eq!(listed.len(), 3);
    let modern = client_of(&server).connect_blocking().unwrap();
    let error = block_on(modern.pages::<TaskInfo>().collect()).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported);
}

#[test]
fn listed_task_support_is_enforced_locally() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    server.open_gate();
    let client = client_of(&server).era(GENERATIONS[1]).connect_blocking().unwrap();
    let tools: Vec<ToolInfo> = block_on(client.list_tools()).unwrap();
    let support = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap().task_support();
    assert_eq!(
        [support("plain"), support("hold"), support("fail")],
        [
            client::TaskSupport::Forbidden,
            client::TaskSupport::Optional,
            client::TaskSupport::Required
        ]
    );
    let error = client.call_tool("plain", &json!({})).task(None).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
    let error = client.call_tool("fail", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
    assert_eq!(client.call_tool("hold", &json!({})).wait().unwrap().text(), "held");
    drop(client);
    assert_eq!(server.close().requests.tools_call, 1);
}

#[test]
fn revision_without_tasks_refuses_task_locally() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    let era = EraPreference::Legacy(Revision::V2025_06_18);
    let client = client_of(&server).era(era).connect_blocking().unwrap();
    let error = client.call_tool("hold", &json!({})).task(None).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
}
