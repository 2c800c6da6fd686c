//! What `tools/list` says about a tool, in the words of each revision.
//!
//! What it keeps true: a member is written only for revisions that know it (output schema from
//! 2025-06-18, annotations from 2025-03-26, execution in 2025-11-25 alone), and schemas are written
//! as they were given, key by key.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::era::ClientCapabilities;
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::revision::Revision;
use crate::service::entry::About;
use crate::service::tool::schema;

/// Everything that is told about a tool. The schemas are fitted already.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) about: About,
    pub(super) input_schema: Value,
    /// The schema of the arguments was derived from the type they are read into.
    pub(super) is_schema_derived: bool,
    pub(super) output_schema: Option<Value>,
    pub(super) annotations: Option<Annotations>,
    pub(super) task: TaskSupport,
    /// A call of it becomes a task when its handler says so.
    pub(super) asks_before_task: bool,
    pub(super) needs: ClientCapabilities,
}

impl Definition {
    /// A tool of which nothing is told but its name, and which takes an object of anything.
    pub(super) fn new(name: Box<str>) -> Self {
        Self {
            about: About::new(name),
            input_schema: json!({ "type": "object" }),
            is_schema_derived: false,
            output_schema: None,
            annotations: None,
            task: TaskSupport::default(),
            asks_before_task: false,
            needs: ClientCapabilities::NONE,
        }
    }

    /// Checks the name and fits the schemas; `Err` says what is wrong, as the end of a sentence.
    pub(super) fn fit(&mut self) -> Result<(), Cow<'static, str>> {
        let name = &self.about.name;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err("its name must be 1 to 128 characters of A-Z a-z 0-9 _ . / -".into());
        }
        self.input_schema = schema::fit_arguments(self.input_schema.take())?;
        if let Some(schema) = self.output_schema.take() {
            self.output_schema = Some(schema::fit_results(schema)?);
        }
        Ok(())
    }

    /// Appends the `Tool` object of `revision`.
    ///
    /// Source: `schema/<revision>`, type `Tool`.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut tool = ObjectWriter::open(out);
        self.about.open(&mut tool, revision);
        tool.json("inputSchema", &self.input_schema);
        if let Some(schema) = self.output_schema_in(revision) {
            tool.json("outputSchema", schema);
        }
        if dialect.tool_annotations
            && let Some(annotations) = self.annotations_in(revision)
        {
            write::json(tool.key("annotations"), &json!(annotations));
        }
        if dialect.core_tasks && self.task != TaskSupport::Forbidden {
            let mut execution = tool.object("execution");
            execution.text("taskSupport", self.task.as_str());
            execution.close();
        }
        self.about.close(&mut tool, revision);
        tool.close();
    }

    /// Until 2025-11-25 structured results are objects; later clients alone are told of others.
    fn output_schema_in(&self, revision: Revision) -> Option<&Value> {
        let schema = self.output_schema.as_ref()?;
        let dialect = revision.dialect();
        let fits = dialect.structured_any || schema::is_of_object(schema);
        (dialect.structured_content && fits).then_some(schema)
    }

    /// 2025-03-26 has no `title` of its own and keeps it among the annotations.
    fn annotations_in(&self, revision: Revision) -> Option<Annotations> {
        let mut annotations = self.annotations.clone();
        if let (Some(title), false) = (&self.about.title, revision.dialect().titles) {
            annotations.get_or_insert_default().title.get_or_insert_with(|| title.clone());
        }
        annotations
    }
}

/// Hints about what a tool does, for the host that asks its user before calling it. They are not
/// promises: a client trusts them as far as it trusts the server.
///
/// Source: 2025-03-26 and later, type `ToolAnnotations`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// A name for people. Prefer [`ToolBuilder::title`](super::ToolBuilder::title), which stands
    /// here where a revision has no other place for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// Whether the tool leaves its environment as it is. Clients assume `false`.
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool may destroy something rather than only add. Clients assume `true`.
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether calling again with the same arguments changes nothing more. Clients assume `false`.
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether the tool reaches an open world (the web), not a closed one (a memory). Clients
    /// assume `true`.
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Annotations {
    /// The hints of a tool that computes something from its arguments and touches nothing else.
    pub fn pure() -> Self {
        Self {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
            ..Self::default()
        }
    }
}

/// Whether a call of a tool may become a task: work that goes on while the client asks now and then
/// how far it is.
///
/// Source: 2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation" (`execution.taskSupport`).
/// From 2026-07-28 on clients are not told; a required one then is a task for every client that
/// knows tasks, and refused for others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// Where the client wishes.
    Optional,
    /// Always.
    Required,
}

impl TaskSupport {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// The longest name of a tool (2025-11-25 and later, server/tools, "Tool Names").
const NAME_BYTES_MAX: usize = 128;
