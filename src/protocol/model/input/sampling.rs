//! Sampling: requests for a message of the client's model.
//!
//! MCP `client/sampling` of each revision, deprecated in 2026-07-28; schema:
//! `CreateMessageRequest`, `CreateMessageResult`.
//!
//! Invariants: sampling has text, images, audio and tool use only; resource links and embedded
//! resources are converted to text.
//!
//! MCP schema: `SamplingMessageContentBlock` of 2025-11-25 and later, and the unions of the same
//! members before.

use corelane_base::heap_bytes::HeapBytes;
use serde_json::{Map, Value};

use crate::json::{ObjectWriter, write};
use crate::model::content::{Content, MetaObject, ResourceBody, Role, write_text};
use crate::revision::Revision;

/// A request for a message of the client's model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateMessageRequest {
    max_tokens: u64,
    messages: Vec<SamplingMessage>,
    system_prompt: Option<String>,
    include_context: Option<IncludeContext>,
    temperature: Option<f64>,
    stop_sequences: Vec<String>,
    model_preferences: Option<ModelPreferences>,
    metadata: Option<MetaObject>,
    tools: Vec<SamplingTool>,
    tool_choice: Option<ToolChoice>,
}

#[derive(Clone, Debug, PartialEq)]
struct SamplingMessage {
    role: Role,
    content: Vec<SamplingMessageContentBlock>,
}

/// Servers whose context the client should include. All values but `None` are deprecated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IncludeContext {
    /// No context.
    None,
    /// Context of this server.
    ThisServer,
    /// Context of all connected servers.
    AllServers,
}

/// Preferences for the choice of the model; the client decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelPreferences {
    /// Names or substrings of names of models, most preferred first.
    pub hints: Vec<String>,
    /// Importance of low cost, from 0 to 1.
    pub cost_priority: Option<f64>,
    /// Importance of speed, from 0 to 1.
    pub speed_priority: Option<f64>,
    /// Importance of capability, from 0 to 1.
    pub intelligence_priority: Option<f64>,
}

/// A tool that the model may use and the server runs (2025-11-25 and later).
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingTool {
    /// Name of the tool.
    pub name: String,
    /// Description for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object.
    pub input_schema: Value,
}

/// Tool use policy of the model (2025-11-25 and later).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model must use at least one tool.
    Required,
    /// The model must not use tools.
    None,
}

impl CreateMessageRequest {
    /// Creates a request for at most `max_tokens` tokens.
    pub fn new(max_tokens: u64) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// Adds a message with one content block.
    #[must_use]
    pub fn message(self, role: Role, content: impl Into<SamplingMessageContentBlock>) -> Self {
        self.messages(role, [content.into()])
    }

    /// Adds a message with several content blocks: content of a [`super::CreateMessageResult`], or
    /// tool results.
    #[must_use]
    pub fn messages(
        mut self,
        role: Role,
        content: impl IntoIterator<Item = SamplingMessageContentBlock>,
    ) -> Self {
        self.messages.push(SamplingMessage { role, content: content.into_iter().collect() });
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system_prompt(self, prompt: impl Into<String>) -> Self {
        Self { system_prompt: Some(prompt.into()), ..self }
    }

    /// Requests context of MCP servers. Deprecated: clients without the capability
    /// `sampling.context` may ignore it.
    #[must_use]
    pub fn include_context(self, context: IncludeContext) -> Self {
        Self { include_context: Some(context), ..self }
    }

    /// Sets the temperature.
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        Self { temperature: Some(temperature), ..self }
    }

    /// Sets the sequences at which generation stops.
    #[must_use]
    pub fn stop_sequences<T: Into<String>>(self, sequences: impl IntoIterator<Item = T>) -> Self {
        Self { stop_sequences: sequences.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the model preferences.
    #[must_use]
    pub fn model_preferences(self, preferences: ModelPreferences) -> Self {
        Self { model_preferences: Some(preferences), ..self }
    }

    /// Sets provider-specific metadata.
    #[must_use]
    pub fn metadata(self, metadata: MetaObject) -> Self {
        Self { metadata: Some(metadata), ..self }
    }

    /// Sets the tools that the model may use. Requires the client capability `sampling.tools`;
    /// omitted in revisions before 2025-11-25.
    #[must_use]
    pub fn tools(self, tools: impl IntoIterator<Item = SamplingTool>) -> Self {
        Self { tools: tools.into_iter().collect(), ..self }
    }

    /// Sets the tool use policy.
    #[must_use]
    pub fn tool_choice(self, choice: ToolChoice) -> Self {
        Self { tool_choice: Some(choice), ..self }
    }

    /// Returns whether the request requires the client capability `sampling.tools`.
    pub(super) fn requires_tools(&self) -> bool {
        let has_tool_content = |message: &SamplingMessage| {
            message.content.iter().any(SamplingMessageContentBlock::is_tool_content)
        };
        !self.tools.is_empty()
            || self.tool_choice.is_some()
            || self.messages.iter().any(has_tool_content)
    }

    /// Writes the params as `revision` defines them.
    pub(super) fn write(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        self.write_messages(object.key("messages"), revision);
        if let Some(preferences) = &self.model_preferences {
            preferences.write(object.object("modelPreferences"));
        }
        object.string_opt("systemPrompt", self.system_prompt.as_ref());
        object.string_opt("includeContext", self.include_context.map(IncludeContext::as_str));
        object.float_opt("temperature", self.temperature).unsigned("maxTokens", self.max_tokens);
        if !self.stop_sequences.is_empty() {
            object.strings("stopSequences", &self.stop_sequences);
        }
        object.map_opt("metadata", self.metadata.as_ref());
        if revision.dialect().sampling_tools {
            self.write_tools(object);
        }
    }

    fn write_tools(&self, object: &mut ObjectWriter<'_>) {
        if !self.tools.is_empty() {
            let tools = object.key("tools");
            tools.push(b'[');
            for (index, tool) in self.tools.iter().enumerate() {
                if index > 0 {
                    tools.push(b',');
                }
                let mut item = ObjectWriter::open(tools);
                item.string("name", &tool.name)
                    .string_opt("description", tool.description.as_ref());
                item.value("inputSchema", &tool.input_schema);
                item.close();
            }
            tools.push(b']');
        }
        if let Some(choice) = self.tool_choice {
            let mut inner = object.object("toolChoice");
            inner.string("mode", choice.as_str());
            inner.close();
        }
    }

    fn write_messages(&self, out: &mut Vec<u8>, revision: Revision) {
        out.push(b'[');
        let mut is_first = true;
        for SamplingMessage { role, content } in &self.messages {
            let as_array = revision.dialect().sampling_content_array && content.len() != 1;
            // A revision without content arrays gets one message for each block.
            let count = if as_array { 1 } else { content.len() };
            for index in 0..count {
                if !is_first {
                    out.push(b',');
                }
                is_first = false;
                let mut object = ObjectWriter::open(out);
                object.string("role", role.as_str());
                let inner = object.key("content");
                if as_array {
                    SamplingMessageContentBlock::write_all(content, inner, revision);
                } else {
                    content[index].write(inner, revision);
                }
                object.close();
            }
        }
        out.push(b']');
    }
}

impl HeapBytes for CreateMessageRequest {
    fn heap_bytes(&self) -> usize {
        let Self { messages, system_prompt, stop_sequences, model_preferences, .. } = self;
        let texts =
            messages.heap_bytes() + system_prompt.heap_bytes() + stop_sequences.heap_bytes();
        let hints = model_preferences.as_ref().map_or(0, |it| it.hints.heap_bytes());
        texts + hints + self.metadata.heap_bytes() + self.tools.heap_bytes()
    }
}

impl HeapBytes for SamplingMessage {
    fn heap_bytes(&self) -> usize {
        self.content.heap_bytes()
    }
}

impl HeapBytes for SamplingTool {
    fn heap_bytes(&self) -> usize {
        let Self { name, description, input_schema } = self;
        name.heap_bytes() + description.heap_bytes() + input_schema.heap_bytes()
    }
}

impl ModelPreferences {
    fn write(&self, mut object: ObjectWriter<'_>) {
        if !self.hints.is_empty() {
            let hints = object.key("hints");
            hints.push(b'[');
            for (index, hint) in self.hints.iter().enumerate() {
                if index > 0 {
                    hints.push(b',');
                }
                let mut item = ObjectWriter::open(hints);
                item.string("name", hint);
                item.close();
            }
            hints.push(b']');
        }
        for (key, priority) in [
            ("costPriority", self.cost_priority),
            ("speedPriority", self.speed_priority),
            ("intelligencePriority", self.intelligence_priority),
        ] {
            if let Some(priority) = priority.filter(|priority| priority.is_finite()) {
                write::float(object.key(key), priority.clamp(0.0, 1.0));
            }
        }
        object.close();
    }
}

impl IncludeContext {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ThisServer => "thisServer",
            Self::AllServers => "allServers",
        }
    }
}

impl ToolChoice {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::None => "none",
        }
    }
}

/// A content block of a sampling message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SamplingMessageContentBlock {
    /// Text, image or audio. Resource links are sent as their URI, embedded resources as their
    /// text.
    Content(Content),
    /// Use of a tool by the model (2025-11-25 and later).
    ToolUse {
        /// Id of this use.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments.
        input: Map<String, Value>,
    },
    /// Result of a tool use (2025-11-25 and later).
    ToolResult {
        /// Id of the tool use.
        tool_use_id: String,
        /// Content of the result.
        content: Vec<Content>,
        /// Whether the tool failed.
        is_error: bool,
    },
}

impl SamplingMessageContentBlock {
    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Content(Content::Text(text)) => Some(text),
            _ => None,
        }
    }

    const fn is_tool_content(&self) -> bool {
        matches!(self, Self::ToolUse { .. } | Self::ToolResult { .. })
    }

    /// Appends an array of blocks.
    pub(super) fn write_all(blocks: &[Self], out: &mut Vec<u8>, revision: Revision) {
        out.push(b'[');
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            block.write(out, revision);
        }
        out.push(b']');
    }

    /// Appends the block as `revision` defines it.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let has_tools = revision.dialect().sampling_tools;
        match self {
            Self::Content(content) => write_content(content, out, revision),
            Self::ToolUse { id, name, input } if has_tools => {
                let mut object = ObjectWriter::open(out);
                object.string("type", "tool_use").string("id", id).string("name", name);
                write::map(object.key("input"), input);
                object.close();
            }
            Self::ToolResult { tool_use_id, content, is_error } if has_tools => {
                let mut object = ObjectWriter::open(out);
                object.string("type", "tool_result").string("toolUseId", tool_use_id);
                let list = object.key("content");
                list.push(b'[');
                for (index, content) in content.iter().enumerate() {
                    if index > 0 {
                        list.push(b',');
                    }
                    content.write(list, None, None, revision);
                }
                list.push(b']');
                if *is_error {
                    object.boolean("isError", true);
                }
                object.close();
            }
            Self::ToolUse { name, .. } => write_text_block(out, format_args!("[tool use: {name}]")),
            Self::ToolResult { content, .. } => {
                let count = content.len();
                write_text_block(out, format_args!("[tool result: {count} content blocks]"));
            }
        }
    }
}

impl HeapBytes for SamplingMessageContentBlock {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Content(content) => content.heap_bytes(),
            Self::ToolUse { id, name, input } => {
                id.heap_bytes() + name.heap_bytes() + input.heap_bytes()
            }
            Self::ToolResult { tool_use_id, content, is_error: _ } => {
                tool_use_id.heap_bytes() + content.heap_bytes()
            }
        }
    }
}

impl<C: Into<Content>> From<C> for SamplingMessageContentBlock {
    fn from(content: C) -> Self {
        Self::Content(content.into())
    }
}

/// Appends content of a type that sampling has, or the text that replaces it.
fn write_content(content: &Content, out: &mut Vec<u8>, revision: Revision) {
    let text: &str = match content {
        Content::ResourceLink(link) => &link.uri,
        Content::EmbeddedResource(resource) => match &resource.body {
            ResourceBody::Text(text) => text,
            ResourceBody::Blob(_) => &resource.uri,
        },
        Content::Text(_) | Content::Image { .. } | Content::Audio { .. } => {
            content.write(out, None, None, revision);
            return;
        }
    };
    let mut object = ObjectWriter::open(out);
    write_text(&mut object, text);
    object.close();
}

fn write_text_block(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let mut object = ObjectWriter::open(out);
    object.string("type", "text");
    write::formatted(object.key("text"), text);
    object.close();
}
