//! Resources and resource templates of declarations.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::declared::action::declaration;
use crate::declared::arguments::{ArgumentTables, Arguments};
use crate::declared::backend::Runner;
use crate::declared::call::{Call, Failure, Output};
use crate::declared::completion::completions;
use crate::declared::context::FileContext;
use crate::declared::entry::{Entry, Item};
use crate::declared::make::make_backend;
use crate::declared::metadata::{IconDeclaration, yes};
use crate::declared::problem::Problem;
use crate::declared::services::Services;
use crate::service::{HandlerError, ReadContext, Resource, ResourceBuilder, ResourceTemplate};
use corelane_protocol::model::{Icon, ResourceContents};

declaration! {
    /// A resource. It has exactly one of `text`, `file`, `command`, `http` and `sql`.
    pub struct ResourceDeclaration {
        /// Its URI, such as `config://app`.
        pub uri: String,
        /// Its name.
        pub name: String,
        /// Display name for people.
        #[serde(default)]
        pub title: Option<String>,
        /// What it is, for the model.
        #[serde(default)]
        pub description: Option<String>,
        /// Media type. Default: what the contents say.
        #[serde(default)]
        pub mime_type: Option<String>,
        /// Icons.
        #[serde(default)]
        pub icons: Vec<IconDeclaration>,
        /// Whether the resource is offered. Default `true`.
        #[serde(default = "yes")]
        pub enabled: bool,
    }
}

declaration! {
    /// A resource for each URI that matches a template. It has exactly one of `text`, `file`,
    /// `command`, `http` and `sql`.
    pub struct TemplateDeclaration {
        /// URI template (RFC 6570), such as `logs://{name}`. Its variables are the arguments.
        pub uri_template: String,
        /// Its name.
        pub name: String,
        /// Display name for people.
        #[serde(default)]
        pub title: Option<String>,
        /// What the resources are, for the model.
        #[serde(default)]
        pub description: Option<String>,
        /// Media type. Default: what the contents say.
        #[serde(default)]
        pub mime_type: Option<String>,
        /// Icons.
        #[serde(default)]
        pub icons: Vec<IconDeclaration>,
        /// Whether the template is offered. Default `true`.
        #[serde(default = "yes")]
        pub enabled: bool,
        /// What the variables may be: each a JSON Schema with `dash`, `within` and `complete`.
        #[serde(default)]
        pub arguments: ArgumentTables,
    }
}

/// What a resource and a template have in common.
#[derive(Debug)]
struct Reader {
    runner: Arc<Runner>,
    services: Arc<Services>,
    mime_type: Option<String>,
    /// The variables of the template.
    variables: Vec<String>,
    /// Checks the values of the variables.
    validator: Option<Validator>,
}

/// Makes the resource of `declaration`; `text` is what the declaration says.
///
/// # Errors
///
/// What is wrong with the declaration.
pub fn make_resource(
    declaration: &ResourceDeclaration,
    text: &str,
    context: &mut FileContext<'_>,
) -> Result<Entry, Vec<Problem>> {
    let ResourceDeclaration { uri, name, title, description, mime_type, .. } = declaration;
    let arguments = Arguments::from_tables(&ArgumentTables::new())?;
    let limits = declaration.limits.call_limits()?;
    let backend = make_backend(&declaration.action_fields(), &arguments, limits, context)?;
    let calls = declaration.limits.calls;
    let (secrets, services) = (Arc::clone(&context.secrets), context.services);
    let runner = Runner::new(name, backend, arguments, limits, calls, secrets, services);
    let reader = Reader {
        runner: Arc::new(runner),
        services: Arc::clone(context.services),
        mime_type: mime_type.clone(),
        variables: Vec::new(),
        validator: None,
    };
    let builder = Resource::new(uri.as_str(), name.as_str());
    let builder = describe(builder, title.as_deref(), description.as_deref(), mime_type.as_deref());
    let builder = add_icons(builder, &declaration.icons)?;
    let item = Item::Resource(serve(builder, reader));
    let rate_rule = declaration.limits.rate.as_ref();
    let rate_rule = rate_rule.map(|rate| format!("resources/read {uri} rate={rate}"));
    Ok(Entry { fingerprint: Sha256::digest(text).into(), rate_rule, runner: None, item })
}

/// Makes the template of `declaration`; `text` is what the declaration says.
///
/// # Errors
///
/// What is wrong with the declaration.
pub fn make_template(
    declaration: &TemplateDeclaration,
    text: &str,
    context: &mut FileContext<'_>,
) -> Result<Entry, Vec<Problem>> {
    let TemplateDeclaration { uri_template, name, title, description, mime_type, .. } = declaration;
    let variables = variables_of(uri_template);
    let mut tables = declaration.arguments.clone();
    for declared in tables.keys() {
        if !variables.contains(declared) {
            let message = format!("{{{declared}}} is not in {uri_template}");
            let hint = "rename it as in uri_template";
            return Err(Problem::new(format!("arguments.{declared}"), message, hint).into());
        }
    }
    for variable in &variables {
        let table = tables.entry(variable.as_str()).or_insert_with(|| Map::new().into());
        if let Value::Object(table) = table {
            table.entry("type").or_insert_with(|| "string".into());
        }
    }
    let arguments = Arguments::from_tables(&tables)?;
    let validator = jsonschema::validator_for(arguments.schema())
        .map_err(|error| Problem::new("arguments", error.to_string(), "see JSON Schema 2020-12"))?;
    if declaration.limits.rate.is_some() {
        let hint = "write a rule for resources/read in rate.rules";
        return Err(Problem::new("limits.rate", "is not for templates", hint).into());
    }
    let limits = declaration.limits.call_limits()?;
    let backend = make_backend(&declaration.action_fields(), &arguments, limits, context)?;
    let mut builder = ResourceTemplate::new(uri_template.as_str(), name.as_str());
    for (variable, values) in completions(&arguments, context) {
        builder = builder.completer(variable, move |ctx| values.complete(ctx));
    }
    let builder = describe(builder, title.as_deref(), description.as_deref(), mime_type.as_deref());
    let builder = add_icons(builder, &declaration.icons)?;
    let calls = declaration.limits.calls;
    let (secrets, services) = (Arc::clone(&context.secrets), context.services);
    let reader = Reader {
        runner: Arc::new(Runner::new(name, backend, arguments, limits, calls, secrets, services)),
        services: Arc::clone(context.services),
        mime_type: mime_type.clone(),
        variables,
        validator: Some(validator),
    };
    let item = Item::Template(serve(builder, reader));
    Ok(Entry { fingerprint: Sha256::digest(text).into(), rate_rule: None, runner: None, item })
}

/// Names of the variables of a URI template.
fn variables_of(uri_template: &str) -> Vec<String> {
    let mut variables: Vec<String> = Vec::new();
    for expression in uri_template.split('{').skip(1) {
        let Some((inner, _)) = expression.split_once('}') else { continue };
        let inner = inner.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        let names = inner.split(',').map(|name| name.trim_end_matches('*'));
        for name in names.filter(|name| !name.is_empty()) {
            let name = name.split(':').next().unwrap_or(name);
            if !variables.iter().any(|it| it == name) {
                variables.push(name.to_owned());
            }
        }
    }
    variables
}

fn describe<T>(
    mut builder: ResourceBuilder<T>,
    title: Option<&str>,
    description: Option<&str>,
    mime_type: Option<&str>,
) -> ResourceBuilder<T> {
    if let Some(title) = title {
        builder = builder.title(title);
    }
    if let Some(description) = description {
        builder = builder.description(description);
    }
    if let Some(mime_type) = mime_type {
        builder = builder.mime_type(mime_type);
    }
    builder
}

fn add_icons<T>(
    builder: ResourceBuilder<T>,
    icons: &[IconDeclaration],
) -> Result<ResourceBuilder<T>, Problem> {
    let icons: Vec<Icon> = icons.iter().map(IconDeclaration::to_icon).collect::<Result<_, _>>()?;
    Ok(icons.into_iter().fold(builder, ResourceBuilder::icon))
}

/// Completes the builder with a handler that has `reader` read.
fn serve<T>(builder: ResourceBuilder<T>, reader: Reader) -> T {
    let reader = Arc::new(reader);
    builder.local(move |read, ctx| {
        let reader = Arc::clone(&reader);
        let principal = ctx.principal().map(|caller| caller.id().to_owned());
        async move { reader.read(&read, principal).await }
    })
}

impl Reader {
    async fn read(
        &self,
        read: &ReadContext<'_>,
        principal: Option<String>,
    ) -> Result<ResourceContents, HandlerError> {
        let mut arguments = Map::new();
        for variable in &self.variables {
            let value = read.variable(variable).filter(|it| !it.is_empty());
            arguments
                .extend(value.map(|value| (variable.clone(), Value::from(value.into_owned()))));
        }
        let arguments = Value::Object(arguments);
        if self.validator.as_ref().is_some_and(|it| !it.is_valid(&arguments)) {
            return Err(HandlerError::NotFound);
        }
        let Value::Object(arguments) = arguments else { return Err(HandlerError::NotFound) };
        let call = Call { arguments, principal, progress: None };
        match self.run(call).await {
            Ok(output) => Ok(self.to_contents(read.uri(), output)),
            // A value that the backend refuses names no resource.
            Err(Failure::InvalidArgument(_)) => Err(HandlerError::NotFound),
            Err(Failure::Failed(text)) => Err(HandlerError::tool(text)),
        }
    }

    async fn run(&self, call: Call) -> Result<Output, Failure> {
        self.runner.call_from_shard(call, &self.services).await
    }

    fn to_contents(&self, uri: &str, output: Output) -> ResourceContents {
        let (contents, own_type) = match output {
            Output::Text(text) => (ResourceContents::text(uri, text), None),
            Output::Json(value) => (ResourceContents::text(uri, value.to_string()), JSON),
            Output::JsonText(text) => (ResourceContents::text(uri, text), JSON),
            Output::Media { mime_type, data } => {
                let contents = ResourceContents::blob(uri, data).with_mime_type(mime_type);
                return match &self.mime_type {
                    Some(mime_type) => contents.with_mime_type(mime_type.as_str()),
                    None => contents,
                };
            }
        };
        match self.mime_type.as_deref().or(own_type) {
            Some(mime_type) => contents.with_mime_type(mime_type),
            None => contents,
        }
    }
}

const JSON: Option<&str> = Some("application/json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_uri_templates_are_found() {
        assert_eq!(variables_of("a://{x}/{+path}{?q,r*}"), ["x", "path", "q", "r"]);
        assert!(variables_of("a://b").is_empty());
    }
}
