//! Demo services of `corelane serve`: [`tools`], one tool of each kind for tests, examples and
//! benchmarks, and [`fixture`], the services that the official conformance suite requires.
//!
//! | tool | kind | does |
//! | --- | --- | --- |
//! | `echo {message}` | inline, raw | returns the message; allocates nothing |
//! | `add {a, b}` | inline, typed | adds two numbers; structured result |
//! | `slow {steps, step_ms}` | local | waits step by step with progress; can be cancelled |
//! | `hash {bytes}` | blocking | hashes bytes on the thread pool with progress, and parts of the result if that is streamed: the hash so far; can be cancelled |
//!
//! Every tool limits the cost of a call.

pub mod fixture;

use std::sync::Arc;
use std::time::Duration;

use corelane_protocol::json::Value;
use corelane_protocol::model::{CallToolResultWriter, Implementation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::service::CatalogError;
use crate::service::call::CallToolRequest;
use crate::service::catalog::{Catalog, CatalogBuilder};
use crate::service::context::{BlockingContext, RequestContext};
use crate::service::hash::Fnv;
use crate::service::results::{CallToolResult, HandlerError};
use crate::service::tool::{Tool, ToolAnnotations};

/// A catalog with the four demo tools, for a server with the given name and version.
///
/// ```
/// use corelane::model::Implementation;
/// use corelane::internal::demo;
///
/// let catalog = demo::catalog(Implementation::new("demo", "1.0.0"))?;
/// assert!(catalog.tool("echo").is_some());
/// # Ok::<(), corelane::CatalogError>(())
/// ```
pub fn catalog(info: Implementation) -> Result<Catalog, CatalogError> {
    Catalog::builder(info).tools(tools()).build()
}

/// Adds all demo services to a catalog: the four tools and the fixture.
pub fn add_services(catalog: CatalogBuilder) -> CatalogBuilder {
    fixture::add_services(catalog.tools(tools()))
}

/// The demo tools, to add to a catalog.
pub fn tools() -> [Tool; 4] {
    [
        Tool::new("echo")
            .title("Echo")
            .description("Returns the message unchanged.")
            .annotations(ToolAnnotations::pure())
            .inline_raw(echo_schema(), echo),
        Tool::new("add")
            .title("Add")
            .description("Adds two numbers.")
            .annotations(ToolAnnotations::pure())
            .output_type::<Sum>()
            .skip_output_validation()
            .inline_writer(|sum, out, _| add(sum, out)),
        Tool::new("slow")
            .title("Slow")
            .description("Waits step by step and reports progress. Can be cancelled.")
            .annotations(ToolAnnotations::pure())
            .local(|Slow { steps, step_ms }: Slow, ctx: RequestContext| async move {
                check_range("steps", steps.into(), 1..=STEPS_MAX.into())?;
                check_range("step_ms", step_ms.into(), 0..=STEP_MS_MAX.into())?;
                let step = Duration::from_millis(step_ms.into());
                for done in 1..=steps {
                    ctx.sleep(step).await?;
                    ctx.progress(done.into(), Some(steps.into()), None);
                }
                Ok(CallToolResult::text(format!("took {steps} steps of {step_ms} ms")))
            }),
        Tool::new("hash")
            .title("Hash")
            .description("Generates bytes and hashes them with FNV-1a (64 bits). Can be cancelled.")
            .annotations(ToolAnnotations::pure())
            .output_type::<Hashed>()
            .skip_output_validation()
            .blocking(|Hash { bytes }, ctx| hash(bytes, &ctx)),
    ]
}

/// Returns so many tools whose results have a text of so many bytes.
pub fn sized_tools(count: u32, bytes: u32) -> impl Iterator<Item = Tool> {
    let alphabet = (b'a'..=b'z').cycle().take(usize::try_from(bytes).unwrap_or_default());
    let text: Arc<str> = alphabet.map(char::from).collect::<String>().into();
    (1..=count).map(move |number| {
        let text = Arc::clone(&text);
        Tool::new(format!("tool_{number}"))
            .description(format!("Returns a text of {bytes} bytes."))
            .annotations(ToolAnnotations::pure())
            .inline_raw(json!({ "type": "object" }), move |_, out| {
                out.text(&text);
                Ok(())
            })
    })
}

fn echo_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "message": { "type": "string", "description": "Message to return." } },
        "required": ["message"],
    })
}

fn echo(
    call: &CallToolRequest<'_>,
    out: &mut CallToolResultWriter<'_>,
) -> Result<(), HandlerError> {
    let message = call
        .argument("message")
        .and_then(Value::as_str)
        .ok_or_else(|| HandlerError::InvalidParams("`message` must be a string".into()))?;
    out.text(message);
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
}

#[derive(JsonSchema, Serialize)]
struct Sum {
    /// Sum of the two numbers.
    sum: f64,
}

fn add(Add { a, b }: Add, out: &mut CallToolResultWriter<'_>) -> Result<(), HandlerError> {
    let sum = a + b;
    if !sum.is_finite() {
        return Err(HandlerError::Tool("the sum exceeds the range of a double".into()));
    }
    out.structured_content(&Sum { sum })?;
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// Number of steps.
    #[schemars(range(min = 1, max = STEPS_MAX))]
    steps: u32,
    /// Duration of a step in milliseconds.
    #[schemars(range(max = STEP_MS_MAX))]
    step_ms: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Hash {
    /// Number of bytes to hash: the bytes 0, 1, … 250 repeatedly.
    #[schemars(range(max = HASH_BYTES_MAX))]
    bytes: u64,
}

#[derive(JsonSchema, Serialize)]
struct Hashed {
    /// Name of the hash function.
    algorithm: &'static str,
    /// Number of hashed bytes.
    bytes: u64,
    /// The hash: 16 hexadecimal digits.
    hash: String,
}

impl Hashed {
    fn new(bytes: u64, state: Fnv) -> Self {
        Self { algorithm: "FNV-1a-64", bytes, hash: format!("{:016x}", state.value()) }
    }
}

fn hash(bytes: u64, ctx: &BlockingContext) -> Result<CallToolResult, HandlerError> {
    check_range("bytes", bytes, 0..=HASH_BYTES_MAX)?;
    let block: Vec<u8> = (0..=250).cycle().take(HASH_BLOCK_BYTES).collect();
    let (mut state, mut done, mut reported) = (Fnv::new(), 0, 0);
    while done < bytes {
        ctx.check_cancelled()?;
        let length = (bytes - done).min(HASH_BLOCK_BYTES as u64);
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the block's length")]
        let part = &block[..length as usize];
        state = state.update(part);
        done += length;
        if done - reported >= HASH_PROGRESS_BYTES || done == bytes {
            #[expect(clippy::cast_precision_loss, reason = "the bound is far below 2^53")]
            ctx.progress(done as f64, Some(bytes as f64), None);
            if ctx.request().is_streamed() {
                ctx.partial_result(Hashed::new(done, state));
            }
            reported = done;
        }
    }
    CallToolResult::structured(&Hashed::new(bytes, state))
}

/// Rejects an argument outside of the bounds in its schema.
fn check_range(
    name: &str,
    value: u64,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<(), HandlerError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (min, max) = bounds.into_inner();
    Err(HandlerError::invalid_params(format_args!(
        "`{name}` is {value}; it must be between {min} and {max}"
    )))
}

/// Maximum number of steps of a `slow` call.
const STEPS_MAX: u32 = 1_000;

/// Maximum duration of a step of `slow`: one minute.
const STEP_MS_MAX: u32 = 60_000;

/// Maximum number of bytes of a `hash` call: 1 GiB, one to two seconds of a core.
const HASH_BYTES_MAX: u64 = 1 << 30;

/// Bytes hashed between two cancellation checks, about 0.1 ms of a core. A multiple of 251, so that
/// blocks continue the pattern.
const HASH_BLOCK_BYTES: usize = 251 * 256;

/// Bytes hashed between two progress notifications, about 20 ms of a core.
const HASH_PROGRESS_BYTES: u64 = 16 << 20;
