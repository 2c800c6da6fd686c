//! Parser of prompt files: front matter and body. The format is documented at [`super::Prompts`].
//!
//! Mistakes are found when the file is read, with their line, and not when a client requests the
//! prompt: placeholders without an argument, arguments without a placeholder. A bad placeholder is
//! text, and does not reject the file; an unknown key is ignored.

use std::path::Path;

use super::front_matter::{ArgumentHint, FrontArgument, FrontMatter, Sections};
use super::template::{
    ARGUMENTS_MAX, DOLLAR_ARGUMENTS_NAME, ERRORS_MAX, ParsedTemplate, Template, TemplateError,
    TemplateErrorKind, is_argument_name,
};
use crate::files::FileFault;

/// A parsed prompt file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PromptFile {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<ArgumentFile>,
    pub(super) body: Template,
    /// Placeholders that are text, because they are no arguments.
    pub(super) warnings: Vec<FileFault>,
    /// Keys of the front matter that are not known.
    pub(super) ignored_keys: Vec<String>,
}

/// An argument of a [`PromptFile`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ArgumentFile {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) required: bool,
    /// Whether the front matter lists it.
    is_listed: bool,
}

impl PromptFile {
    /// Parses `text`, the content of the file at `path`.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, FileFault> {
        let file = PromptFileParser { path, text };
        let sections = Sections::split(text).map_err(|(at, fence)| {
            let what = format!("the front matter has no closing {fence}");
            file.fault_at(at, what, format!("close it with a line {fence}"))
        })?;
        let (front_line, matter, ignored_keys) = match sections.front {
            None => (1, FrontMatter::default(), Vec::new()),
            Some((format, front)) => {
                let line = file.line_at(front.start);
                let front = &text[front];
                let matter = FrontMatter::parse(format, front).map_err(|error| {
                    file.fault_in(line + error.line, error.message, ALLOWED_KEYS_HINT)
                })?;
                (line, matter, FrontMatter::ignored_keys(format, front))
            }
        };
        let start = sections.body.start;
        let mut parsed = Template::parse(&text[sections.body])
            .map_err(|error| file.template_fault(start, error))?;
        let name = match matter.name {
            Some(name) if name.text.trim().is_empty() => {
                let hint = "write a name, or remove the key";
                return Err(file.fault_in(front_line + name.line, "the name is empty", hint));
            }
            Some(name) => name.text,
            None => stem(path)?,
        };
        let mut warnings: Vec<FileFault> =
            parsed.errors.iter().map(|error| file.template_fault(start, *error)).collect();
        let hint = matter.argument_hint.and_then(ArgumentHint::into_text);
        let mut arguments = match matter.arguments {
            None => {
                parsed.template.names().iter().map(|name| ArgumentFile::required(name)).collect()
            }
            Some(listed) => {
                let arguments = file.check_arguments(listed, front_line, &parsed.template)?;
                warnings.extend(file.remove_unlisted(&arguments, start, &mut parsed));
                arguments
            }
        };
        if parsed.has_dollar_arguments {
            add_dollar_arguments(&mut arguments, hint);
        }
        let FrontMatter { title, description, .. } = matter;
        let body = parsed.template;
        Ok(Self { name, title, description, arguments, body, warnings, ignored_keys })
    }
}

impl ArgumentFile {
    /// The argument of a placeholder that is not listed.
    fn required(name: &str) -> Self {
        let (title, description, is_listed) = (None, None, false);
        Self { name: name.to_owned(), title, description, required: true, is_listed }
    }
}

/// Makes the argument of `$ARGUMENTS` optional, with `hint` as its description, unless the front
/// matter lists it.
fn add_dollar_arguments(arguments: &mut Vec<ArgumentFile>, hint: Option<String>) {
    let name = DOLLAR_ARGUMENTS_NAME;
    match arguments.iter_mut().find(|argument| argument.name == name) {
        Some(argument) if !argument.is_listed => {
            (argument.required, argument.description) = (false, hint);
        }
        Some(argument) => argument.description = argument.description.take().or(hint),
        None => arguments.push(ArgumentFile {
            description: hint,
            required: false,
            ..ArgumentFile::required(name)
        }),
    }
}

/// A file that is being parsed.
struct PromptFileParser<'a> {
    path: &'a Path,
    text: &'a str,
}

impl PromptFileParser<'_> {
    /// Returns the fault for an error in the body, which begins at byte `start`.
    fn template_fault(&self, start: usize, error: TemplateError) -> FileFault {
        let syntax = "it is text; write {{name}} for an argument, {{{{ for two braces".to_owned();
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

    /// Returns the arguments of the front matter, which begins at `front_line`, checked against the
    /// placeholders of the body. Cost: one search among the placeholders for each argument.
    fn check_arguments(
        &self,
        listed: Vec<FrontArgument>,
        front_line: usize,
        template: &Template,
    ) -> Result<Vec<ArgumentFile>, FileFault> {
        let mut is_listed = vec![false; template.names().len()];
        let mut arguments: Vec<ArgumentFile> = Vec::new();
        for argument in listed {
            let FrontArgument { name, title, description, required } = argument;
            let (line, name) = (front_line + name.line, name.text);
            if !is_argument_name(&name) {
                let hint = "use letters, digits, _, - and . only";
                let what = format!("{name:?} is not a valid argument name");
                return Err(self.fault_in(line, what, hint));
            }
            let Some(index) = template.index_of(&name) else {
                let hint = format!("write {{{{{name}}}}} in the body, or remove the argument");
                let what = format!("{name} has no placeholder in the body");
                return Err(self.fault_in(line, what, hint));
            };
            if std::mem::replace(&mut is_listed[index], true) {
                let what = format!("the argument {name} is listed twice");
                return Err(self.fault_in(line, what, "remove one of them"));
            }
            arguments.push(ArgumentFile { name, title, description, required, is_listed: true });
        }
        Ok(arguments)
    }

    /// Makes placeholders that are not in `arguments` text. Returns a fault for each, up to a
    /// limit.
    fn remove_unlisted(
        &self,
        arguments: &[ArgumentFile],
        start: usize,
        parsed: &mut ParsedTemplate,
    ) -> Vec<FileFault> {
        let names = parsed.template.names();
        let mut is_text = vec![true; names.len()];
        for argument in arguments {
            if let Some(index) = parsed.template.index_of(&argument.name) {
                is_text[index] = false;
            }
        }
        if parsed.has_dollar_arguments
            && let Some(index) = parsed.template.index_of(DOLLAR_ARGUMENTS_NAME)
        {
            is_text[index] = false;
        }
        let unlisted = names.iter().zip(&parsed.offsets).zip(&is_text);
        let unlisted = unlisted.filter(|(_, is_text)| **is_text).map(|(place, _)| place);
        let hint = "it is text; add it under arguments, or remove all arguments there";
        let fault = |(name, offset): (&String, &usize)| {
            self.fault_at(start + offset, format!("{{{{{name}}}}} is not a listed argument"), hint)
        };
        let faults = unlisted.take(ERRORS_MAX).map(fault).collect();
        parsed.template.make_text(&is_text);
        faults
    }

    /// Returns a fault in the line of byte `at`.
    fn fault_at(&self, at: usize, what: impl Into<String>, hint: impl Into<String>) -> FileFault {
        self.fault_in(self.line_at(at), what, hint)
    }

    fn fault_in(&self, line: usize, what: impl Into<String>, hint: impl Into<String>) -> FileFault {
        FileFault { line: Some(line), ..FileFault::new(self.path, what, hint) }
    }

    /// Returns the line of byte `at`, from 1.
    fn line_at(&self, at: usize) -> usize {
        1 + memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at.min(self.text.len())]).count()
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

/// Hint for values of another type.
const ALLOWED_KEYS_HINT: &str = "name, title, description and argument-hint are texts, arguments \
                                 is a list with name, title, description and required each";

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
            ("+++\n\nname = 7\n+++\n", "greet.md:3: invalid type: integer `7`"),
            ("+++\nname = \"\"\n+++\n", "greet.md:2: the name is empty; "),
            ("+++\nname = \n+++\n", "greet.md:2: "),
            ("---\nname: a\n", "greet.md:1: the front matter has no closing ---; "),
            ("---\ntitle: T\nname: [a]\n---\n", "greet.md:3: "),
            ("---\nname: a\nname: b\n---\n", "greet.md:3: "),
            ("---\nname: \"\"\n---\n", "greet.md:2: the name is empty; "),
            (
                "---\narguments:\n  - name: a\n  - name: b\n---\n{{a}}",
                "greet.md:4: b has no placeholder in the body; ",
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
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.starts_with(expected), "{fault}\n{expected}");
            assert!(fault.contains("; ") && fault.lines().count() == 1, "{fault}");
        }
    }

    #[test]
    fn unknown_keys_are_ignored_and_known() {
        let yaml = "---\ndescription: D\nallowed-tools: Bash(git:*), Read\nmodel: opus\n\
                    hooks:\n  a: [1]\narguments:\n  - { name: a, type: string }\n---\n{{a}}";
        let toml = "+++\ndescription = \"D\"\nmodel = 7\n[hooks]\na = [1]\n+++\n{{a}}";
        for (text, keys) in
            [(yaml, &["allowed-tools", "hooks", "model"][..]), (toml, &["hooks", "model"])]
        {
            let prompt = read(text).unwrap();
            assert_eq!(prompt.description.as_deref(), Some("D"));
            assert_eq!(prompt.ignored_keys, keys);
            assert!(prompt.warnings.is_empty() && prompt.arguments.len() == 1);
        }
    }

    #[test]
    fn dollar_arguments_is_an_optional_argument() {
        for (front, description) in [
            ("", None),
            ("---\nargument-hint: PR number\n---\n", Some("PR number")),
            ("---\nargument-hint: [issue] \n---\n", Some("[issue]")),
            ("+++\nargument-hint = \"[issue]\"\n+++\n", Some("[issue]")),
            ("+++\narguments = []\n+++\n", None),
        ] {
            let prompt = read(&format!("{front}Fix $ARGUMENTS, $ARGUMENTS!")).unwrap();
            let [argument] = &prompt.arguments[..] else { panic!("{front}") };
            assert_eq!((argument.name.as_str(), argument.required), ("arguments", false));
            assert_eq!(argument.description.as_deref(), description, "{front}");
            assert_eq!(prompt.body.fill([("arguments", "7 $ARGUMENTS")]).to_string(), {
                "Fix 7 $ARGUMENTS, 7 $ARGUMENTS!"
            });
            assert!(prompt.warnings.is_empty(), "{front}");
        }
        let text = "+++\narguments = [{ name = \"arguments\", required = true }]\n+++\n$ARGUMENTS";
        assert!(read(text).unwrap().arguments[0].required);
    }

    #[test]
    fn yaml_front_matter_defines_prompt_metadata() {
        let text = "---\r\n# A comment.\r\nname: hello\r\ntitle: \"T: t\"\r\n\
                    description: |\r\n  D\r\n  d\r\narguments:\r\n  - name: who\r\n    \
                    description: W\r\n  - { name: how, required: true }\r\n---\r\n{{how}} {{who}}";
        let prompt = read(text).unwrap();
        assert_eq!((prompt.name.as_str(), prompt.title.as_deref()), ("hello", Some("T: t")));
        assert_eq!(prompt.description.as_deref(), Some("D\nd\n"));
        let arguments: Vec<_> = prompt
            .arguments
            .iter()
            .map(|it| (it.name.as_str(), it.description.as_deref(), it.required))
            .collect();
        assert_eq!(arguments, [("who", Some("W"), false), ("how", None, true)]);
        assert_eq!(prompt.body.fill([("how", "Hi")]).to_string(), "Hi ");
        assert!(prompt.warnings.is_empty());
    }

    #[test]
    fn bad_placeholder_is_text_with_warning() {
        for (text, filled, expected) in [
            ("a\n{{b {{x}}", "a\n{{b X", "greet.md:2: no argument name between {{ and }}; "),
            ("{{x}}\n{{b", "X\n{{b", "greet.md:2: the {{ has no closing }}; it is text; "),
            ("+++\n+++\n\n{{}}{{x}}", "\n{{}}X", "greet.md:4: no argument name between {{ and }}"),
            (
                "+++\narguments = [{ name = \"x\" }]\n+++\n{{x}}\n{{ xy }}",
                "X\n{{xy}}",
                "greet.md:5: {{xy}} is not a listed argument; it is text; add it under arguments",
            ),
        ] {
            let prompt = read(text).unwrap();
            assert_eq!(prompt.body.fill([("x", "X"), ("xy", "Y")]).to_string(), filled, "{text}");
            let names: Vec<_> = prompt.arguments.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, ["x"], "{text}");
            let warnings: Vec<String> = prompt.warnings.iter().map(ToString::to_string).collect();
            assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
        }
    }

    #[test]
    fn warnings_of_one_file_are_limited() {
        let unlisted: Vec<String> = (0..100).map(|index| format!("{{{{y{index}}}}}")).collect();
        let text =
            format!("+++\narguments = []\n+++\n{}{}", unlisted.concat(), "{{ }}".repeat(100));
        let prompt = read(&text).unwrap();
        assert_eq!(prompt.warnings.len(), 2 * ERRORS_MAX);
        assert!(prompt.body.fill([("y1", "Y")]).to_string().starts_with("{{y0}}{{y1}}"));
    }

    proptest! {
        #[test]
        fn prompt_file_never_panics(text in "(\\+\\+\\+\n)?(\\PC|[{}\n=\"\\[\\]+]){0,80}") {
            drop(read(&text));
            drop(read(&format!("+++\n{text}\n+++\n{{{{a}}}}")));
            drop(read(&format!("---\nname: {text}\n---\n{{{{a}}}}")));
        }
    }
}
