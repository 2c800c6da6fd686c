//! Prompts of declarations: `[[prompt]]`.

use std::sync::Arc;

use corelane_protocol::model::{Content, Role};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::declared::action::declaration;
use crate::declared::arguments::{ArgumentTables, Arguments};
use crate::declared::backend::Runner;
use crate::declared::call::{Call, Failure, Output};
use crate::declared::completion::completion_of;
use crate::declared::context::FileContext;
use crate::declared::entry::{Entry, Item};
use crate::declared::fill::fill;
use crate::declared::make::{check_names, make_backend};
use crate::declared::metadata::{IconDeclaration, yes};
use crate::declared::problem::Problem;
use crate::declared::services::Services;
use crate::declared::template::Template;
use crate::service::{GetPromptResult, HandlerError, Prompt, PromptArgument, PromptArguments};

declaration! {
    /// A prompt. It has `messages`, or exactly one of `text`, `file`, `command`, `http` and `sql`,
    /// which gives the message of the user.
    pub struct PromptDeclaration {
        /// Its name.
        pub name: String,
        /// Display name for people.
        #[serde(default)]
        pub title: Option<String>,
        /// What it is for.
        #[serde(default)]
        pub description: Option<String>,
        /// Icons.
        #[serde(default)]
        pub icons: Vec<IconDeclaration>,
        /// Whether the prompt is offered. Default `true`.
        #[serde(default = "yes")]
        pub enabled: bool,
        /// Arguments by name, each with `title`, `description`, `required` and `complete`.
        #[serde(default)]
        pub arguments: ArgumentTables,
        /// Messages with placeholders.
        #[serde(default)]
        pub messages: Vec<MessageDeclaration>,
    }
}

/// A message of a prompt.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageDeclaration {
    /// Who says it. Default `user`.
    #[serde(default)]
    pub role: RoleDeclaration,
    /// Text with placeholders: `{name}` stands for an argument.
    pub text: String,
}

/// Who says a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleDeclaration {
    /// The user.
    #[default]
    User,
    /// The model.
    Assistant,
}

/// What a prompt consists of.
#[derive(Debug)]
enum Body {
    Messages(Vec<Message>),
    Runner(Arc<Runner>, Arc<Services>),
}

#[derive(Debug)]
struct Message {
    role: Role,
    text: Template,
}

/// Makes the prompt of `declaration`; `text` is what the declaration says.
///
/// # Errors
///
/// What is wrong with the declaration.
pub fn make_prompt(
    declaration: &PromptDeclaration,
    text: &str,
    context: &mut FileContext<'_>,
) -> Result<Entry, Vec<Problem>> {
    let mut tables = declaration.arguments.clone();
    for (_, table) in &mut tables {
        if let Value::Object(table) = table {
            table.entry("type").or_insert_with(|| "string".into());
        }
    }
    let arguments = Arguments::from_tables(&tables)?;
    let mut builder = Prompt::new(declaration.name.as_str());
    if let Some(title) = &declaration.title {
        builder = builder.title(title.as_str());
    }
    if let Some(description) = &declaration.description {
        builder = builder.description(description.as_str());
    }
    for icon in &declaration.icons {
        builder = builder.icon(icon.to_icon()?);
    }
    for name in arguments.names() {
        builder = builder.argument(make_argument(name, &arguments, context));
    }
    let names: Vec<String> = arguments.names().map(ToOwned::to_owned).collect();
    let body = Arc::new(make_body(declaration, arguments, context)?);
    let prompt = builder.local(move |given, ctx| {
        let body = Arc::clone(&body);
        let principal = ctx.principal().map(|caller| caller.id().to_owned());
        let call = Call { arguments: values_of(&names, &given), principal, progress: None };
        async move { body.respond(call).await }
    });
    let rate_rule = declaration.limits.rate.as_ref();
    let rate_rule = rate_rule.map(|rate| format!("prompts/get {} rate={rate}", declaration.name));
    let item = Item::Prompt(prompt);
    Ok(Entry { fingerprint: Sha256::digest(text).into(), rate_rule, runner: None, item })
}

fn make_argument(name: &str, arguments: &Arguments, context: &FileContext<'_>) -> PromptArgument {
    let mut argument = PromptArgument::new(name);
    let text = |key| arguments.property(name)?.get(key)?.as_str();
    if let Some(title) = text("title") {
        argument = argument.title(title);
    }
    if let Some(description) = text("description") {
        argument = argument.description(description);
    }
    if arguments.is_required(name) {
        argument = argument.required();
    }
    match completion_of(name, arguments, context) {
        Some(values) => argument.completer(move |ctx| values.complete(ctx)),
        None => argument,
    }
}

fn make_body(
    declaration: &PromptDeclaration,
    arguments: Arguments,
    context: &mut FileContext<'_>,
) -> Result<Body, Vec<Problem>> {
    let fields = declaration.action_fields();
    let limits = declaration.limits.call_limits()?;
    if declaration.messages.is_empty() {
        let backend = make_backend(&fields, &arguments, limits, context)?;
        let calls = declaration.limits.calls;
        let (secrets, services) = (Arc::clone(&context.secrets), context.services);
        let runner =
            Runner::new(&declaration.name, backend, arguments, limits, calls, secrets, services);
        return Ok(Body::Runner(Arc::new(runner), Arc::clone(context.services)));
    }
    if fields.action().is_ok() {
        let hint = "keep one of the two";
        return Err(Problem::new("messages", "stands beside another content", hint).into());
    }
    let mut messages = Vec::new();
    for message in &declaration.messages {
        let text = Template::parse("messages", &message.text)?;
        check_names("messages", text.names(), &arguments)?;
        let role = match message.role {
            RoleDeclaration::User => Role::User,
            RoleDeclaration::Assistant => Role::Assistant,
        };
        messages.push(Message { role, text });
    }
    Ok(Body::Messages(messages))
}

fn values_of(names: &[String], given: &PromptArguments<'_>) -> Map<String, Value> {
    let value = |name: &String| Some((name.clone(), Value::from(given.get(name)?)));
    names.iter().filter_map(value).collect()
}

impl Body {
    async fn respond(&self, call: Call) -> Result<GetPromptResult, HandlerError> {
        match self {
            Self::Messages(messages) => {
                let mut result = GetPromptResult::default();
                for message in messages {
                    let text = fill(&message.text, &call);
                    result = result.message(message.role, Content::text(text));
                }
                Ok(result)
            }
            Self::Runner(runner, services) => {
                let output = runner.call_from_shard(call, services).await.map_err(to_error)?;
                let text = match output {
                    Output::Text(text) | Output::JsonText(text) => text,
                    Output::Json(value) => value.to_string(),
                    Output::Media { mime_type, data } if mime_type.starts_with("image/") => {
                        let image = Content::image(data, mime_type);
                        return Ok(GetPromptResult::default().message(Role::User, image));
                    }
                    Output::Media { mime_type, .. } => {
                        let text = format!("the prompt is {mime_type}, which is no text");
                        return Err(HandlerError::tool(text));
                    }
                };
                Ok(GetPromptResult::default().user(text))
            }
        }
    }
}

fn to_error(failure: Failure) -> HandlerError {
    match failure {
        Failure::InvalidArgument(text) => HandlerError::invalid_params(text),
        Failure::Failed(text) => HandlerError::tool(text),
    }
}
