//! `corelane read`, `prompt`, `complete`, `listen` and `ping`.

use std::time::Duration;

use clap::ArgMatches;
use corelane_client::{
    Change, CompleteResult, GetPromptResult, PromptArgument, PromptInfo, ReadResourceResult,
    SubscriptionFilter, block_on,
};
use corelane_protocol::eras::Method;
use serde_json::{Map, Value, json};

use super::arguments::{Argument, GivenArguments, Pair, PairValue};
use super::call::{explain, is_about_arguments, suggest_name};
use super::connection::{Connection, format_time, read, read_item, to_document};
use super::failure::Failure;
use super::flags::{COUNT, NAME, PROMPT, RESOURCE, URIS, given_arguments, given_pairs};
use super::output::{Content, Output};
use super::ranges::Range;
use super::text::printable;

/// Reads a resource and prints its contents. One that is too large for a response is read in ranges
/// if it is written to a file.
pub(crate) fn read_resource(
    matches: &ArgMatches,
    server: &Connection,
    output: &mut Output,
) -> Result<(), Failure> {
    let uri = matches.get_one::<String>(NAME).map(String::as_str).unwrap_or_default();
    let document = match server.request(Method::ResourcesRead, &json!({ "uri": uri })) {
        Ok(document) => document,
        Err(error) => {
            let range = Range::first(&error).filter(|_| !uri.contains('?'));
            return match (range, output.file()) {
                (Some(range), Some(path)) => range.read_all(uri, path, server),
                (Some(_), None) => {
                    let hint = "read all of it with --output FILE".to_owned();
                    Err(Failure::from(error).with_hint(Some(hint)))
                }
                (None, _) => Err(error.into()),
            };
        }
    };
    if output.is_json() {
        output.write_document(&document)?;
        return Ok(());
    }
    let result: ReadResourceResult = read(&document)?;
    let contents: Vec<Content<'_>> = result.contents.iter().map(Content::from).collect();
    output.write_contents(&contents)
}

/// A prompt as the command line names it.
#[derive(Debug)]
pub(crate) struct PromptRequest {
    name: String,
    given: GivenArguments,
}

impl PromptRequest {
    /// Reads the request.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self, Failure> {
        let name = matches.get_one::<String>(NAME).cloned().unwrap_or_default();
        Ok(Self { name, given: given_arguments(matches)? })
    }

    /// Gets the prompt and prints its messages.
    pub(crate) fn run(&self, server: &Connection, output: &mut Output) -> Result<(), Failure> {
        let arguments = self.given.to_texts();
        let params = json!({ "name": self.name, "arguments": arguments });
        let document = match server.request(Method::PromptsGet, &params) {
            Ok(document) => document,
            Err(error) => {
                let hint = match error.kind() {
                    kind if is_about_arguments(&kind) => self.hint(server, &arguments),
                    _ => None,
                };
                return Err(Failure::from(error).with_hint(hint));
            }
        };
        if output.is_json() {
            output.write_document(&document)?;
            return Ok(());
        }
        let result: GetPromptResult = read(&document)?;
        for message in &result.messages {
            output.write_line(&format!("{}:", message.role))?;
            output.write_contents(&[Content::from(&message.content)])?;
        }
        Ok(())
    }

    /// Returns what the list of prompts suggests about a request that failed.
    fn hint(&self, server: &Connection, arguments: &Map<String, Value>) -> Option<String> {
        let list = server.list(Method::PromptsList, "prompts").ok()?;
        let prompts = list.items.iter().filter_map(|item| read_item::<PromptInfo>(item).ok());
        let prompts: Vec<PromptInfo> = prompts.collect();
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == self.name) else {
            let names = prompts.iter().map(|prompt| prompt.name.as_str());
            return Some(suggest_name("prompt", &self.name, names));
        };
        Some(explain(&self.name, &declared_arguments(prompt), arguments))
    }
}

/// Returns the arguments of a prompt.
pub(crate) fn declared_arguments(prompt: &PromptInfo) -> Vec<Argument> {
    let arguments = prompt.arguments.iter();
    let argument = |argument: &PromptArgument| {
        let description = argument.description.as_deref().unwrap_or_default();
        Argument::text(&argument.name, argument.required, description)
    };
    arguments.map(argument).collect()
}

/// Completes an argument and prints its values.
pub(crate) fn complete(
    matches: &ArgMatches,
    server: &Connection,
    output: &mut Output,
) -> Result<(), Failure> {
    let reference = match matches.get_one::<String>(PROMPT) {
        Some(name) => json!({ "type": "ref/prompt", "name": name }),
        None => json!({ "type": "ref/resource", "uri": matches.get_one::<String>(RESOURCE) }),
    };
    let text = |pair: &Pair| match &pair.value {
        PairValue::Text(text) | PairValue::Json(Value::String(text)) => text.clone(),
        PairValue::Json(value) => value.to_string(),
    };
    let pairs = given_pairs(matches);
    let mut params = json!({ "ref": reference });
    if let Some((first, known)) = pairs.split_first() {
        params["argument"] = json!({ "name": first.key, "value": text(first) });
        if !known.is_empty() {
            let known: Map<String, Value> =
                known.iter().map(|pair| (pair.key.clone(), text(pair).into())).collect();
            params["context"] = json!({ "arguments": known });
        }
    }
    let document = server.request(Method::CompletionComplete, &params)?;
    if output.is_json() {
        output.write_document(&document)?;
        return Ok(());
    }
    let completion = read::<CompleteResult>(&document)?.completion;
    for value in &completion.values {
        output.write_line(value)?;
    }
    let shown = u64::try_from(completion.values.len()).unwrap_or(u64::MAX);
    match completion.total {
        Some(total) if total > shown => output.write_line(&format!("… {total} in all"))?,
        _ if completion.has_more => output.write_line("… and more")?,
        _ => {}
    }
    Ok(())
}

/// Prints the changes of the lists and of the given resources until the server ends.
pub(crate) fn listen(
    matches: &ArgMatches,
    server: &Connection,
    output: &mut Output,
) -> Result<(), Failure> {
    let uris = matches.get_many::<String>(URIS).unwrap_or_default();
    let filter = uris.fold(SubscriptionFilter::lists(), SubscriptionFilter::resource);
    let mut changes = server.subscribe(&filter)?;
    if *changes.granted() == SubscriptionFilter::default() {
        let text = "the server notifies of none of these changes, so nothing can arrive: it \
                    declares neither listChanged nor subscribe for them";
        return Err(Failure::call(text, None));
    }
    while let Some(change) = block_on(changes.next()) {
        let change = change?;
        let text = match &change {
            Change::ToolList => "the list of tools has changed".to_owned(),
            Change::PromptList => "the list of prompts has changed".to_owned(),
            Change::ResourceList => "the list of resources has changed".to_owned(),
            Change::Resource { uri } => format!("{} has changed", printable(uri)),
            Change::Task { id } => format!("the task {} has changed", printable(id)),
            Change::Resubscribed => {
                "the connection was lost and is back: changes may be missing".to_owned()
            }
            Change::Lost(count) => format!("{count} changes were lost"),
            other => format!("{other:?}"),
        };
        if output.is_json() {
            output.write_document(&to_document(&json!({ "change": text }))?)?;
        } else {
            output.write_line(&text)?;
        }
        output.flush()?;
    }
    Ok(())
}

/// Measures round trips.
pub(crate) fn ping(
    matches: &ArgMatches,
    server: &Connection,
    output: &mut Output,
) -> Result<(), Failure> {
    let count = matches.get_one::<u32>(COUNT).copied().unwrap_or(1);
    let mut times = Vec::new();
    for _ in 0..count {
        let time = server.ping()?;
        times.push(time);
        if !output.is_json() {
            output.write_line(&format!("{} answered in {}", server.target(), format_time(time)))?;
            output.flush()?;
        }
    }
    let (Some(min), Some(max)) = (times.iter().min(), times.iter().max()) else { return Ok(()) };
    if output.is_json() {
        let times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        let document = json!({ "target": server.target(), "roundTripMs": times });
        output.write_document(&to_document(&document)?)?;
    } else if count > 1 {
        let mean = times.iter().sum::<Duration>() / count;
        output.write_line(&format!(
            "{count} round trips: min {}, mean {}, max {}",
            format_time(*min),
            format_time(mean),
            format_time(*max)
        ))?;
    }
    Ok(())
}
