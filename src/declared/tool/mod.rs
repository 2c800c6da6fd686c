//! Tools of declarations.

mod declaration;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use corelane_protocol::model::{Icon, ResourceContents};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::declared::arguments::{ArgumentTables, Arguments};
use crate::declared::backend::{Backend, Runner};
use crate::declared::call::{Call, Failure, Output};
use crate::declared::context::FileContext;
use crate::declared::entry::{Entry, Fingerprint, Item};
use crate::declared::http::HttpClient;
use crate::declared::limits::{CallLimits, LimitsDeclaration};
use crate::declared::make::make_backend;
use crate::declared::metadata::{AnnotationsDeclaration, IconDeclaration};
use crate::declared::openapi::{
    OpenApiDeclaration, SkippedOperation, generate_tools, read_document,
};
use crate::declared::problem::Problem;
use crate::declared::sql::{DatabaseDeclaration, ExploreTool};
pub use crate::declared::tool::declaration::ToolDeclaration;
use crate::service::{
    BlockingContext, CallToolResult, HandlerError, InlineContext, TokioContext, Tool,
    ToolAnnotations, ToolBuilder,
};

/// Length of the longest name that every client accepts.
const NAME_BYTES_MAX: usize = 64;

/// Key of `_meta` that states where a tool comes from.
const SOURCE_KEY: &str = "corelane/source";

/// Member of `_meta` with the method and path of an operation, such as `GET /items/{id}`.
const OPERATION_KEY: &str = "corelane/operation";

/// What a tool is made of.
struct ToolParts<'d> {
    name: &'d str,
    title: Option<&'d str>,
    description: Option<&'d str>,
    icons: Vec<Icon>,
    annotations: Option<ToolAnnotations>,
    scopes: &'d [String],
    limits: &'d LimitsDeclaration,
    arguments: Arguments,
    output_schema: Option<Value>,
    /// Whether the backend makes results of the schema, which need no validation.
    is_output_valid: bool,
    /// Where it comes from, for people.
    source: &'static str,
    /// Method and path of the operation of an OpenAPI document.
    operation: Option<&'d str>,
    backend: Backend,
}

/// Makes the tool of `declaration`; `text` is what the declaration says, for its fingerprint.
///
/// # Errors
///
/// What is wrong with the declaration.
pub fn make_tool(
    declaration: &ToolDeclaration,
    text: &str,
    context: &mut FileContext<'_>,
) -> Result<Entry, Vec<Problem>> {
    let mut hash = Sha256::new();
    hash.update(text);
    check_name(&declaration.name)?;
    let limits = declaration.limits.call_limits()?;
    let arguments = read_arguments(declaration, &context.folder, &mut hash)?;
    let declared_schema = match &declaration.output_schema {
        Some(path) => Some(read_schema("output_schema", &context.folder.join(path), &mut hash)?),
        None => None,
    };
    let backend = make_backend(&declaration.action_fields(), &arguments, limits, context)?;
    let icons = declaration.icons.iter().map(IconDeclaration::to_icon);
    let parts = ToolParts {
        name: &declaration.name,
        title: declaration.title.as_deref(),
        description: declaration.description.as_deref(),
        icons: icons.collect::<Result<_, _>>()?,
        annotations: declaration.annotations.as_ref().map(AnnotationsDeclaration::to_annotations),
        scopes: &declaration.scopes,
        limits: &declaration.limits,
        arguments,
        is_output_valid: declared_schema.is_none(),
        output_schema: declared_schema.or_else(|| backend.output_schema()),
        source: if context.is_program { "program" } else { backend.source() },
        operation: None,
        backend,
    };
    Ok(build(parts, hash.finalize().into(), limits, context))
}

/// The tools that explore the database of `declaration`.
///
/// # Errors
///
/// What is wrong with the declaration.
pub fn make_explore_tools(
    declaration: &DatabaseDeclaration,
    text: &str,
    context: &mut FileContext<'_>,
) -> Result<Vec<Entry>, Vec<Problem>> {
    let limits = CallLimits::default();
    let tools = ExploreTool::new(declaration, &mut context.databases, limits)?;
    let fingerprint: Fingerprint = Sha256::digest(text).into();
    let make = |tool: ExploreTool| {
        context.warn_unreachable(tool.warning());
        check_name(&tool.name())?;
        let arguments = Arguments::from_schema(tool.input_schema())?;
        let parts = ToolParts {
            name: &tool.name(),
            title: None,
            description: Some(&tool.description()),
            icons: Vec::new(),
            annotations: Some(ToolAnnotations::pure()),
            scopes: &[],
            limits: &LimitsDeclaration::default(),
            arguments,
            output_schema: Some(tool.output_schema()),
            is_output_valid: true,
            source: "sql",
            operation: None,
            backend: Backend::Explore(tool.clone()),
        };
        Ok(build(parts, fingerprint, limits, context))
    };
    tools.into_iter().map(make).collect()
}

/// The tools of the operations of an OpenAPI document. What is no tool is a warning.
///
/// # Errors
///
/// What is wrong with the declaration or the document.
pub fn make_openapi_tools(
    declaration: &OpenApiDeclaration,
    text: &str,
    context: &mut FileContext<'_>,
) -> Result<Vec<Entry>, Vec<Problem>> {
    let limits = declaration.limits.call_limits()?;
    let document = read_openapi(declaration, &context.folder)?;
    let fingerprint = Sha256::new().chain_update(text).chain_update(&document).finalize().into();
    let generated = generate_tools(declaration, &document, context.http, limits)?;
    warn_skipped(&generated.skipped, context);
    let limits_of_tool = LimitsDeclaration { rate: None, ..declaration.limits.clone() };
    let mut entries = Vec::new();
    for tool in generated.tools {
        let annotations = ToolAnnotations {
            read_only_hint: Some(tool.hints.is_read_only),
            destructive_hint: Some(tool.hints.is_destructive),
            idempotent_hint: Some(tool.hints.is_idempotent),
            ..ToolAnnotations::default()
        };
        let parts = ToolParts {
            name: &tool.name,
            title: tool.title.as_deref(),
            description: tool.description.as_deref(),
            icons: Vec::new(),
            annotations: Some(annotations),
            scopes: &declaration.scopes,
            limits: &limits_of_tool,
            arguments: Arguments::from_schema(tool.input_schema)?,
            output_schema: tool.output_schema,
            is_output_valid: false,
            source: "openapi",
            operation: Some(&tool.place),
            backend: Backend::Http(Box::new(tool.tool)),
        };
        entries.push(build(parts, fingerprint, limits, context));
    }
    if let (Some(rate), Some(first)) = (&declaration.limits.rate, entries.first_mut()) {
        if declaration.prefix.is_empty() {
            let hint = "set prefix: the rate is that of all tools with it";
            return Err(Problem::new("limits.rate", "needs a prefix", hint).into());
        }
        first.rate_rule = Some(format!("tools/call {}* rate={rate}", declaration.prefix));
    }
    Ok(entries)
}

/// Operations that are named one by one if they are skipped.
const SKIPPED_MAX: usize = 20;

fn warn_skipped(skipped: &[SkippedOperation], context: &mut FileContext<'_>) {
    let hint = "exclude it, or correct the document";
    let named = skipped.iter().take(SKIPPED_MAX).map(|SkippedOperation { place, reason }| {
        Problem::new("", format!("{place} is not offered: {reason}"), hint)
    });
    context.warnings.extend(named);
    if skipped.len() > SKIPPED_MAX {
        let message = format!("{} more operations are not offered", skipped.len() - SKIPPED_MAX);
        context.warnings.push(Problem::new("", message, hint));
    }
}

/// Reads the document on a thread of its own, which may wait for a server.
fn read_openapi(declaration: &OpenApiDeclaration, folder: &Path) -> Result<Bytes, Problem> {
    let failed = |reason: &str| Problem::new("document", reason, "reduce threads of the machine");
    let read = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| failed(&error.to_string()))?;
        // Its connections end with the runtime.
        let mut client = HttpClient::new();
        runtime.block_on(read_document(declaration, folder, &mut client))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("corelane-openapi".to_owned());
        let thread =
            thread.spawn_scoped(scope, read).map_err(|error| failed(&error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(failed("cannot be read")))
    })
}

fn build(
    parts: ToolParts<'_>,
    fingerprint: Fingerprint,
    limits: CallLimits,
    context: &FileContext<'_>,
) -> Entry {
    let mut builder = Tool::new(parts.name).input_schema(parts.arguments.schema().clone());
    builder = builder.meta(SOURCE_KEY, parts.source);
    if let Some(operation) = parts.operation {
        builder = builder.meta(OPERATION_KEY, operation);
    }
    if let Some(title) = parts.title {
        builder = builder.title(title);
    }
    if let Some(description) = parts.description {
        builder = builder.description(description);
    }
    if let Some(annotations) = parts.annotations {
        builder = builder.annotations(annotations);
    }
    builder = parts.icons.into_iter().fold(builder, ToolBuilder::icon);
    for scope in parts.scopes {
        builder = builder.require_scope(scope.as_str());
    }
    if let Some(schema) = parts.output_schema {
        builder = builder.output_schema(schema);
    }
    if parts.is_output_valid {
        builder = builder.skip_output_validation();
    }
    let (secrets, services) = (Arc::clone(&context.secrets), context.services);
    let calls = parts.limits.calls;
    let ToolParts { name, backend, arguments, .. } = parts;
    let runner = Runner::new(name, backend, arguments, limits, calls, secrets, services);
    let runner = Arc::new(runner);
    let served = Arc::clone(&runner);
    let tool = if runner.is_immediate() {
        builder.inline(move |arguments: Map<String, Value>, ctx| {
            respond_immediately(&served, arguments, ctx)
        })
    } else if runner.is_blocking() {
        builder.blocking(move |arguments: Map<String, Value>, ctx: BlockingContext| {
            respond_blocking(&served, arguments, ctx)
        })
    } else {
        builder.tokio(move |arguments: Map<String, Value>, ctx| {
            let runner = Arc::clone(&served);
            async move { respond(&runner, arguments, ctx).await }
        })
    };
    let rate_rule = parts.limits.rate_rule(parts.name);
    Entry { fingerprint, rate_rule, runner: Some(runner), item: Item::Tool(Box::new(tool)) }
}

fn check_name(name: &str) -> Result<(), Problem> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_part) {
        return Ok(());
    }
    let hint = "write 1 to 64 characters of A-Z a-z 0-9 _ . -";
    Err(Problem::new("name", format!("{name:?} is not the name of a tool"), hint))
}

fn read_arguments(
    declaration: &ToolDeclaration,
    folder: &Path,
    hash: &mut Sha256,
) -> Result<Arguments, Vec<Problem>> {
    match (&declaration.schema, &declaration.arguments) {
        (Some(_), Some(_)) => {
            let hint = "keep one of the two";
            Err(vec![Problem::new("schema", "stands beside arguments", hint)])
        }
        (Some(path), None) => {
            Arguments::from_schema(read_schema("schema", &folder.join(path), hash)?)
        }
        (None, Some(tables)) => Arguments::from_tables(tables),
        (None, None) => Arguments::from_tables(&ArgumentTables::new()),
    }
}

fn read_schema(key: &str, path: &Path, hash: &mut Sha256) -> Result<Value, Problem> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|error| {
        Problem::new(key, format!("{name} cannot be read: {error}"), "name a readable file")
    })?;
    hash.update(&text);
    serde_json::from_slice(&text).map_err(|error| {
        Problem::new(key, format!("{name}: {error}"), "write a JSON Schema as JSON")
    })
}

/// Serves a call of a client.
async fn respond(
    runner: &Runner,
    arguments: Map<String, Value>,
    ctx: TokioContext,
) -> Result<CallToolResult, HandlerError> {
    let principal = ctx.principal().map(|caller| caller.id().to_owned());
    let progress = Arc::new(move |done: u32, message: &str| {
        ctx.progress(f64::from(done), None, Some(message));
    });
    let call = Call { arguments, principal, progress: Some(progress) };
    finish(runner.call(call).await, runner.name())
}

/// [`respond`] of a text, on the shard.
fn respond_immediately(
    runner: &Runner,
    arguments: Map<String, Value>,
    ctx: &InlineContext<'_>,
) -> String {
    let principal = ctx.principal().map(|caller| caller.id().to_owned());
    let call = Call { arguments, principal, progress: None };
    runner.call_immediately(call).unwrap_or_default()
}

/// [`respond`] on a thread of the pool.
fn respond_blocking(
    runner: &Runner,
    arguments: Map<String, Value>,
    ctx: BlockingContext,
) -> Result<CallToolResult, HandlerError> {
    let principal = ctx.principal().map(|caller| caller.id().to_owned());
    let call = Call { arguments, principal, progress: None };
    finish(runner.call_blocking(call, move || ctx.is_cancelled()), runner.name())
}

fn finish(result: Result<Output, Failure>, name: &str) -> Result<CallToolResult, HandlerError> {
    match result {
        Ok(output) => to_result(output, name),
        Err(Failure::InvalidArgument(text)) => Err(HandlerError::invalid_params(text)),
        Err(Failure::Failed(text)) => Err(HandlerError::tool(text)),
    }
}

fn to_result(output: Output, name: &str) -> Result<CallToolResult, HandlerError> {
    Ok(match output {
        Output::Text(text) => CallToolResult::text(text),
        Output::Json(value) => CallToolResult::structured_value(value),
        Output::JsonText(text) => CallToolResult::structured_json(text)?,
        Output::Media { mime_type, data } if mime_type.starts_with("image/") => {
            CallToolResult::default().with_image(data, mime_type)
        }
        Output::Media { mime_type, data } if mime_type.starts_with("audio/") => {
            CallToolResult::default().with_audio(data, mime_type)
        }
        Output::Media { mime_type, data } => {
            let contents = ResourceContents::blob(format!("result:{name}"), data);
            CallToolResult::default().with_embedded_resource(contents.with_mime_type(mime_type))
        }
    })
}
