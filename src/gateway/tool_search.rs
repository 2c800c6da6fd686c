//! Tools that search, describe and call the tools of upstreams, so that a model need not read all
//! definitions.
//!
//! Invariant: a caller finds, reads and calls only what it could call directly: a tool whose
//! scopes it lacks is an unknown tool.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_protocol::error::Error;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::gateway::call::{Outgoing, Upstream, call_of, forward};
use crate::gateway::lists::{Definition, requires_task};
use crate::gateway::search::{Index, SearchEntry};
use crate::gateway::status::ToolCounts;
use crate::service::{
    CallToolResult, HandlerError, HandlerOutput, RequestContext, TaskSupport, Tool, ToolAnnotations,
};

/// Bytes of an answer of the search, unless the caller asks for more tools.
const ANSWER_BYTES_MAX: usize = 2 << 10;
/// Tools of an answer by default, and at most.
const LIMIT: usize = 8;
const LIMIT_MAX: usize = 50;
/// Characters of a description in an answer.
const DESCRIPTION_CHARACTERS_MAX: usize = 160;

/// The tools that can be searched.
#[derive(Debug)]
pub struct ToolSearch {
    index: Index,
    tools: Vec<SearchedTool>,
    by_name: HashMap<Arc<str>, usize>,
}

/// One of the tools.
#[derive(Debug)]
pub struct SearchedTool {
    /// Its name in the catalog.
    pub offered: Arc<str>,
    /// Its name at the upstream.
    pub own: Box<str>,
    /// Its definition at the upstream.
    pub definition: Definition,
    /// Its upstream.
    pub upstream: Arc<Upstream>,
    /// Where its calls are counted.
    pub counts: ToolCounts,
}

impl SearchedTool {
    fn is_visible(&self, principal: Option<&Principal>) -> bool {
        let scopes = &self.upstream.pool.settings.selection.scopes;
        scopes.iter().all(|scope| principal.is_some_and(|it| it.has_scope(scope)))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.definition.get(key).and_then(Value::as_str)
    }

    /// The definition, with the name in the catalog.
    fn describe(&self) -> Value {
        let mut definition = self.definition.clone();
        definition.insert("name".to_owned(), Value::from(&*self.offered));
        Value::Object(definition)
    }
}

impl ToolSearch {
    /// Builds the index. Cost: about 17 µs a tool.
    pub fn new(tools: Vec<SearchedTool>) -> Self {
        let entries: Vec<SearchEntry<'_>> = tools
            .iter()
            .map(|tool| SearchEntry {
                name: &tool.offered,
                title: tool.text("title"),
                description: tool.text("description"),
                input_schema: tool.definition.get("inputSchema"),
            })
            .collect();
        let index = Index::build(&entries);
        let names = tools.iter().enumerate().map(|(at, tool)| (Arc::clone(&tool.offered), at));
        Self { by_name: names.collect(), index, tools }
    }

    fn find(&self, name: &str, principal: Option<&Principal>) -> Result<&SearchedTool, Error> {
        let tool = self.by_name.get(name).map(|at| &self.tools[*at]);
        tool.filter(|tool| tool.is_visible(principal))
            .ok_or_else(|| Error::unknown_name("tool", name))
    }

    /// The tools that match, one on a line.
    fn search(&self, arguments: &SearchArguments, principal: Option<&Principal>) -> String {
        let limit = arguments.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
        let bytes_max = if arguments.limit.is_some() { usize::MAX } else { ANSWER_BYTES_MAX };
        let is_visible = |at: usize| self.tools[at].is_visible(principal);
        let mut answer = String::new();
        for hit in self.index.search(&arguments.query, limit, is_visible) {
            let tool = &self.tools[hit.entry];
            let line = format!("{}: {}\n", tool.offered, short(tool.text("description")));
            if answer.len() + line.len() > bytes_max {
                break;
            }
            answer.push_str(&line);
        }
        if answer.is_empty() {
            "no tool matches; try other words".clone_into(&mut answer);
        }
        answer
    }
}

/// The beginning of a description, on one line.
fn short(description: Option<&str>) -> Cow<'_, str> {
    let line = description.unwrap_or_default().trim();
    let line = line.split(['\n', '\r']).next().unwrap_or_default();
    match line.char_indices().nth(DESCRIPTION_CHARACTERS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &line[..end])),
        None => Cow::Borrowed(line),
    }
}

#[derive(Deserialize, JsonSchema)]
struct SearchArguments {
    /// Words of the name, the description or the arguments of the tool.
    query: String,
    /// Tools in the answer, up to 50. Default: 8, of at most 2 KiB in all.
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
struct DescribeArguments {
    /// Name of the tool, as `search_tools` returns it.
    name: String,
}

#[derive(Deserialize)]
struct CallArguments<'a> {
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The tools `search_tools`, `describe_tool` and `call_tool`.
pub fn search_tools(search: &Arc<ToolSearch>) -> [Tool; 3] {
    let (searched, described, called) =
        (Arc::clone(search), Arc::clone(search), Arc::clone(search));
    let find = Tool::new("search_tools")
        .title("Search tools")
        .description(
            "Finds tools by words. Answers with names and short descriptions; describe_tool has \
             the arguments of one, and call_tool calls it.",
        )
        .annotations(ToolAnnotations::pure())
        .inline(move |arguments: SearchArguments, ctx| {
            searched.search(&arguments, ctx.principal())
        });
    let describe = Tool::new("describe_tool")
        .title("Describe a tool")
        .description("The whole definition of a tool, with the schema of its arguments.")
        .annotations(ToolAnnotations::pure())
        .inline(move |DescribeArguments { name }: DescribeArguments, ctx| {
            let tool = described.find(&name, ctx.principal()).map_err(HandlerError::Rpc)?;
            Ok::<_, HandlerError>(CallToolResult::text(tool.describe().to_string()))
        });
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "Name of the tool." },
            "arguments": { "type": "object", "description": "Its arguments, as describe_tool has \
                them." },
        },
        "required": ["name"],
    });
    let call = Tool::new("call_tool")
        .title("Call a tool")
        .description("Calls a tool that search_tools has found.")
        .input_schema(schema)
        .task_support(TaskSupport::Optional)
        .deferred_task()
        .forward(move |arguments, ctx| call_tool(Arc::clone(&called), arguments, ctx));
    [find, describe, call]
}

async fn call_tool(
    search: Arc<ToolSearch>,
    arguments: Vec<u8>,
    ctx: RequestContext,
) -> Result<HandlerOutput, HandlerError> {
    let CallArguments { name, arguments } =
        serde_json::from_slice(&arguments).map_err(HandlerError::invalid_params)?;
    let tool = search.find(&name, ctx.principal())?;
    let arguments = arguments.map_or("{}", RawValue::get);
    if !arguments.starts_with('{') {
        return Err(Error::invalid_params("arguments.arguments is no object").into());
    }
    let (upstream, own) = (Arc::clone(&tool.upstream), &tool.own);
    let counts = Some(tool.counts.of(&upstream.pool.status.calls, own));
    let requires_task = requires_task(&tool.definition);
    let call = call_of(own, arguments.as_bytes(), requires_task);
    forward(upstream, Outgoing { tool: counts, ..call }, ctx).await
}
