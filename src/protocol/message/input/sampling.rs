//! Questions to the model behind the client.
//!
//! Source: `client/sampling` of each revision; `CreateMessageRequest` and `CreateMessageResult` in
//! the schemas. Deprecated in 2026-07-28, and still part of it.

use super::spoken::Spoken;
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::message::content::{MetaMembers, Role};
use crate::protocol::revision::Revision;
use serde_json::Value;

/// A question to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    max_tokens: u64,
    messages: Vec<Message>,
    system_prompt: Option<String>,
    include_context: Option<IncludeContext>,
    temperature: Option<f64>,
    stop_sequences: Vec<String>,
    preferences: Option<ModelPreferences>,
    metadata: Option<MetaMembers>,
    tools: Vec<SamplingTool>,
    tool_choice: Option<ToolChoice>,
}

#[derive(Clone, Debug, PartialEq)]
struct Message {
    role: Role,
    content: Vec<Spoken>,
}

/// Which servers' context the client should add. All but the first are deprecated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IncludeContext {
    /// None.
    None,
    /// That of this server.
    ThisServer,
    /// That of all servers.
    AllServers,
}

/// Which model is wanted; the client decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelPreferences {
    /// Names or parts of names of models, best first.
    pub hints: Vec<String>,
    /// How much it matters that it is cheap, from 0 to 1.
    pub cost: Option<f64>,
    /// How much it matters that it is fast, from 0 to 1.
    pub speed: Option<f64>,
    /// How much it matters that it is able, from 0 to 1.
    pub intelligence: Option<f64>,
}

/// A tool that the model may use; the server runs it (2025-11-25 and later).
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its input, an object.
    pub input_schema: Value,
}

/// Whether the model uses tools (2025-11-25 and later).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
}

impl Sampling {
    /// A question that is answered with at most this many tokens.
    pub fn new(max_tokens: u64) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// The same question with one more message.
    #[must_use]
    pub fn message(self, role: Role, content: impl Into<Spoken>) -> Self {
        self.messages(role, [content.into()])
    }

    /// The same question with one more message of several blocks: what the model said in
    /// [`super::Sampled`], or the results of the tools that it used.
    #[must_use]
    pub fn messages(mut self, role: Role, content: impl IntoIterator<Item = Spoken>) -> Self {
        self.messages.push(Message { role, content: content.into_iter().collect() });
        self
    }

    /// The same question, with what the model is told first.
    #[must_use]
    pub fn system_prompt(self, prompt: impl Into<String>) -> Self {
        Self { system_prompt: Some(prompt.into()), ..self }
    }

    /// The same question with context of servers. Deprecated: clients that do not declare
    /// `sampling.context` may pass over it.
    #[must_use]
    pub fn include_context(self, context: IncludeContext) -> Self {
        Self { include_context: Some(context), ..self }
    }

    /// The same question, answered more or less freely.
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        Self { temperature: Some(temperature), ..self }
    }

    /// The same question, whose answer ends before these texts.
    #[must_use]
    pub fn stop_sequences<T: Into<String>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        Self { stop_sequences: texts.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same question for a model of this kind.
    #[must_use]
    pub fn preferences(self, preferences: ModelPreferences) -> Self {
        Self { preferences: Some(preferences), ..self }
    }

    /// The same question with members for the provider of the model.
    #[must_use]
    pub fn metadata(self, metadata: MetaMembers) -> Self {
        Self { metadata: Some(metadata), ..self }
    }

    /// The same question with tools that the model may use. Needs the client's `sampling.tools`;
    /// revisions before 2025-11-25 are not told of them.
    #[must_use]
    pub fn tools(self, tools: impl IntoIterator<Item = SamplingTool>) -> Self {
        Self { tools: tools.into_iter().collect(), ..self }
    }

    /// The same question, which says whether the model uses tools.
    #[must_use]
    pub fn tool_choice(self, choice: ToolChoice) -> Self {
        Self { tool_choice: Some(choice), ..self }
    }

    /// Whether the client must be able to handle tools.
    pub(super) fn needs_tools(&self) -> bool {
        let speaks_of_tools = |message: &Message| message.content.iter().any(Spoken::is_of_tools);
        !self.tools.is_empty()
            || self.tool_choice.is_some()
            || self.messages.iter().any(speaks_of_tools)
    }

    /// Writes the params as `revision` knows them.
    pub(super) fn write(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        self.write_messages(object.key("messages"), revision);
        if let Some(preferences) = &self.preferences {
            preferences.write(object.object("modelPreferences"));
        }
        object.text_if("systemPrompt", self.system_prompt.as_ref());
        object.text_if("includeContext", self.include_context.map(IncludeContext::as_str));
        object.float_if("temperature", self.temperature).unsigned("maxTokens", self.max_tokens);
        if !self.stop_sequences.is_empty() {
            object.texts("stopSequences", &self.stop_sequences);
        }
        object.map_if("metadata", self.metadata.as_ref());
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
                item.text("name", &tool.name).text_if("description", tool.description.as_ref());
                item.json("inputSchema", &tool.input_schema);
                item.close();
            }
            tools.push(b']');
        }
        if let Some(choice) = self.tool_choice {
            let mut inner = object.object("toolChoice");
            inner.text("mode", choice.as_str());
            inner.close();
        }
    }

    fn write_messages(&self, out: &mut Vec<u8>, revision: Revision) {
        out.push(b'[');
        let mut is_first = true;
        for Message { role, content } in &self.messages {
            let in_one = revision.dialect().sampling_content_array && content.len() != 1;
            // A revision without lists of blocks hears one message for each.
            let parts = if in_one { 1 } else { content.len() };
            for part in 0..parts {
                if !is_first {
                    out.push(b',');
                }
                is_first = false;
                let mut object = ObjectWriter::open(out);
                object.text("role", role.as_str());
                let inner = object.key("content");
                if in_one {
                    Spoken::write_all(content, inner, revision);
                } else {
                    content[part].write(inner, revision);
                }
                object.close();
            }
        }
        out.push(b']');
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
                item.text("name", hint);
                item.close();
            }
            hints.push(b']');
        }
        for (key, priority) in [
            ("costPriority", self.cost),
            ("speedPriority", self.speed),
            ("intelligencePriority", self.intelligence),
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
