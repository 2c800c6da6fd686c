//! The words of a command: placeholders become arguments of the program, never of a shell.
//!
//! - A word that is one placeholder of a list stands for as many words as the list has values.
//! - A word with an argument that is absent is left out; of a group (a list in the list) all words
//!   are.
//! - A value that begins with `-` is refused where the program could read it as an option: as the
//!   beginning of a word before `--`, unless the argument has `dash = true`.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure};
use crate::declared::fill::text_of;
use crate::declared::problem::Problem;
use crate::declared::template::{PRINCIPAL, Part, Template};

/// A word of a command, or words that are left out together.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(untagged)]
pub enum WordDeclaration {
    /// One word, which may have placeholders.
    Word(String),
    /// Words that are left out if one of their arguments is absent, such as
    /// `["--depth", "{depth}"]`.
    Group(Vec<String>),
}

/// The words behind the program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Words {
    groups: Vec<Group>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Group {
    words: Vec<Template>,
}

/// Length of the longest argument of a program on Linux, without its NUL: `MAX_ARG_STRLEN`.
const WORD_BYTES_MAX: usize = 32 * 4096 - 1;

/// Length of all words, which the kernel counts with the environment; half of its usual limit.
const WORDS_BYTES_MAX: usize = 1024 * 1024;

impl Words {
    /// Parses the words of `command`.
    ///
    /// # Errors
    ///
    /// A placeholder is malformed, names no argument of `arguments`, or stands for a list within a
    /// word.
    pub fn parse(command: &[WordDeclaration], arguments: &Arguments) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut groups = Vec::new();
        for declared in command {
            let texts = match declared {
                WordDeclaration::Word(text) => std::slice::from_ref(text),
                WordDeclaration::Group(texts) => texts.as_slice(),
            };
            let mut words = Vec::new();
            for text in texts {
                match Template::parse("command", text) {
                    Ok(word) => {
                        problems.extend(check_word(&word, arguments));
                        words.push(word);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            groups.push(Group { words });
        }
        if problems.is_empty() { Ok(Self { groups }) } else { Err(problems) }
    }

    /// Names of the arguments that occur.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| &group.words).flat_map(Template::names)
    }

    /// The words of one call. `resolved` has the values of arguments that are checked paths.
    ///
    /// # Errors
    ///
    /// A value cannot be a word of a command, or could be read as an option.
    pub fn fill(
        &self,
        call: &Call,
        arguments: &Arguments,
        resolved: &Map<String, Value>,
    ) -> Result<Vec<String>, Failure> {
        let mut filler =
            Filler { call, arguments, resolved, is_behind_dashes: false, words: Vec::new() };
        for group in &self.groups {
            if group.words.iter().all(|word| filler.has_arguments_of(word)) {
                group.words.iter().try_for_each(|word| filler.add(word))?;
            }
        }
        let total: usize = filler.words.iter().map(|word| word.len() + 1).sum();
        if total > WORDS_BYTES_MAX {
            let text = format!(
                "the arguments have {total} bytes, a command takes at most {WORDS_BYTES_MAX}"
            );
            return Err(Failure::InvalidArgument(text));
        }
        Ok(filler.words)
    }
}

fn check_word(word: &Template, arguments: &Arguments) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in word.names().filter(|name| *name != PRINCIPAL) {
        if arguments.property(name).is_none() {
            let message = format!("{{{name}}} is not an argument of this tool");
            let hint = format!("declare it under [tool.arguments.{name}]");
            problems.push(Problem::new("command", message, hint));
        }
    }
    if word.parts().len() > 1 {
        let lists = word.names().filter(|name| arguments.type_of(name) == Some("array"));
        problems.extend(lists.map(|name| {
            let message = format!("{{{name}}} is a list within the word {word}");
            Problem::new("command", message, "a list is a word of its own")
        }));
    }
    problems
}

struct Filler<'a> {
    call: &'a Call,
    arguments: &'a Arguments,
    resolved: &'a Map<String, Value>,
    /// Whether a word `--` has been written: no word behind it is an option.
    is_behind_dashes: bool,
    words: Vec<String>,
}

impl Filler<'_> {
    fn value(&self, name: &str) -> Option<Cow<'_, Value>> {
        if name == PRINCIPAL && self.arguments.property(name).is_none() {
            return self.call.principal.as_deref().map(|it| Cow::Owned(Value::from(it)));
        }
        let value = self.resolved.get(name).or_else(|| self.call.arguments.get(name))?;
        (!value.is_null()).then_some(Cow::Borrowed(value))
    }

    /// Whether each argument of `word` is there. Flags stand for nothing if theirs is not.
    fn has_arguments_of(&self, word: &Template) -> bool {
        word.parts().iter().all(|part| match part {
            Part::Text(_) | Part::Flag { .. } => true,
            Part::Argument(name) => self.value(name).is_some(),
        })
    }

    fn add(&mut self, word: &Template) -> Result<(), Failure> {
        if let [Part::Argument(name)] = word.parts()
            && let Some(Value::Array(values)) = self.value(name).as_deref()
        {
            let words: Vec<String> = values.iter().map(|it| text_of(it).into_owned()).collect();
            return words.into_iter().try_for_each(|word| self.push(word, Some(name)));
        }
        let mut text = String::new();
        let mut first = None;
        for (index, part) in word.parts().iter().enumerate() {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Argument(name) => {
                    if index == 0 {
                        first = Some(name.as_str());
                    }
                    let value = self.value(name);
                    text.push_str(&value.as_deref().map_or(Cow::Borrowed(""), text_of));
                }
                Part::Flag { name, text: flag } => {
                    let is_set = |it: &Value| !matches!(it, Value::Bool(false));
                    if self.value(name).as_deref().is_some_and(is_set) {
                        text.push_str(flag);
                    }
                }
            }
        }
        let is_absent_flag = text.is_empty() && matches!(word.parts(), [Part::Flag { .. }]);
        if is_absent_flag { Ok(()) } else { self.push(text, first) }
    }

    /// Adds a word that begins with the value of `first`, if it begins with one.
    fn push(&mut self, word: String, first: Option<&str>) -> Result<(), Failure> {
        if let Some(name) = first
            && word.starts_with('-')
            && !self.is_behind_dashes
            && !self.arguments.rules(name).is_some_and(|rules| rules.dash)
        {
            let text = format!("argument {name} must not begin with -");
            return Err(Failure::InvalidArgument(text));
        }
        if word.contains('\0') {
            return Err(invalid(first, "must not contain a NUL character"));
        }
        if word.len() > WORD_BYTES_MAX {
            let text = format_args!("is longer than {WORD_BYTES_MAX} bytes");
            return Err(invalid(first, text));
        }
        self.is_behind_dashes |= first.is_none() && word == "--";
        self.words.push(word);
        Ok(())
    }
}

fn invalid(name: Option<&str>, reason: impl fmt::Display) -> Failure {
    match name {
        Some(name) => Failure::invalid_argument(format_args!("argument {name} {reason}")),
        None => Failure::invalid_argument(format_args!("an argument of the command {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments() -> Arguments {
        let Value::Object(tables) = json!({
            "path": { "type": "string", "required": false },
            "depth": { "type": "integer", "required": false },
            "verbose": { "type": "boolean", "required": false },
            "files": { "type": "array", "required": false },
            "raw": { "type": "string", "dash": true, "required": false },
        }) else {
            panic!("not an object")
        };
        Arguments::from_tables(&tables).unwrap()
    }

    fn parse(command: Value) -> Result<Words, Vec<Problem>> {
        let command: Vec<WordDeclaration> = serde_json::from_value(command).unwrap();
        Words::parse(&command, &arguments())
    }

    fn fill(command: Value, given: Value) -> Result<Vec<String>, Failure> {
        let Value::Object(given) = given else { panic!("not an object") };
        let call = Call { arguments: given, ..Call::default() };
        parse(command).unwrap().fill(&call, &arguments(), &Map::new())
    }

    #[test]
    fn placeholders_are_words_or_parts() {
        let command = json!(["-h", "--depth={depth}", "{path}"]);
        let words = fill(command.clone(), json!({ "path": "/a b;rm $(x)\n", "depth": 2 })).unwrap();
        assert_eq!(words, ["-h", "--depth=2", "/a b;rm $(x)\n"]);
        assert_eq!(fill(command, json!({ "path": "" })).unwrap(), ["-h", ""]);
    }

    #[test]
    fn lists_expand_and_flags_vanish() {
        let command = json!(["{?verbose:--verbose}", ["--depth", "{depth}"], "{files}"]);
        let given = json!({ "verbose": true, "depth": 3, "files": ["a", 1] });
        let words = fill(command.clone(), given).unwrap();
        assert_eq!(words, ["--verbose", "--depth", "3", "a", "1"]);
        let absent = json!({ "verbose": false, "files": [] });
        assert_eq!(fill(command.clone(), absent).unwrap(), [""; 0]);
        assert_eq!(fill(command, json!({ "depth": null })).unwrap(), [""; 0]);
    }

    #[test]
    fn value_that_looks_like_option_is_refused() {
        let refused = |command, given| fill(command, given).is_err();
        let option = json!({ "path": "--output=/etc/x", "files": ["-r"], "depth": -1 });
        assert!(refused(json!(["{path}"]), option.clone()));
        assert!(refused(json!(["{files}"]), option.clone()));
        assert!(refused(json!(["{depth}"]), option.clone()));
        assert!(!refused(json!(["--", "{path}", "{files}"]), option.clone()));
        assert!(!refused(json!(["--path={path}"]), option));
        assert!(!refused(json!(["{raw}"]), json!({ "raw": "-x" })));
        // A value cannot itself be the word behind which there are no options.
        assert!(refused(json!(["{raw}", "{path}"]), json!({ "raw": "--", "path": "-x" })));
    }

    #[test]
    fn words_with_nul_or_too_long_are_refused() {
        assert!(fill(json!(["{path}"]), json!({ "path": "a\0b" })).is_err());
        let long = "x".repeat(WORD_BYTES_MAX + 1);
        let error = fill(json!(["{path}"]), json!({ "path": long })).unwrap_err();
        assert_eq!(error.to_string(), "argument path is longer than 131071 bytes");
        let many: Vec<String> = vec!["y".repeat(100_000); 11];
        assert!(fill(json!(["{files}"]), json!({ "files": many })).is_err());
    }

    #[test]
    fn unknown_argument_and_partial_list_are_problems() {
        assert_eq!(parse(json!(["{nothing}"])).unwrap_err().len(), 1);
        assert_eq!(parse(json!(["a{files}"])).unwrap_err().len(), 1);
        assert_eq!(parse(json!(["{path"])).unwrap_err().len(), 1);
    }
}
