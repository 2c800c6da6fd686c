//! Parser of prompt files: front matter and body. The format is documented at [`super::Prompts`].
//!
//! Mistakes are found when the file is read, with their line, and not when a client requests the
//! prompt: unknown keys, placeholders without an argument, arguments without a placeholder.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::template::{
    ARGUMENTS_MAX, Template, TemplateError, TemplateErrorKind, is_argument_name,
};
use crate::files::fault::FileFault;

/// A parsed prompt file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::files) struct PromptFile {
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

/// Front matter of a prompt file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
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
    /// Parses `text`, the content of the file at `path`.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, FileFault> {
        let file = PromptFileParser { path, text };
        let (front, body) = file.split_front_matter()?;
        let matter: FrontMatter = toml::from_str(&text[front.clone()]).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message().trim().replace('\n', " ");
            file.fault_at(front.start + at, what, ALLOWED_KEYS_HINT)
        })?;
        let template = Template::parse(&text[body.clone()])
            .map_err(|error| file.template_fault(body.start, error))?;
        let name = match &matter.name {
            Some(name) if name.get_ref().trim().is_empty() => {
                let at = front.start + name.span().start;
                return Err(file.fault_at(
                    at,
                    "the name is empty",
                    "write a name, or remove the key",
                ));
            }
            Some(name) => name.get_ref().clone(),
            None => stem(path)?,
        };
        let arguments = file.check_arguments(matter.arguments, front.start, &template)?;
        let FrontMatter { title, description, .. } = matter;
        Ok(Self { name, title, description, arguments, body: template })
    }
}

/// A file that is being parsed.
struct PromptFileParser<'a> {
    path: &'a Path,
    text: &'a str,
}

impl PromptFileParser<'_> {
    /// Returns the ranges of the front matter and the body in the text.
    fn split_front_matter(&self) -> Result<(Range<usize>, Range<usize>), FileFault> {
        let text = self.text;
        // A byte order mark, written by some editors.
        let start = text.len() - text.strip_prefix('\u{FEFF}').unwrap_or(text).len();
        let mut lines = text[start..].split_inclusive('\n');
        let first = lines.next().unwrap_or("");
        if first.trim_end() == YAML_FENCE && lines.clone().next().is_some_and(is_yaml) {
            let hint = "write it in TOML, between lines of +++";
            return Err(self.fault_at(
                start,
                "the front matter between lines of --- is YAML",
                hint,
            ));
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
        Err(self.fault_at(start, "the front matter has no closing +++", "close it with a line +++"))
    }

    /// Returns the fault for an error in the body, which begins at byte `start`.
    fn template_fault(&self, start: usize, error: TemplateError) -> FileFault {
        let syntax = "write {{name}} for an argument, {{{{ for two braces".to_owned();
        let (what, hint) = match error.kind {
            TemplateErrorKind::Unclosed => ("the {{ has no closing }}".to_owned(), syntax),
            TemplateErrorKind::InvalidName => {
                ("no argument name between {{ and }}".to_owned(), syntax)
            }
            TemplateErrorKind::TooManyArguments => (
                format!("the body has more than {ARGUMENTS_MAX} arguments"),
                "remove placeholders, or divide the prompt into several files".to_owned(),
            ),
        };
        self.fault_at(start + error.offset, what, hint)
    }

    /// Returns the arguments of the front matter, checked against the placeholders of the body;
    /// those of the body if the front matter has none. Cost: one search among the placeholders for
    /// each argument.
    fn check_arguments(
        &self,
        named: Option<Vec<FrontArgument>>,
        start: usize,
        template: &Template,
    ) -> Result<Vec<ArgumentFile>, FileFault> {
        let places = template.names();
        let Some(named) = named else {
            let required = |name: &String| ArgumentFile {
                name: name.clone(),
                title: None,
                description: None,
                required: true,
            };
            return Ok(places.iter().map(required).collect());
        };
        let mut is_listed = vec![false; places.len()];
        let mut arguments: Vec<ArgumentFile> = Vec::new();
        for argument in named {
            let at = start + argument.name.span().start;
            let name = argument.name.into_inner();
            if !is_argument_name(&name) {
                let hint = "use letters, digits, _, - and . only";
                return Err(self.fault_at(
                    at,
                    format!("{name:?} is not a valid argument name"),
                    hint,
                ));
            }
            let Some(index) = template.index_of(&name) else {
                let hint = format!("write {{{{{name}}}}} in the body, or remove the argument");
                return Err(self.fault_at(
                    at,
                    format!("{name} has no placeholder in the body"),
                    hint,
                ));
            };
            if std::mem::replace(&mut is_listed[index], true) {
                let hint = "remove one of them";
                return Err(self.fault_at(
                    at,
                    format!("the argument {name} is listed twice"),
                    hint,
                ));
            }
            let FrontArgument { title, description, required, .. } = argument;
            arguments.push(ArgumentFile { name, title, description, required });
        }
        if let Some((place, _)) = places.iter().zip(is_listed).find(|(_, is_listed)| !is_listed) {
            let at = self.text.find(&format!("{{{{{place}")).unwrap_or(0);
            let hint = "add it under [[arguments]], or remove all arguments there";
            return Err(self.fault_at(
                at,
                format!("{{{{{place}}}}} is not a listed argument"),
                hint,
            ));
        }
        Ok(arguments)
    }

    /// Returns a fault in the line of byte `at`.
    fn fault_at(&self, at: usize, what: impl Into<String>, hint: impl Into<String>) -> FileFault {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        FileFault { line: Some(line), ..FileFault::new(self.path, what, hint) }
    }
}

/// Returns the name of a file without its extension.
fn stem(path: &Path) -> Result<String, FileFault> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.map(str::to_owned).ok_or_else(|| {
        FileFault::new(
            path,
            "the name of the file is not UTF-8",
            "rename it, or write name = \"…\"",
        )
    })
}

/// Returns whether a line is a `key: value` of YAML front matter, unlike prose below a rule.
fn is_yaml(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, _)| is_argument_name(key))
}

/// Fence of YAML front matter, which is not supported.
const YAML_FENCE: &str = "---";

/// Fence of the front matter.
const FENCE: &str = "+++";

/// Hint for unknown keys.
const ALLOWED_KEYS_HINT: &str = "allowed keys are name, title, description and [[arguments]] with \
                                 name, title, description and required";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<PromptFile, String> {
        PromptFile::parse(Path::new("greet.md"), text).map_err(|fault| fault.to_string())
    }

    #[test]
    fn prompt_without_front_matter_is_its_body() {
        let prompt = read("Greet {{ name }}.\n").unwrap();
        assert_eq!(prompt.name, "greet");
        assert_eq!((prompt.title, prompt.description), (None, None));
        let [argument] = prompt.arguments.as_slice() else { panic!("not one argument") };
        assert!(argument.name == "name" && argument.required);
        assert_eq!(prompt.body.fill([("name", "Ada")]).to_string(), "Greet Ada.\n");
    }

    #[test]
    fn rule_above_prose_belongs_to_body() {
        let text = "---\nBe brief. Note: {{x}}\n---\n";
        assert_eq!(read(text).unwrap().body.fill([("x", "X")]).length(), text.len() - 4);
    }

    #[test]
    fn front_matter_defines_prompt_metadata() {
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
        assert_eq!(prompt.body.fill([("how", "Hi")]).to_string(), "Hi ");
    }

    #[test]
    fn prompt_faults_name_line_and_hint() {
        for (text, expected) in [
            ("+++\nname = \"a\"\n", "greet.md:1: the front matter has no closing +++; "),
            ("+++\ntitel = \"a\"\n+++\n", "greet.md:2: unknown field `titel`"),
            ("+++\n\nname = 7\n+++\n", "greet.md:3: invalid type: integer `7`"),
            ("+++\nname = \"\"\n+++\n", "greet.md:2: the name is empty; "),
            ("+++\nname = \n+++\n", "greet.md:2: "),
            ("---\nname: a\n---\n", "greet.md:1: the front matter between lines of --- is YAML; "),
            ("a\n{{b", "greet.md:2: the {{ has no closing }}; "),
            ("+++\n+++\n\n{{}}", "greet.md:4: no argument name between {{ and }}"),
            (
                "+++\narguments = [{ name = \"a\" }]\n+++\n{{a}}\n{{ab}}",
                "greet.md:5: {{ab}} is not a listed argument; add it under [[arguments]]",
            ),
            (
                "+++\n[[arguments]]\nname = \"a\"\n+++\n",
                "greet.md:3: a has no placeholder in the body; write {{a}} in the body",
            ),
            (
                "+++\narguments = [{ name = \"a\" },\n{ name = \"a\" }]\n+++\n{{a}}",
                "greet.md:3: the argument a is listed twice; ",
            ),
            (
                "+++\narguments = [{ name = \"a b\" }]\n+++\n",
                "greet.md:2: \"a b\" is not a valid argument name; ",
            ),
            (
                "+++\narguments = [{ name = \"a\", requird = true }]\n+++\n{{a}}",
                "greet.md:2: unknown field `requird`",
            ),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.starts_with(expected), "{fault}\n{expected}");
            assert!(fault.contains("; ") && fault.lines().count() == 1, "{fault}");
        }
    }

    proptest! {
        #[test]
        fn prompt_file_never_panics(text in "(\\+\\+\\+\n)?(\\PC|[{}\n=\"\\[\\]+]){0,80}") {
            drop(read(&text));
            drop(read(&format!("+++\n{text}\n+++\n{{{{a}}}}")));
        }
    }
}
