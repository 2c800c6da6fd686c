//! Front matter of a prompt file: TOML between lines of `+++`, or YAML between lines of `---`.
//!
//! Keys that are not known are those of other programs, such as `allowed-tools`, and are ignored.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::template::is_argument_name;

/// The keys of the front matter, all optional.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FrontMatter<S = Located> {
    pub(super) name: Option<S>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) arguments: Option<Vec<FrontArgument<S>>>,
    /// What to write as `$ARGUMENTS`.
    #[serde(rename = "argument-hint", alias = "argument_hint")]
    pub(super) argument_hint: Option<ArgumentHint>,
}

/// The value of `argument-hint`: a text, or in YAML the list that `[issue] [priority]` is.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ArgumentHint {
    Text(String),
    List(Vec<String>),
    Other(IgnoredAny),
}

impl ArgumentHint {
    /// Returns the text, if it is one.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(parts) => Some(format!("[{}]", parts.join(", "))),
            Self::Other(_) => None,
        }
    }
}

/// An argument in the front matter.
#[derive(Debug, Deserialize)]
pub(super) struct FrontArgument<S = Located> {
    pub(super) name: S,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) required: bool,
}

/// A text with its line.
#[derive(Debug, Default)]
pub(super) struct Located {
    pub(super) text: String,
    /// Line in the front matter, from 0.
    pub(super) line: usize,
}

/// Why front matter is rejected.
#[derive(Debug)]
pub(super) struct FrontMatterError {
    pub(super) message: String,
    /// Line in the front matter, from 0.
    pub(super) line: usize,
}

/// The format of front matter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrontMatterFormat {
    Toml,
    Yaml,
}

/// Where a file has front matter and body.
#[derive(Debug)]
pub(super) struct Sections {
    /// The front matter and its format, if there is any.
    pub(super) front: Option<(FrontMatterFormat, Range<usize>)>,
    pub(super) body: Range<usize>,
}

impl Sections {
    /// Divides the text of a file. A line `---` opens front matter only if a `key:` follows,
    /// because it is also a rule of Markdown.
    ///
    /// # Errors
    ///
    /// The fence that is not closed, and the byte at which it begins.
    pub(super) fn split(text: &str) -> Result<Self, (usize, &'static str)> {
        // A byte order mark, written by some editors.
        let start = text.len() - text.strip_prefix('\u{FEFF}').unwrap_or(text).len();
        let mut lines = text[start..].split_inclusive('\n');
        let first = lines.next().unwrap_or("");
        let (format, fence) = match first.trim_end() {
            TOML_FENCE => (FrontMatterFormat::Toml, TOML_FENCE),
            YAML_FENCE if starts_with_key(lines.clone()) => (FrontMatterFormat::Yaml, YAML_FENCE),
            _ => return Ok(Self { front: None, body: start..text.len() }),
        };
        let front = start + first.len();
        let mut at = front;
        for line in lines {
            if line.trim_end() == fence {
                let front = Some((format, front..at));
                return Ok(Self { front, body: at + line.len()..text.len() });
            }
            at += line.len();
        }
        Err((start, fence))
    }
}

/// Returns whether the first line that is neither empty nor a comment is a `key: value` of YAML.
fn starts_with_key<'a>(mut lines: impl Iterator<Item = &'a str>) -> bool {
    let first = lines.find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let key = first.and_then(|line| line.split_once(':'));
    key.is_some_and(|(key, _)| is_argument_name(key))
}

impl FrontMatter {
    pub(super) fn parse(format: FrontMatterFormat, text: &str) -> Result<Self, FrontMatterError> {
        match format {
            FrontMatterFormat::Toml => Self::parse_toml(text),
            FrontMatterFormat::Yaml => Self::parse_yaml(text),
        }
    }

    /// Returns the keys of valid front matter that are not known, as one list of words.
    pub(super) fn ignored_keys(format: FrontMatterFormat, text: &str) -> Vec<String> {
        #[expect(clippy::zero_sized_map_values, reason = "a set is read from a list of values")]
        let all: Option<BTreeMap<String, IgnoredAny>> = match format {
            FrontMatterFormat::Toml => toml::from_str(text).ok(),
            FrontMatterFormat::Yaml => serde_saphyr::from_str(text).ok(),
        };
        let keys = all.unwrap_or_default().into_keys();
        keys.filter(|key| !KNOWN_KEYS.contains(&key.as_str())).collect()
    }

    fn parse_toml(text: &str) -> Result<Self, FrontMatterError> {
        let line_at = |at: usize| memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count();
        let matter: FrontMatter<toml::Spanned<String>> =
            toml::from_str(text).map_err(|error| FrontMatterError {
                message: single_line(error.message()),
                line: line_at(error.span().map_or(0, |span| span.start)),
            })?;
        Ok(matter.map(|name| {
            let line = line_at(name.span().start);
            Located { text: name.into_inner(), line }
        }))
    }

    fn parse_yaml(text: &str) -> Result<Self, FrontMatterError> {
        let line_of = |location: serde_saphyr::Location| {
            usize::try_from(location.line().saturating_sub(1)).unwrap_or(0)
        };
        let matter: FrontMatter<serde_saphyr::Spanned<String>> = serde_saphyr::from_str(text)
            .map_err(|error| {
                let line = error.location().map_or(0, line_of);
                let message = error.without_snippet().to_string();
                // The line is that of the file, not of the front matter.
                let message = match message.rsplit_once(" at line ") {
                    Some((message, _)) => message,
                    None => &message,
                };
                FrontMatterError { message: single_line(message), line }
            })?;
        Ok(matter.map(|name| Located { line: line_of(name.referenced), text: name.value }))
    }
}

impl<S> FrontMatter<S> {
    /// Converts the located texts.
    fn map<T>(self, convert: impl Fn(S) -> T) -> FrontMatter<T> {
        let Self { name, title, description, arguments, argument_hint } = self;
        let argument = |argument: FrontArgument<S>| {
            let FrontArgument { name, title, description, required } = argument;
            FrontArgument { name: convert(name), title, description, required }
        };
        let arguments = arguments.map(|list| list.into_iter().map(argument).collect());
        FrontMatter { name: name.map(&convert), title, description, arguments, argument_hint }
    }
}

fn single_line(message: &str) -> String {
    message.trim().replace('\n', " ")
}

const KNOWN_KEYS: [&str; 6] =
    ["name", "title", "description", "arguments", "argument-hint", "argument_hint"];

const TOML_FENCE: &str = "+++";
const YAML_FENCE: &str = "---";
