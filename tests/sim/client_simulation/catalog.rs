//! What the server offers: a tool, a prompt and a resource whose answers name the call, and which
//! count how often each call was executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use corelane::{
    CallToolResult, Catalog, CatalogError, Prompt, PromptArgument, RequestContext,
    ResourceTemplate, Tool,
};
use corelane_protocol::model::{Implementation, Role};
use schemars::JsonSchema;
use serde::Deserialize;

/// How often each call was executed, by its number; shared by all servers of a run.
#[derive(Clone, Debug)]
pub(crate) struct Executions {
    counts: Arc<[AtomicU32]>,
    /// Tests of the checkers: this tool call is executed twice.
    doubled: Option<usize>,
}

impl Executions {
    pub(crate) fn new(calls: usize, doubled: Option<usize>) -> Self {
        Self { counts: (0..calls).map(|_| AtomicU32::new(0)).collect(), doubled }
    }

    pub(crate) fn count(&self, number: usize) -> u32 {
        self.counts[number].load(Ordering::Relaxed)
    }

    fn add(&self, number: usize) {
        let executions = 1 + u32::from(self.doubled == Some(number));
        self.counts[number].fetch_add(executions, Ordering::Relaxed);
    }
}

/// Text that only the answer to this call contains.
pub(crate) fn answer(number: usize) -> String {
    format!("<answer {number}>")
}

/// URI of the resource that only this call reads.
pub(crate) fn resource_uri(number: usize) -> String {
    format!("sim://item/{number}")
}

/// Builds the catalog.
///
/// # Errors
///
/// The catalog is invalid.
pub(crate) fn build_catalog(executions: &Executions) -> Result<Catalog, CatalogError> {
    let counts = executions.clone();
    let run = Tool::new("run").inline(move |RunInput { number, padding }, _| {
        counts.add(number);
        CallToolResult::text(answer(number) + &"x".repeat(padding))
    });
    let counts = executions.clone();
    let work = Tool::new("work").local(move |arguments: WorkInput, ctx: RequestContext| {
        let WorkInput { number, steps, pause_us } = arguments;
        counts.add(number);
        async move {
            for step in 1..=steps {
                ctx.sleep(Duration::from_micros(pause_us)).await?;
                ctx.progress(step.into(), Some(steps.into()), Some(&answer(number)));
            }
            Ok(CallToolResult::text(answer(number)))
        }
    });
    let ask = Prompt::new("ask").argument(PromptArgument::new("number").required()).inline(
        |arguments, out, _| {
            out.format(Role::User, format_args!("<answer {}>", arguments.text("number")));
            Ok(())
        },
    );
    let item = ResourceTemplate::new("sim://item/{number}", "item").inline(|read, contents, _| {
        let number = read.variable("number").unwrap_or_default();
        contents.text(read.uri(), Some("text/plain"), &format!("<answer {number}>"));
        Ok(())
    });
    Catalog::builder(Implementation::new("sim", "1"))
        .tool(run)
        .tool(work)
        .prompt(ask)
        .template(item)
        .build()
}

#[derive(Deserialize, JsonSchema)]
struct RunInput {
    number: usize,
    padding: usize,
}

#[derive(Deserialize, JsonSchema)]
struct WorkInput {
    number: usize,
    steps: u32,
    pause_us: u64,
}
