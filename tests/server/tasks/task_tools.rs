//! A server with tools that run as tasks and wait for the test.

use std::time::Duration;

use corelane::{
    BlockingContext, CallToolResult, Catalog, HandlerError, NoArguments, Options, RequestContext,
    TaskSupport, Tool,
};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::error::Error;
use corelane_protocol::model::{ElicitRequest, Field, Form, Implementation};
use corelane_test_support::server::Gate;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::Value;

/// Starts a server with the tools of [`tools`].
pub(crate) fn start_server(options: Options) -> TestServer {
    TestServer::with_gate(options, |gate| {
        let catalog = Catalog::builder(Implementation::new("tasks", "1.0.0")).tools(tools(gate));
        catalog.build().expect("valid catalog")
    })
}

/// Options of a small server with a short drain.
pub(crate) fn options() -> Options {
    let mut options = tcp_options();
    options.engine.drain_timeout = Duration::from_millis(100);
    options
}

pub(crate) fn two_shard_options() -> Options {
    let mut options = options();
    options.engine.shards = Some(2);
    options
}

/// | tool | kind | tasks | behaviour |
/// | --- | --- | --- | --- |
/// | `plain` | local | never | returns `plain` |
/// | `greet` | inline | optional | returns `hello` |
/// | `hold` | local | optional | waits for the gate |
/// | `block` | blocking | optional | waits for the gate |
/// | `steps` | local | optional | sends progress three times, then waits for the gate |
/// | `confirm` | local | optional | sends two elicitations, one after the other |
/// | `ask_late` | local | optional | waits for the gate, then sends an elicitation |
/// | `say` | local | optional | sends two log messages |
/// | `shout` | blocking | optional | sends one log message |
/// | `name` | local | required | elicits, becomes a task, sends progress, waits for the gate |
/// | `page` | local | optional | elicits in URL mode, then waits for the gate |
/// | `hasty` | local | optional | may elicit before its task, and returns without a task |
/// | `fail` | local | required | returns a result with `isError` |
/// | `refuse` | local | required | returns a JSON-RPC error |
fn tools(gate: &Gate) -> Vec<Tool> {
    let (held, blocked, stepped) = (gate.clone(), gate.clone(), gate.clone());
    vec![
        Tool::new("plain").local(|_: NoArguments, _| async { Ok(CallToolResult::text("plain")) }),
        Tool::new("greet").task_support(TaskSupport::Optional).inline_writer(
            |_: NoArguments, result, _| {
                result.text("hello");
                Ok(())
            },
        ),
        Tool::new("hold").task_support(TaskSupport::Optional).local(move |_: NoArguments, ctx| {
            let gate = held.clone();
            async move { wait_for_gate(&gate, &ctx).await }
        }),
        Tool::new("block").task_support(TaskSupport::Optional).blocking(
            move |_: NoArguments, ctx: BlockingContext| {
                blocked.wait_on_thread(&ctx)?;
                Ok(CallToolResult::text("held"))
            },
        ),
        Tool::new("steps").task_support(TaskSupport::Optional).local(move |_: NoArguments, ctx| {
            let gate = stepped.clone();
            async move {
                for step in 1..=3 {
                    ctx.progress(step.into(), Some(3.0), Some("on the way"));
                }
                wait_for_gate(&gate, &ctx).await
            }
        }),
        Tool::new("confirm").task_support(TaskSupport::Optional).local(
            |_: NoArguments, ctx| async move {
                let first = ctx.elicit("first", confirmation_form()).await?;
                let second = ctx.elicit("second", confirmation_form()).await?;
                Ok(CallToolResult::text(format!("{:?} {:?}", first.action, second.action)))
            },
        ),
        ask_late_tool(gate),
        Tool::new("say").task_support(TaskSupport::Optional).local(
            |_: NoArguments, ctx| async move {
                ctx.log(LoggingLevel::Debug, None, "too little");
                ctx.log(LoggingLevel::Warning, Some("here"), "aloud");
                Ok(CallToolResult::text("logged"))
            },
        ),
        Tool::new("shout").task_support(TaskSupport::Optional).blocking(
            |_: NoArguments, ctx: BlockingContext| {
                ctx.log(LoggingLevel::Warning, None, "from afar");
                Ok(CallToolResult::text("shouted"))
            },
        ),
        name_tool(gate),
        page_tool(gate),
        Tool::new("hasty")
            .task_support(TaskSupport::Optional)
            .deferred_task()
            .local(|_: NoArguments, _| async { Ok(CallToolResult::text("done")) }),
        Tool::new("fail")
            .task_support(TaskSupport::Required)
            .local(|_: NoArguments, _| async { Ok(CallToolResult::error("no luck")) }),
        Tool::new("refuse").task_support(TaskSupport::Required).local(|_: NoArguments, _| async {
            Err::<(), _>(HandlerError::Rpc(Error::application(7, "not today")))
        }),
    ]
}

fn name_tool(gate: &Gate) -> Tool {
    let gate = gate.clone();
    Tool::new("name").task_support(TaskSupport::Required).deferred_task().local(
        move |_: NoArguments, ctx: RequestContext| {
            let gate = gate.clone();
            async move {
                let form = Form::new().field(Field::text("name").required());
                // Sent before the task exists; the response is awaited in the task.
                let later = ctx.elicit("later", confirmation_form());
                let name = ctx.elicit("user_name", ElicitRequest::form("Who?", form)).await?;
                ctx.begin_task().await?;
                // The second call has no effect.
                ctx.begin_task().await?;
                ctx.progress(1.0, None, None);
                wait_for_gate(&gate, &ctx).await?;
                let later = later.await?;
                let name = name.content.get("name").and_then(Value::as_str).unwrap_or("stranger");
                Ok(CallToolResult::text(format!("Hello, {name}! {:?}", later.action)))
            }
        },
    )
}

fn ask_late_tool(gate: &Gate) -> Tool {
    let gate = gate.clone();
    Tool::new("ask_late").task_support(TaskSupport::Optional).local(
        move |_: NoArguments, ctx: RequestContext| {
            let gate = gate.clone();
            async move {
                wait_for_gate(&gate, &ctx).await?;
                ctx.elicit("late", confirmation_form()).await?;
                Ok(CallToolResult::text("asked"))
            }
        },
    )
}

fn page_tool(gate: &Gate) -> Tool {
    let gate = gate.clone();
    Tool::new("page").task_support(TaskSupport::Optional).local(
        move |_: NoArguments, ctx: RequestContext| {
            let gate = gate.clone();
            async move {
                let page = ElicitRequest::url("Open it", "https://example.com/");
                ctx.elicit("page", page).await?;
                wait_for_gate(&gate, &ctx).await
            }
        },
    )
}

async fn wait_for_gate(gate: &Gate, ctx: &RequestContext) -> Result<CallToolResult, HandlerError> {
    gate.wait(ctx).await?;
    Ok(CallToolResult::text("held"))
}

fn confirmation_form() -> ElicitRequest {
    ElicitRequest::form("Really?", Form::new())
}
