//! Servers with the demo services and tools of the tests.

use corelane::internal::demo;
use corelane::model::{ElicitRequest, Field, Form, Implementation};
use corelane::options::RingOptions;
use corelane::{
    CallToolResult, Catalog, CatalogBuilder, NoArguments, Options, RequestContext, Resource, Tool,
};
use serde_json::Value;

use crate::server::{Gate, TestServer, http_and_tcp_options};

impl TestServer {
    /// Starts a server with the demo services, the resource `test://one` and:
    ///
    /// | tool | behaviour |
    /// | --- | --- |
    /// | `hold` | signals, sends progress, then waits for the gate |
    /// | `long` | like `hold`, with a result of [`LONG_BYTES`] |
    /// | `stall` | signals, then blocks its shard until the gate opens |
    /// | `until-cancelled` | signals, sends progress, waits for cancellation and signals that |
    /// | `ask` | sends a form elicitation |
    /// | `touch` | notifies that the resource `test://one` was updated |
    pub fn with_test_tools(options: Options) -> Self {
        Self::with_gate(options, catalog)
    }

    /// Starts a server over TCP and HTTP, with rings of the default size, the demo services and the
    /// tool `touch`, which notifies that the resource `test://watched-resource` was updated.
    pub fn for_load() -> Self {
        let mut options = http_and_tcp_options();
        options.engine.ring_sizes = RingOptions::default();
        let tool = touch_tool("test://watched-resource");
        let catalog = demo_services().tool(tool).build();
        Self::with_catalog(options, catalog.expect("valid catalog"))
    }

    /// Adds a tool to the catalog, which sends `notifications/tools/list_changed`.
    pub fn add_tool(&self, name: &str) {
        let name = name.to_owned();
        let changed = self.handle().update_catalog(|catalog| catalog.tool(plain_tool(name)));
        changed.expect("valid catalog");
    }
}

/// Length of the result of `long`; larger than the output buffer of a connection.
pub const LONG_BYTES: usize = 3 << 20;

fn catalog(gate: &Gate) -> Catalog {
    let (stall, cancellation) = (gate.clone(), gate.clone());
    let tools = [
        gated_tool("hold", "held".to_owned(), gate),
        gated_tool("long", "x".repeat(LONG_BYTES), gate),
        Tool::new("stall").inline_writer(move |_: NoArguments, result, _| {
            stall.signal("begun");
            stall.block_shard();
            result.text("stalled");
            Ok(())
        }),
        Tool::new("until-cancelled").local(move |_: NoArguments, ctx: RequestContext| {
            let gate = cancellation.clone();
            async move {
                ctx.progress(1.0, None, Some("begun"));
                gate.signal("begun");
                ctx.cancelled().await;
                gate.signal("cancelled");
                Ok(CallToolResult::text("cancelled"))
            }
        }),
        Tool::new("ask").local(|_: NoArguments, ctx: RequestContext| async move {
            let form = Form::new().field(Field::text("name").required());
            let response =
                ctx.elicit("name", ElicitRequest::form("What is your name?", form)).await?;
            let name = response.content.get("name").and_then(Value::as_str);
            Ok(CallToolResult::text(format!("Hello, {}!", name.unwrap_or("stranger"))))
        }),
        touch_tool("test://one"),
    ];
    let resource = Resource::new("test://one", "one").text("text");
    demo_services().tools(tools).resources([resource]).build().expect("valid catalog")
}

fn demo_services() -> CatalogBuilder {
    demo::add_services(Catalog::builder(Implementation::new("test", "1.0.0")))
}

/// A tool that notifies that a resource was updated.
fn touch_tool(uri: &'static str) -> Tool {
    Tool::new("touch").local(move |_: NoArguments, ctx: RequestContext| async move {
        ctx.notify_resource_updated(uri);
        Ok(CallToolResult::text("touched"))
    })
}

/// A tool that signals, sends progress, waits for the gate and returns `text`.
fn gated_tool(name: &'static str, text: String, gate: &Gate) -> Tool {
    let gate = gate.clone();
    Tool::new(name).local(move |_: NoArguments, ctx: RequestContext| {
        let (gate, text) = (gate.clone(), text.clone());
        async move {
            ctx.progress(1.0, None, Some("begun"));
            gate.signal("begun");
            gate.wait(&ctx).await?;
            Ok(CallToolResult::text(text))
        }
    })
}

/// A tool that returns `plain`.
pub fn plain_tool(name: impl Into<String>) -> Tool {
    Tool::new(name.into()).inline_writer(|_: NoArguments, result, _| {
        result.text("plain");
        Ok(())
    })
}
