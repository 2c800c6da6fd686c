//! The definition of a tool, as `tools/list` reports it in each revision.
//!
//! Members are written only for revisions that define them (output schema since 2025-06-18,
//! annotations since 2025-03-26, `execution` in 2025-11-25 only). Schemas keep the order of their
//! keys.

use std::borrow::Cow;

use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::json::{ObjectWriter, write};
use corelane_protocol::revision::Revision;
use serde::Serialize;
use serde_json::{Value, json};

use crate::service::context::StateType;
use crate::service::entry::Metadata;
use crate::service::tool::schema;

#[derive(Clone, Debug)]
pub(super) struct ToolDefinition {
    pub(super) metadata: Metadata,
    pub(super) input_schema: Value,
    /// The input schema was derived from the type of the arguments.
    pub(super) is_schema_derived: bool,
    pub(super) output_schema: Option<Value>,
    pub(super) annotations: Option<ToolAnnotations>,
    pub(super) task_support: TaskSupport,
    /// The handler decides when a call becomes a task.
    pub(super) has_deferred_task: bool,
    pub(super) required_capabilities: ClientCapabilities,
    pub(super) required_state: Option<StateType>,
    /// Scopes that the caller must have.
    pub(super) required_scopes: Vec<Box<str>>,
}

impl ToolDefinition {
    /// A definition with a name only, which takes any object.
    pub(super) fn new(name: Box<str>) -> Self {
        Self {
            metadata: Metadata::new(name),
            input_schema: json!({ "type": "object" }),
            is_schema_derived: false,
            output_schema: None,
            annotations: None,
            task_support: TaskSupport::default(),
            has_deferred_task: false,
            required_capabilities: ClientCapabilities::NONE,
            required_state: None,
            required_scopes: Vec::new(),
        }
    }

    /// Checks the name and prepares the schemas. `Err` is phrased to follow "tool `name`: ".
    pub(super) fn prepare(&mut self) -> Result<(), Cow<'static, str>> {
        let name = &self.metadata.name;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err("its name must be 1 to 128 characters of A-Z a-z 0-9 _ . / -".into());
        }
        self.input_schema = schema::prepare_input_schema(self.input_schema.take())?;
        if let Some(schema) = self.output_schema.take() {
            self.output_schema = Some(schema::prepare_output_schema(schema)?);
        }
        Ok(())
    }

    /// Appends the `Tool` object of `revision`.
    ///
    /// Source: `schema/<revision>`, type `Tool`.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        let mut tool = ObjectWriter::open(out);
        self.metadata.write_leading_members(&mut tool, revision);
        tool.value("inputSchema", &self.input_schema);
        if let Some(schema) = self.output_schema_in(revision) {
            tool.value("outputSchema", schema);
        }
        if dialect.tool_annotations
            && let Some(annotations) = self.annotations_in(revision)
        {
            write::json(tool.key("annotations"), &json!(annotations));
        }
        if dialect.core_tasks && self.task_support != TaskSupport::Forbidden {
            let mut execution = tool.object("execution");
            execution.string("taskSupport", self.task_support.as_str());
            execution.close();
        }
        self.metadata.write_trailing_members(&mut tool, revision);
        tool.close();
    }

    /// Up to 2025-11-25 structured results must be objects; other schemas are not sent.
    fn output_schema_in(&self, revision: Revision) -> Option<&Value> {
        let schema = self.output_schema.as_ref()?;
        let dialect = revision.dialect();
        let fits = dialect.structured_content_any || schema::is_object_schema(schema);
        (dialect.structured_content && fits).then_some(schema)
    }

    /// 2025-03-26 has no `title` member and uses that of the annotations.
    fn annotations_in(&self, revision: Revision) -> Option<ToolAnnotations> {
        let mut annotations = self.annotations.clone();
        if let (Some(title), false) = (&self.metadata.title, revision.dialect().titles) {
            annotations.get_or_insert_default().title.get_or_insert_with(|| title.clone());
        }
        annotations
    }
}

/// Hints about the effects of a tool, for the client application that asks its user for consent.
/// Clients must not rely on them unless they trust the server.
///
/// Source: MCP 2025-03-26 and later, type `ToolAnnotations`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// Display name. Prefer [`ToolBuilder::title`](super::ToolBuilder::title), which sets this for
    /// revisions that have no other title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// The tool does not modify its environment. Default `false`.
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may perform destructive updates, not only additive ones. Default `true`.
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeated calls with the same arguments have no further effect. Default `false`.
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool interacts with external entities, such as the web, not only a closed domain.
    /// Default `true`.
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl ToolAnnotations {
    /// Annotations of a tool that only computes a result from its arguments.
    pub fn pure() -> Self {
        Self {
            read_only_hint: Some(true),
            destructive_hint: Some(false),
            idempotent_hint: Some(true),
            open_world_hint: Some(false),
            ..Self::default()
        }
    }
}

/// Whether calls of a tool may become tasks, whose state the client polls.
///
/// Source: MCP 2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation"
/// (`execution.taskSupport`). Since 2026-07-28 it is not listed; a call of a tool that requires
/// tasks becomes one for clients that support them, and is rejected for others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum TaskSupport {
    /// Calls never become tasks.
    #[default]
    Forbidden,
    /// Calls become tasks if the client requests it.
    Optional,
    /// Calls always become tasks.
    Required,
}

impl TaskSupport {
    /// The value of `taskSupport` in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// Maximum length of a tool name (MCP 2025-11-25 and later, server/tools, "Tool Names").
const NAME_BYTES_MAX: usize = 128;
