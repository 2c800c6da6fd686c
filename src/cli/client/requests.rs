//! `corelane read`, `prompt`, `complete`, `listen` and `ping`.
//!
//! A resource that is larger than one response is read in ranges, one after the other. A Corelane
//! server refuses to read such a file with -32602, whose `data` has the first range in
//! `corelane/range`; each range states itself in `_meta["corelane/range"]` (docs/files.md).

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ArgMatches;
use corelane_client::{
    Change, ClientError, ClientErrorKind, CompleteResult, GetPromptResult, PromptArgument,
    PromptInfo, ReadResourceResult, SubscriptionFilter, block_on,
};
use corelane_protocol::eras::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::arguments::{Argument, GivenArguments, Pair, PairValue};
use super::call::{explain, is_about_arguments, suggest_name};
use super::connection::{Connection, format_time, read, read_item, to_document};
use super::failure::Failure;
use super::flags::{COUNT, NAME, PROMPT, RESOURCE, URIS, given_arguments, given_pairs};
use super::output::{Content, Output, OutputFile};
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

/// Key of a range.
const RANGE_KEY: &str = "corelane/range";

/// A range of a resource.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
struct Range {
    offset: u64,
    /// Bytes of the range.
    length: u64,
    /// Bytes of the resource.
    size: u64,
    /// Changes with the resource, if the server knows that.
    etag: Option<String>,
}

impl Range {
    /// Returns the first range to read if the server refuses to read all at once.
    fn first(error: &ClientError) -> Option<Self> {
        let data: Value = serde_json::from_str(error.data()?).ok()?;
        // The parity dialect has the data of MCP in a member of its details.
        let range = data.get(RANGE_KEY).or_else(|| data.get("data")?.get(RANGE_KEY))?;
        Self::deserialize(range).ok().filter(|range| range.offset == 0 && range.length > 0)
    }

    /// Reads all ranges of a resource into the file `path`, which changes only if all are read.
    fn read_all(&self, uri: &str, path: &Path, server: &Connection) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::call(format!("{} was not written: {why}", path.display()), None)
        };
        let mut file = OutputFile::create(path).map_err(|error| failed(&error))?;
        let mut offset = 0;
        while offset < self.size {
            let bytes = self.read_part(uri, offset, server).map_err(|error| match error.kind() {
                ClientErrorKind::Rpc { .. } | ClientErrorKind::Parity { .. } => failed(&format!(
                    "{uri} cannot be read on at byte {offset} of {}; it may have changed: {error}",
                    self.size
                )),
                _ => error.into(),
            })?;
            file.append(&bytes).map_err(|error| failed(&error))?;
            offset += bytes.len() as u64;
        }
        file.finish().map_err(|error| failed(&error))
    }

    /// Reads the range that begins at `offset`.
    fn read_part(
        &self,
        uri: &str,
        offset: u64,
        server: &Connection,
    ) -> Result<Vec<u8>, ClientError> {
        let length = self.length.min(self.size - offset);
        let params = json!({ "uri": format!("{uri}?offset={offset}&length={length}") });
        let document = server.request(Method::ResourcesRead, &params)?;
        self.check_part(offset, &read(&document)?).map_err(|why| {
            let text = format!("the range of {uri} at byte {offset} is of no use: {why}");
            ClientError::new(ClientErrorKind::Protocol, text)
        })
    }

    /// Returns the bytes of the range at `offset`, or why the result does not have them.
    fn check_part(&self, offset: u64, result: &Value) -> Result<Vec<u8>, String> {
        let Some([content]) = result["contents"].as_array().map(Vec::as_slice) else {
            return Err("the result does not have one item of contents".to_owned());
        };
        let bytes = match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(blob)) => {
                BASE64_STANDARD.decode(blob).map_err(|error| error.to_string())?
            }
            (None, None) => return Err("it has neither text nor a blob".to_owned()),
        };
        let given = bytes.len() as u64;
        // Contents have no `_meta` in the first revisions, so that only their length is known.
        let meta = &content["_meta"];
        if !meta.is_null() {
            self.check_meta(offset, given, meta)?;
        }
        if given == 0 || given > self.size - offset {
            return Err(format!(
                "it has {given} bytes of the {} that are left",
                self.size - offset
            ));
        }
        Ok(bytes)
    }

    /// Checks the `_meta` of a range that begins at `offset` and has `given` bytes.
    fn check_meta(&self, offset: u64, given: u64, meta: &Value) -> Result<(), String> {
        let part = Self::deserialize(&meta[RANGE_KEY]);
        let part = part.map_err(|error| format!("_meta has no valid {RANGE_KEY}: {error}"))?;
        if (part.size, &part.etag) != (self.size, &self.etag) {
            return Err(format!(
                "the resource has changed since the first range, which was of {} bytes, and has {} \
                 now; read it again",
                self.size, part.size
            ));
        }
        if part.offset != offset || part.length != given {
            return Err(format!(
                "it states {} bytes at {} and has {given} bytes",
                part.length, part.offset
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(size: u64) -> Range {
        Range { offset: 0, length: 4, size, etag: Some("a".to_owned()) }
    }

    fn result(text: &str, meta: &Value) -> Value {
        json!({ "contents": [{ "uri": "u", "text": text, "_meta": { "corelane/range": meta } }] })
    }

    fn meta(offset: u64, length: u64, size: u64, etag: &str) -> Value {
        json!({ "offset": offset, "length": length, "size": size, "etag": etag })
    }

    #[test]
    fn part_that_does_not_fit_is_refused() {
        let check = |text: &str, meta: &Value| range(9).check_part(4, &result(text, meta));
        assert_eq!(check("abcd", &meta(4, 4, 9, "a")).unwrap(), b"abcd");
        for (text, meta, expected) in [
            ("abcd", meta(4, 4, 8, "a"), "has changed"),
            ("abcd", meta(4, 4, 9, "b"), "has changed"),
            ("abcd", meta(3, 4, 9, "a"), "states 4 bytes at 3"),
            ("abc", meta(4, 4, 9, "a"), "has 3 bytes"),
            ("", meta(4, 0, 9, "a"), "0 bytes of the 5"),
            ("abcdef", meta(4, 6, 9, "a"), "6 bytes of the 5"),
            ("abcd", json!({}), "no valid corelane/range"),
        ] {
            let error = check(text, &meta).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(range(9).check_part(4, &json!({ "contents": [] })).is_err());
    }
}
