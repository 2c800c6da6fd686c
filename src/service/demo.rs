//! The demo services: one tool of each kind, offered by `corelane serve` and used by every test,
//! example and measurement.
//!
//! | tool | kind | does |
//! | --- | --- | --- |
//! | `echo {message}` | inline, raw | sends the message back; allocates nothing |
//! | `add {a, b}` | inline, typed | adds two numbers; structured result |
//! | `slow {steps, step_ms}` | local | waits step by step, tells progress, can be cancelled |
//! | `hash {bytes}` | blocking | hashes that many bytes on the thread pool, likewise |
//!
//! What it keeps true: every tool bounds what one call can cost.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::protocol::json::Value;
use crate::protocol::message::{Answer, ServerInfo};
use crate::service::call::Call;
use crate::service::catalog::Catalog;
use crate::service::fnv::Fnv;
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Outcome};
use crate::service::problem::CatalogError;
use crate::service::tool::{Annotations, Tool};
use crate::service::worker::Worker;

/// A catalog of the demo tools, in the name of the server `info`.
///
/// ```
/// use corelane::protocol::message::ServerInfo;
/// use corelane::service::demo;
///
/// let catalog = demo::catalog(ServerInfo::new("demo", "1.0.0"))?;
/// assert!(catalog.tool("echo").is_some());
/// # Ok::<(), corelane::service::CatalogError>(())
/// ```
pub fn catalog(info: ServerInfo) -> Result<Catalog, CatalogError> {
    Catalog::builder(info).tools(tools()).build()
}

/// The demo tools, to stand beside others in a catalog.
pub fn tools() -> [Tool; 4] {
    [
        Tool::new("echo")
            .title("Echo")
            .describe("Sends the message back as it came.")
            .annotations(Annotations::pure())
            .inline_raw(echo_schema(), echo),
        Tool::new("add")
            .title("Add")
            .describe("Adds two numbers.")
            .annotations(Annotations::pure())
            .returns::<Sum>()
            .trust_results()
            .inline(add),
        Tool::new("slow")
            .title("Slow")
            .describe("Waits step by step and tells how far it is. Can be cancelled.")
            .annotations(Annotations::pure())
            .local(|Slow { steps, step_ms }: Slow, live: Live| async move {
                within("steps", steps.into(), 1..=STEPS_MAX.into())?;
                within("step_ms", step_ms.into(), 0..=STEP_MS_MAX.into())?;
                let step = Duration::from_millis(step_ms.into());
                for done in 1..=steps {
                    live.sleep(step).await?;
                    live.progress(done.into(), Some(steps.into()), None);
                }
                Ok(Outcome::text(format!("took {steps} steps of {step_ms} ms")))
            }),
        Tool::new("hash")
            .title("Hash")
            .describe("Generates bytes and hashes them with FNV-1a (64 bits). Can be cancelled.")
            .annotations(Annotations::pure())
            .returns::<Hashed>()
            .trust_results()
            .blocking(|Hash { bytes }, worker| hash(bytes, &worker)),
    ]
}

fn echo_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "message": { "type": "string", "description": "What to send back." } },
        "required": ["message"],
    })
}

fn echo(call: &Call<'_>, answer: &mut Answer<'_>) -> Result<(), HandlerError> {
    let message = call
        .argument("message")
        .and_then(Value::as_str)
        .ok_or_else(|| HandlerError::Arguments("`message` must be a string".into()))?;
    answer.text(message);
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
    /// The two numbers added.
    sum: f64,
}

fn add(Add { a, b }: Add, answer: &mut Answer<'_>) -> Result<(), HandlerError> {
    let sum = a + b;
    if !sum.is_finite() {
        return Err(HandlerError::Failed("the sum is too large for a number".into()));
    }
    answer.structured(&Sum { sum })?;
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// How many steps to take.
    #[schemars(range(min = 1, max = STEPS_MAX))]
    steps: u32,
    /// How long a step takes, in milliseconds.
    #[schemars(range(max = STEP_MS_MAX))]
    step_ms: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Hash {
    /// How many bytes to hash: the bytes 0, 1, … 250 over and over.
    #[schemars(range(max = HASH_BYTES_MAX))]
    bytes: u64,
}

#[derive(JsonSchema, Serialize)]
struct Hashed {
    /// The name of the hash.
    algorithm: &'static str,
    /// How many bytes were hashed.
    bytes: u64,
    /// The hash: 16 hexadecimal digits.
    hash: String,
}

fn hash(bytes: u64, worker: &Worker) -> Result<Outcome, HandlerError> {
    within("bytes", bytes, 0..=HASH_BYTES_MAX)?;
    let block: Vec<u8> = (0..=250).cycle().take(HASH_BLOCK_BYTES).collect();
    let (mut state, mut done, mut told) = (Fnv::new(), 0, 0);
    while done < bytes {
        worker.check()?;
        let length = (bytes - done).min(HASH_BLOCK_BYTES as u64);
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the block's length")]
        let part = &block[..length as usize];
        state = state.and(part);
        done += length;
        if done - told >= HASH_PROGRESS_BYTES || done == bytes {
            #[expect(clippy::cast_precision_loss, reason = "the bound is far below 2^53")]
            worker.progress(done as f64, Some(bytes as f64), None);
            told = done;
        }
    }
    let hash = format!("{:016x}", state.value());
    Outcome::structured(&Hashed { algorithm: "FNV-1a-64", bytes, hash })
}

/// Refuses an argument outside of its bounds, which its schema states.
fn within(
    name: &str,
    value: u64,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<(), HandlerError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (least, most) = bounds.into_inner();
    Err(HandlerError::arguments(format_args!("`{name}` must be between {least} and {most}")))
}

/// The most steps of one `slow`.
const STEPS_MAX: u32 = 1_000;

/// The longest step of `slow`: a minute.
const STEP_MS_MAX: u32 = 60_000;

/// The most bytes of one `hash`: 1 GiB, one to two seconds of a core.
const HASH_BYTES_MAX: u64 = 1 << 30;

/// Bytes hashed between two looks at cancellation, about 0.1 ms of a core; a multiple of 251, so
/// that blocks join without a seam.
const HASH_BLOCK_BYTES: usize = 251 * 256;

/// Bytes hashed between two words of progress, some 20 ms of a core.
const HASH_PROGRESS_BYTES: u64 = 16 << 20;
