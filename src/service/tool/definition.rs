//! What `tools/list` says about a tool, in the words of each revision.
//!
//! What it keeps true: a member is written only for revisions that know it (title, output schema
//! and `_meta` from 2025-06-18, annotations from 2025-03-26, icons from 2025-11-25), so that a
//! strict client of an old revision sees nothing it has no name for. It does not check names.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::protocol::revision::Revision;
use crate::service::tool::schema;

/// Everything that is told about a tool. The schemas are fitted already.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) name: Box<str>,
    pub(super) title: Option<Box<str>>,
    pub(super) description: Option<Box<str>>,
    pub(super) input_schema: Value,
    pub(super) output_schema: Option<Value>,
    pub(super) annotations: Option<Annotations>,
    pub(super) icons: Vec<Icon>,
    pub(super) meta: Map<String, Value>,
}

impl Definition {
    /// A tool of which nothing is told but its name, and which takes an object of anything.
    pub(super) fn new(name: Box<str>) -> Self {
        Self {
            name,
            title: None,
            description: None,
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
            meta: Map::new(),
        }
    }

    /// Checks the name and fits the schemas; `Err` says what is wrong, as the end of a sentence.
    pub(super) fn fit(&mut self) -> Result<(), &'static str> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&self.name.len()) || !self.name.bytes().all(is_allowed) {
            return Err("its name must be 1 to 128 characters of A-Z a-z 0-9 _ . / -");
        }
        self.input_schema = schema::fit_arguments(self.input_schema.take())?;
        if let Some(schema) = self.output_schema.take() {
            self.output_schema = Some(schema::fit_results(schema)?);
        }
        Ok(())
    }

    /// The `Tool` object of `revision`.
    ///
    /// Source: `schema/<revision>`, type `Tool`.
    pub(super) fn to_json(&self, revision: Revision) -> Value {
        let dialect = revision.dialect();
        let mut tool = Map::new();
        tool.insert(String::from("name"), json!(self.name));
        if let (Some(title), true) = (&self.title, dialect.titles) {
            tool.insert(String::from("title"), json!(title));
        }
        if let Some(description) = &self.description {
            tool.insert(String::from("description"), json!(description));
        }
        tool.insert(String::from("inputSchema"), self.input_schema.clone());
        if let Some(schema) = self.output_schema_in(revision) {
            tool.insert(String::from("outputSchema"), schema.clone());
        }
        if dialect.tool_annotations
            && let Some(annotations) = self.annotations_in(revision)
        {
            tool.insert(String::from("annotations"), json!(annotations));
        }
        if dialect.icons && !self.icons.is_empty() {
            tool.insert(String::from("icons"), json!(self.icons));
        }
        if dialect.meta_on_types && !self.meta.is_empty() {
            tool.insert(String::from("_meta"), Value::Object(self.meta.clone()));
        }
        Value::Object(tool)
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
        if let (Some(title), false) = (&self.title, revision.dialect().titles) {
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

/// A picture that a host may show beside a tool.
///
/// Source: 2025-11-25 and later, type `Icon`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// Where it is: an `https:` or a `data:` URI.
    pub src: Box<str>,
    /// Its media type, where the source does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Box<str>>,
    /// The sizes it is good for, such as `48x48` or `any`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Box<str>>,
    /// The background it is made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

/// The background that an [`Icon`] is made for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IconTheme {
    /// A dark one.
    Dark,
    /// A light one.
    Light,
}

/// The longest name of a tool (2025-11-25 and later, server/tools, "Tool Names").
const NAME_BYTES_MAX: usize = 128;
