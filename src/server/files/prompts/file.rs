//! One file as a prompt: what stands before the body, and the body.
//!
//! The form is told with [`super::Prompts`].
//!
//! What it keeps true: what was misspelt is found when the file is read, with its line, and not
//! when a client asks: unknown keys, places without an argument, arguments without a place.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::template::{Template, is_name};
use crate::server::files::fault::Fault;

/// A file that can be offered as a prompt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::server::files) struct PromptFile {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<ArgumentFile>,
    pub(super) body: Template,
}

/// An argument of a [`PromptFile`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ArgumentFile {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) required: bool,
}

/// What may stand before the body.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Front {
    name: Option<Spanned<String>>,
    title: Option<String>,
    description: Option<String>,
    arguments: Option<Vec<FrontArgument>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontArgument {
    name: Spanned<String>,
    title: Option<String>,
    description: Option<String>,
    #[serde(default)]
    required: bool,
}

impl PromptFile {
    /// Reads `text`, the content of the file at `path`.
    pub(super) fn read(path: &Path, text: &str) -> Result<Self, Fault> {
        let file = File { path, text };
        let (front, body) = file.split()?;
        let matter: Front = toml::from_str(&text[front.clone()]).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message().trim().replace('\n', " ");
            file.fault(front.start + at, what, KEYS)
        })?;
        let template = Template::read(&text[body.clone()]).map_err(|fault| {
            let remedy = "write {{name}} for an argument, {{{{ for two braces";
            file.fault(body.start + fault.at, fault.what, remedy)
        })?;
        let name = match &matter.name {
            Some(name) if name.get_ref().trim().is_empty() => {
                let at = front.start + name.span().start;
                return Err(file.fault(at, "the name is empty", "write one, or leave it out"));
            }
            Some(name) => name.get_ref().clone(),
            None => stem(path)?,
        };
        let arguments = file.arguments(matter.arguments, front.start, &template)?;
        let Front { title, description, .. } = matter;
        Ok(Self { name, title, description, arguments, body: template })
    }
}

/// A file that is being read.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    /// Where the front matter and the body stand in the text.
    fn split(&self) -> Result<(Range<usize>, Range<usize>), Fault> {
        let text = self.text;
        // What some editors write before the first letter.
        let start = text.len() - text.strip_prefix('\u{FEFF}').unwrap_or(text).len();
        let mut lines = text[start..].split_inclusive('\n');
        let first = lines.next().unwrap_or("");
        if first.trim_end() == YAML_FENCE && lines.clone().next().is_some_and(is_yaml) {
            let remedy = "write it in TOML, between lines of +++";
            return Err(self.fault(start, "what stands between lines of --- is YAML", remedy));
        }
        if first.trim_end() != FENCE {
            return Ok((start..start, start..text.len()));
        }
        let front = start + first.len();
        let mut at = front;
        for line in lines {
            if line.trim_end() == FENCE {
                return Ok((front..at, at + line.len()..text.len()));
            }
            at += line.len();
        }
        Err(self.fault(start, "the +++ here is never closed", "end what it opens with a line +++"))
    }

    /// The arguments that the front matter names, held against the places of the body; those of
    /// the body where it names none.
    fn arguments(
        &self,
        named: Option<Vec<FrontArgument>>,
        start: usize,
        template: &Template,
    ) -> Result<Vec<ArgumentFile>, Fault> {
        let places = template.names();
        let Some(named) = named else {
            let required = |name: &str| ArgumentFile {
                name: name.to_owned(),
                title: None,
                description: None,
                required: true,
            };
            return Ok(places.into_iter().map(required).collect());
        };
        let mut arguments: Vec<ArgumentFile> = Vec::new();
        for argument in named {
            let at = start + argument.name.span().start;
            let name = argument.name.into_inner();
            if !is_name(&name) {
                let remedy = "write letters, digits, _, - and . only";
                return Err(self.fault(at, format!("{name:?} cannot name an argument"), remedy));
            }
            if arguments.iter().any(|other| other.name == name) {
                let remedy = "name each argument once";
                return Err(self.fault(at, format!("{name} is named twice"), remedy));
            }
            if !places.contains(&name.as_str()) {
                let remedy = format!("write {{{{{name}}}}} where it belongs, or leave it out");
                return Err(self.fault(at, format!("{name} has no place in the body"), remedy));
            }
            let FrontArgument { title, description, required, .. } = argument;
            arguments.push(ArgumentFile { name, title, description, required });
        }
        let is_named = |place: &&&str| arguments.iter().any(|argument| argument.name == **place);
        if let Some(place) = places.iter().find(|place| !is_named(place)) {
            let at = self.text.find(&format!("{{{{{place}")).unwrap_or(0);
            let remedy = "add it under [[arguments]], or name none at all";
            return Err(self.fault(at, format!("{{{{{place}}}}} is no argument"), remedy));
        }
        Ok(arguments)
    }

    /// A fault of the line in which byte `at` stands.
    fn fault(&self, at: usize, what: impl Into<String>, remedy: impl Into<String>) -> Fault {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        Fault { line: Some(line), ..Fault::new(self.path, what, remedy) }
    }
}

/// The name of a file without its end.
fn stem(path: &Path) -> Result<String, Fault> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.map(str::to_owned).ok_or_else(|| {
        Fault::new(path, "the name of the file is not UTF-8", "rename it, or write name = \"…\"")
    })
}

/// Whether a line says `key: value`, as front matter in YAML does and prose below a rule does not.
fn is_yaml(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, _)| is_name(key))
}

/// The line around front matter that other programs read and this one does not.
const YAML_FENCE: &str = "---";

/// The line before and after what is said about a prompt.
const FENCE: &str = "+++";

/// What is known there.
const KEYS: &str = "known are name, title, description and [[arguments]] with name, title, \
                    description and required";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<PromptFile, String> {
        PromptFile::read(Path::new("greet.md"), text).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_file_without_front_matter_is_its_body() {
        let prompt = read("Greet {{ name }}.\n").unwrap();
        assert_eq!(prompt.name, "greet");
        assert_eq!((prompt.title, prompt.description), (None, None));
        let [argument] = prompt.arguments.as_slice() else { panic!("one argument") };
        assert!(argument.name == "name" && argument.required);
        assert_eq!(prompt.body.fill(|_| Some("Ada")).to_string(), "Greet Ada.\n");
    }

    #[test]
    fn a_rule_above_prose_is_a_part_of_the_body() {
        let text = "---\nBe brief. Note: {{x}}\n---\n";
        assert_eq!(read(text).unwrap().body.fill(|_| Some("X")).length(), text.len() - 4);
    }

    #[test]
    fn front_matter_says_what_clients_are_told() {
        let text = "\u{FEFF}+++\r\nname = \"hello\"\ntitle = \"T\"\ndescription = \"D\"\n\
                    [[arguments]]\nname = \"who\"\ndescription = \"W\"\n\
                    [[arguments]]\nname = \"how\"\nrequired = true\n+++\n{{how}} {{who}}";
        let prompt = read(text).unwrap();
        assert_eq!(prompt.name, "hello");
        assert_eq!(
            (prompt.title.as_deref(), prompt.description.as_deref()),
            (Some("T"), Some("D"))
        );
        let arguments: Vec<_> = prompt
            .arguments
            .iter()
            .map(|it| (it.name.as_str(), it.description.as_deref(), it.required))
            .collect();
        assert_eq!(arguments, [("who", Some("W"), false), ("how", None, true)]);
        assert_eq!(prompt.body.fill(|name| (name == "how").then_some("Hi")).to_string(), "Hi ");
    }

    #[test]
    fn each_fault_is_told_with_its_line_and_a_remedy() {
        for (text, wanted) in [
            ("+++\nname = \"a\"\n", "greet.md:1: the +++ here is never closed; "),
            ("+++\ntitel = \"a\"\n+++\n", "greet.md:2: unknown field `titel`"),
            ("+++\n\nname = 7\n+++\n", "greet.md:3: invalid type: integer `7`"),
            ("+++\nname = \"\"\n+++\n", "greet.md:2: the name is empty; "),
            ("+++\nname = \n+++\n", "greet.md:2: "),
            ("---\nname: a\n---\n", "greet.md:1: what stands between lines of --- is YAML; "),
            ("a\n{{b", "greet.md:2: the {{ here is never closed; "),
            ("+++\n+++\n\n{{}}", "greet.md:4: between {{ and }} stands no name"),
            (
                "+++\narguments = [{ name = \"a\" }]\n+++\n{{a}}\n{{ab}}",
                "greet.md:5: {{ab}} is no argument; add it under [[arguments]]",
            ),
            (
                "+++\n[[arguments]]\nname = \"a\"\n+++\n",
                "greet.md:3: a has no place in the body; write {{a}} where it belongs",
            ),
            (
                "+++\narguments = [{ name = \"a\" },\n{ name = \"a\" }]\n+++\n{{a}}",
                "greet.md:3: a is named twice; ",
            ),
            (
                "+++\narguments = [{ name = \"a b\" }]\n+++\n",
                "greet.md:2: \"a b\" cannot name an argument; ",
            ),
            (
                "+++\narguments = [{ name = \"a\", requird = true }]\n+++\n{{a}}",
                "greet.md:2: unknown field `requird`",
            ),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.starts_with(wanted), "{fault}\n{wanted}");
            assert!(fault.contains("; ") && fault.lines().count() == 1, "{fault}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\+\\+\\+\n)?(\\PC|[{}\n=\"\\[\\]+]){0,80}") {
            drop(read(&text));
            drop(read(&format!("+++\n{text}\n+++\n{{{{a}}}}")));
        }
    }
}
