//! A Rust file as tokens: comments and the contents of strings are blanked.
//!
//! Every token has its line. This is not a parser: strings, comments, braces and attributes are
//! recognized, which is enough for rules about words.

use std::ops::Range;

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its path in the repository, with forward slashes.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
    /// Its tokens.
    pub(crate) tokens: Vec<Token>,
    /// Which tokens belong to items under `#[cfg(test)]` or `#[test]`.
    test_spans: Vec<Range<usize>>,
}

/// An identifier, a number, `::`, or one character of punctuation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let tokens = tokenize(&blank(text));
        let test_spans = find_test_spans(&tokens);
        Self { path: path.to_owned(), text: text.to_owned(), tokens, test_spans }
    }

    /// The token at `index`, or an empty string past the end.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.text.as_str())
    }

    /// Whether the tokens from `index` on are `words`.
    pub(crate) fn reads(&self, index: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(offset, word)| self.word(index + offset) == *word)
    }

    /// Whether the token at `index` belongs to a test.
    pub(crate) fn in_test(&self, index: usize) -> bool {
        self.test_spans.iter().any(|span| span.contains(&index))
    }

    /// Number of lines outside tests.
    pub(crate) fn production_lines(&self) -> usize {
        let all = self.text.lines().count();
        let tests: usize = self
            .test_spans
            .iter()
            .map(|span| self.tokens[span.end - 1].line + 1 - self.tokens[span.start].line)
            .sum();
        all - tests
    }

    /// The modules that this file declares (`mod name;`): token index and name.
    pub(crate) fn declared_modules(&self) -> impl Iterator<Item = (usize, &str)> {
        (0..self.tokens.len())
            .filter(|&index| self.word(index) == "mod" && self.word(index + 2) == ";")
            .map(|index| (index, self.word(index + 1)))
    }

    /// The names of the inline modules around the token at `index`, outermost first.
    pub(crate) fn inline_modules(&self, index: usize) -> Vec<&str> {
        let mut open: Vec<(usize, &str)> = Vec::new();
        let mut depth = 0_usize;
        for at in 0..index {
            match self.word(at) {
                "{" => {
                    if at >= 2 && self.word(at - 2) == "mod" {
                        open.push((depth, self.word(at - 1)));
                    }
                    depth += 1;
                }
                "}" => {
                    depth = depth.saturating_sub(1);
                    open.retain(|&(outer, _)| outer < depth);
                }
                _ => {}
            }
        }
        open.into_iter().map(|(_, name)| name).collect()
    }

    /// All paths that begin at `index`, with groups (`{a, b::c}`) expanded.
    pub(crate) fn paths_at(&self, index: usize) -> Vec<Vec<&str>> {
        let mut found = Vec::new();
        self.spread(index, &mut Vec::new(), &mut found);
        found
    }

    /// Follows one path from `index`; returns the index after it.
    fn spread<'a>(
        &'a self,
        mut index: usize,
        prefix: &mut Vec<&'a str>,
        found: &mut Vec<Vec<&'a str>>,
    ) -> usize {
        let length = prefix.len();
        loop {
            if self.word(index) == "{" {
                index += 1;
                while !matches!(self.word(index), "}" | "") {
                    index = if self.word(index) == "," {
                        index + 1
                    } else {
                        self.spread(index, prefix, found).max(index + 1)
                    };
                }
                prefix.truncate(length);
                return index + 1;
            }
            prefix.push(self.word(index));
            index += 1;
            if self.word(index) != "::" || !begins_segment(self.word(index + 1)) {
                break;
            }
            index += 1;
        }
        found.push(prefix.clone());
        prefix.truncate(length);
        index
    }

    /// Fields of the struct, or variants (and their fields) of the enum, whose keyword stands at
    /// `index`: names with their lines.
    pub(crate) fn members(&self, index: usize) -> Vec<(&str, usize)> {
        let Some(open) = self.body(index) else { return Vec::new() };
        let mut found = Vec::new();
        self.members_between(open + 1, self.closing(open), &mut found);
        found
    }

    /// The opening brace of the item whose keyword stands at `index`.
    pub(crate) fn body(&self, index: usize) -> Option<usize> {
        let mut at = index + 1;
        loop {
            match self.word(at) {
                "" | ";" => return None,
                "(" | "[" => at = self.closing(at) + 1,
                "{" => return Some(at),
                _ => at += 1,
            }
        }
    }

    fn members_between<'a>(&'a self, mut at: usize, end: usize, found: &mut Vec<(&'a str, usize)>) {
        while at < end {
            match self.word(at) {
                "#" => at = self.closing(at + 1) + 1,
                "pub" if self.word(at + 1) == "(" => at = self.closing(at + 1) + 1,
                "pub" => at += 1,
                _ => {
                    found.push((self.word(at), self.tokens[at].line));
                    if self.word(at + 1) == "{" {
                        self.members_between(at + 2, self.closing(at + 1), found);
                    }
                    at = self.after_comma(at, end);
                }
            }
        }
    }

    /// The index of the `>` that closes the `<` at `open`.
    pub(crate) fn closing_angle(&self, open: usize) -> usize {
        let (mut angles, mut at) = (0_usize, open);
        loop {
            match self.word(at) {
                "" => return at,
                "(" | "[" | "{" => at = self.closing(at),
                "<" => angles += 1,
                ">" if self.word(at - 1) != "-" => angles -= 1,
                _ => {}
            }
            if angles == 0 {
                return at;
            }
            at += 1;
        }
    }

    /// The index after the next comma that stands outside brackets, `end` at most.
    pub(crate) fn after_comma(&self, mut at: usize, end: usize) -> usize {
        let mut angles = 0_usize;
        while at < end {
            match self.word(at) {
                "," if angles == 0 => return at + 1,
                "(" | "[" | "{" => at = self.closing(at) + 1,
                "<" => (angles, at) = (angles + 1, at + 1),
                ">" if self.word(at - 1) != "-" => {
                    (angles, at) = (angles.saturating_sub(1), at + 1);
                }
                _ => at += 1,
            }
        }
        end
    }

    /// The index of the brace that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> usize {
        closing(&self.tokens, open)
    }
}

fn begins_segment(word: &str) -> bool {
    word == "{" || word.starts_with(is_name)
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 {
                    return index;
                }
            }
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// The token ranges of items that carry an attribute of tests, attribute included.
fn find_test_spans(tokens: &[Token]) -> Vec<Range<usize>> {
    let word = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        if word(index) != "#" || word(index + 1) != "[" {
            index += 1;
            continue;
        }
        let end = closing(tokens, index + 1);
        let attribute: Vec<&str> = (index + 2..end).map(word).collect();
        let is_test = matches!(attribute.as_slice(), ["test"])
            || (attribute.first() == Some(&"cfg")
                && attribute.contains(&"test")
                && !attribute.contains(&"not"));
        index = if is_test {
            let after = item_end(tokens, end + 1);
            spans.push(index..after);
            after
        } else {
            end + 1
        };
    }
    spans
}

/// The index after the item that begins at `index`.
fn item_end(tokens: &[Token], mut index: usize) -> usize {
    while index < tokens.len() {
        match tokens[index].text.as_str() {
            ";" => return index + 1,
            "{" => return closing(tokens, index) + 1,
            "(" | "[" => index = closing(tokens, index) + 1,
            _ => index += 1,
        }
    }
    tokens.len()
}

fn tokenize(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_name(first) {
                rest.find(|character| !is_name(character)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { line: number + 1, text: rest[..length].to_owned() });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// The text with comments and the contents of quotes replaced by spaces; line breaks remain.
fn blank(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = skipped_end(&characters, at);
        if end == at {
            code.push(characters[at]);
            at += 1;
        } else {
            let spaces = characters[at..end].iter();
            code.extend(spaces.map(|&character| if character == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment, string or character that begins at `at` ends; `at` itself where none does.
fn skipped_end(characters: &[char], at: usize) -> usize {
    let peek = |offset: usize| characters.get(at + offset).copied().unwrap_or('\0');
    match (peek(0), peek(1)) {
        ('/', '/') => find(characters, at, |slice| slice[0] == '\n'),
        ('/', '*') => block_comment_end(characters, at),
        ('"', _) => quoted_end(characters, at + 1, '"'),
        ('\'', '\\') => quoted_end(characters, at + 1, '\''),
        ('\'', _) if peek(2) == '\'' => at + 3,
        ('r' | 'b' | 'c', _) if at == 0 || !is_name(characters[at - 1]) => raw_end(characters, at),
        _ => at,
    }
}

fn find(characters: &[char], from: usize, ends: impl Fn(&[char]) -> bool) -> usize {
    (from..characters.len()).find(|&at| ends(&characters[at..])).unwrap_or(characters.len())
}

fn block_comment_end(characters: &[char], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < characters.len() {
        match characters.get(at..at + 2) {
            Some(['/', '*']) => (depth, at) = (depth + 1, at + 2),
            Some(['*', '/']) if depth == 1 => return at + 2,
            Some(['*', '/']) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn quoted_end(characters: &[char], mut at: usize, quote: char) -> usize {
    while at < characters.len() {
        match characters[at] {
            '\\' => at += 2,
            character if character == quote => return at + 1,
            _ => at += 1,
        }
    }
    characters.len()
}

/// The end of a string with a prefix (`r"…"`, `br#"…"#`, `b"…"`, `c"…"`, `b'…'`), or `at`.
fn raw_end(characters: &[char], at: usize) -> usize {
    let prefix = characters[at..].iter().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let hashes = characters[at + prefix..].iter().take_while(|&&c| c == '#').count();
    let raw = characters[at..at + prefix].contains(&'r');
    let open = at + prefix + hashes;
    match characters.get(open) {
        Some('"') if raw => {
            let mut end = vec!['#'; hashes + 1];
            end[0] = '"';
            let close = find(characters, open + 1, |slice| slice.starts_with(&end));
            (close + end.len()).min(characters.len())
        }
        Some('"') if hashes == 0 => quoted_end(characters, open + 1, '"'),
        Some('\'') if hashes == 0 && prefix == 1 && characters[at] == 'b' => {
            quoted_end(characters, open + 1, '\'')
        }
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Source::new("src/x.rs", text).tokens.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(words("a /* b /* c */ d */ e // f\ng"), ["a", "e", "g"]);
        assert_eq!(words(r##"a("b \" c", r#"d " e"#, b'\'', 'x', b"y");"##).join(""), "a(,,,,);");
    }

    #[test]
    fn lifetime_opens_no_character_literal() {
        assert_eq!(
            words("fn a<'b>(c: &'b str) {}").join(" "),
            "fn a < ' b > ( c : & ' b str ) { }"
        );
    }

    #[test]
    fn raw_identifier_is_not_a_raw_string() {
        assert_eq!(words("r#type bread"), ["r", "#", "type", "bread"]);
    }

    #[test]
    fn tokens_have_their_lines() {
        let source = Source::new("src/x.rs", "/* one\ntwo */ three\nfour");
        assert_eq!(source.tokens[0].line, 2);
        assert_eq!(source.tokens[1].line, 3);
    }

    #[test]
    fn items_under_test_attribute_are_tests() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}";
        let source = Source::new("src/x.rs", text);
        let at = |name| source.tokens.iter().position(|token| token.text == name).expect(name);
        assert!(!source.in_test(at("a")) && source.in_test(at("b")) && !source.in_test(at("c")));
        assert_eq!(source.production_lines(), 2);
        let source = Source::new("src/x.rs", "#[cfg(not(test))]\nfn a() {}");
        assert!(!source.in_test(6));
    }

    #[test]
    fn group_of_paths_is_expanded() {
        let source = Source::new("src/x.rs", "use crate::{base::{time, slab::Key}, engine};");
        assert_eq!(
            source.paths_at(1),
            [
                vec!["crate", "base", "time"],
                vec!["crate", "base", "slab", "Key"],
                vec!["crate", "engine"],
            ]
        );
    }

    #[test]
    fn inline_modules_are_found_by_name() {
        let source = Source::new("src/x.rs", "mod a { mod b { x } y } z");
        let at = |name| source.tokens.iter().position(|token| token.text == name).expect(name);
        assert_eq!(source.inline_modules(at("x")), ["a", "b"]);
        assert_eq!(source.inline_modules(at("y")), ["a"]);
        assert!(source.inline_modules(at("z")).is_empty());
    }
}
