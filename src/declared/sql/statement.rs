//! The text of a statement: its parameters, and that it is one statement.
//!
//! The database itself has the last word on both; this module gives clear errors before it is
//! asked, and where it cannot be reached.

use std::ops::Range;

/// The rules of a database for the words of a statement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// Brackets and backticks around names; `$name` and `?` are parameters.
    Sqlite,
    /// `$tag$…$tag$` around texts, `E'…'` with backslashes, nested comments, `::` for casts.
    Postgres,
}

/// What a part of a statement is. White space and comments are no tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// A keyword or a name.
    Word,
    /// A name in quotes.
    QuotedName,
    /// A text in quotes.
    Text,
    /// `:name`.
    Parameter,
    /// `?`, `?1`, `@name` or `$name` where that is a parameter.
    OtherParameter,
    /// `{` or `}`.
    Brace,
    /// `;`.
    Semicolon,
    /// Anything else.
    Symbol,
}

/// A token with its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Spanned {
    /// What it is.
    pub(crate) token: Token,
    /// Its bytes in the text.
    pub(crate) range: Range<usize>,
}

/// One statement, without what stands before and after it.
#[derive(Clone, Debug)]
pub(crate) struct StatementText {
    text: String,
    tokens: Vec<Spanned>,
}

/// What is wrong with a statement, and how to correct it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StatementFault {
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: &'static str,
}

impl StatementFault {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

const PARAMETER_HINT: &str = "write :name for the argument `name`";
const ONE_HINT: &str = "write one statement";

impl StatementText {
    /// Reads the one statement of `text`.
    ///
    /// # Errors
    ///
    /// It has no statement, two, a parameter without name, or a `{placeholder}`; a quote or a
    /// comment is not closed. `arguments` are the names that a `{placeholder}` in quotes may have.
    pub(crate) fn parse(
        text: &str,
        dialect: Dialect,
        arguments: &[&str],
    ) -> Result<Self, StatementFault> {
        if text.contains('\0') {
            return Err(StatementFault::new("has a NUL", "remove it"));
        }
        let mut tokens = tokens_of(text, dialect)?;
        check_placeholders(text, &tokens, arguments)?;
        if let Some(end) = tokens.iter().position(|it| it.token == Token::Semicolon) {
            if tokens[end..].iter().any(|it| it.token != Token::Semicolon) {
                return Err(StatementFault::new("has more than one statement", ONE_HINT));
            }
            tokens.truncate(end);
        }
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return Err(StatementFault::new("has no statement", ONE_HINT));
        };
        if let Some(other) = tokens.iter().find(|it| it.token == Token::OtherParameter) {
            let message = format!("has the parameter {:?}", &text[other.range.clone()]);
            return Err(StatementFault::new(message, PARAMETER_HINT));
        }
        let (start, end) = (first.range.start, last.range.end);
        let text = text[start..end].to_owned();
        for spanned in &mut tokens {
            spanned.range = spanned.range.start - start..spanned.range.end - start;
        }
        Ok(Self { text, tokens })
    }

    /// The statement.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Names of the parameters, each once, in order.
    pub(crate) fn parameters(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for name in self.parameter_tokens().map(|it| &self.text[it.range.start + 1..it.range.end]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether the keyword `word` occurs.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        let is_word = |it: &&Spanned| it.token == Token::Word;
        self.tokens
            .iter()
            .filter(is_word)
            .any(|it| self.text[it.range.clone()].eq_ignore_ascii_case(word))
    }

    /// Whether the first token is the keyword `word`.
    pub(crate) fn starts_with_word(&self, word: &str) -> bool {
        self.tokens.first().is_some_and(|it| self.text[it.range.clone()].eq_ignore_ascii_case(word))
    }

    /// Whether `name` occurs as a name, in quotes or without.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.tokens.iter().any(|it| {
            let text = &self.text[it.range.clone()];
            match it.token {
                Token::Word => text.eq_ignore_ascii_case(name),
                // SQLite takes texts in quotes as names where a name must stand.
                Token::QuotedName | Token::Text => unquote(text).eq_ignore_ascii_case(name),
                _ => false,
            }
        })
    }

    /// The statement with `$1`, `$2`, … in place of its parameters, numbered as in
    /// [`Self::parameters`].
    #[cfg(feature = "postgres")]
    pub(crate) fn numbered(&self) -> String {
        let names = self.parameters();
        let mut numbered = String::with_capacity(self.text.len());
        let mut end = 0;
        for Spanned { range, .. } in self.parameter_tokens() {
            numbered.push_str(&self.text[end..range.start]);
            let name = &self.text[range.start + 1..range.end];
            let index = names.iter().position(|it| *it == name).unwrap_or_default();
            numbered.push('$');
            numbered.push_str(&(index + 1).to_string());
            end = range.end;
        }
        numbered.push_str(&self.text[end..]);
        numbered
    }

    fn parameter_tokens(&self) -> impl Iterator<Item = &Spanned> {
        self.tokens.iter().filter(|it| it.token == Token::Parameter)
    }
}

/// The name in the quotes of `text`.
fn unquote(text: &str) -> String {
    let quote = &text[..1];
    let inner = text.get(1..text.len() - 1).unwrap_or_default();
    inner.replace(&quote.repeat(2), quote)
}

/// Refuses `{name}`, which would be read as a placeholder: in quotes if `name` is an argument, and
/// any brace outside of quotes.
fn check_placeholders(
    text: &str,
    tokens: &[Spanned],
    arguments: &[&str],
) -> Result<(), StatementFault> {
    for Spanned { token, range } in tokens {
        let part = &text[range.clone()];
        let placeholder = match token {
            Token::Brace => Some(&text[range.start..]),
            Token::Text | Token::QuotedName => {
                arguments.iter().chain(&["principal"]).find_map(|name| {
                    let starts = [format!("{{{name}}}"), format!("{{?{name}:")];
                    starts.iter().find_map(|start| part.find(start.as_str())).map(|at| &part[at..])
                })
            }
            _ => None,
        };
        if let Some(placeholder) = placeholder {
            let end = placeholder.find('}').map_or(placeholder.len(), |end| end + 1);
            let shown: String = placeholder[..end].chars().take(40).collect();
            let message = format!("has the placeholder {shown:?}, but values are bound");
            let hint = "write :name, outside of quotes; in a pattern: '%' || :name || '%'";
            return Err(StatementFault::new(message, hint));
        }
    }
    Ok(())
}

fn tokens_of(text: &str, dialect: Dialect) -> Result<Vec<Spanned>, StatementFault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() || first == '\u{feff}' {
            at += first.len_utf8();
            continue;
        }
        if rest.starts_with("--") {
            at = rest.find('\n').map_or(text.len(), |end| at + end + 1);
            continue;
        }
        if rest.starts_with("/*") {
            at += comment_length(rest, dialect)?;
            continue;
        }
        let (token, length) = next_token(rest, first, dialect)?;
        tokens.push(Spanned { token, range: at..at + length });
        at += length;
    }
    Ok(tokens)
}

/// The token at the begin of `rest`, and its length.
fn next_token(rest: &str, first: char, dialect: Dialect) -> Result<(Token, usize), StatementFault> {
    let is_sqlite = dialect == Dialect::Sqlite;
    let name_after = |skip: usize| skip + word_length(&rest[skip..]);
    Ok(match first {
        '\'' => (Token::Text, quoted_length(rest, '\'', false)?),
        '"' => (Token::QuotedName, quoted_length(rest, '"', false)?),
        '`' if is_sqlite => (Token::QuotedName, quoted_length(rest, '`', false)?),
        '[' if is_sqlite => match rest.find(']') {
            Some(end) => (Token::QuotedName, end + 1),
            None => return Err(not_closed("[")),
        },
        '{' | '}' => (Token::Brace, 1),
        ';' => (Token::Semicolon, 1),
        ':' if rest.starts_with("::") => (Token::Symbol, 2),
        ':' if name_after(1) > 1 => (Token::Parameter, name_after(1)),
        '$' if !is_sqlite => match dollar_length(rest)? {
            Some(length) => (Token::Text, length),
            None => (Token::OtherParameter, name_after(1)),
        },
        '?' | '@' | '$' | '#' if is_sqlite => (Token::OtherParameter, name_after(1)),
        'e' | 'E' if !is_sqlite && rest[1..].starts_with('\'') => {
            (Token::Text, 1 + quoted_length(&rest[1..], '\'', true)?)
        }
        _ if first.is_alphanumeric() || first == '_' || !first.is_ascii() => {
            (Token::Word, word_length(rest))
        }
        _ => (Token::Symbol, first.len_utf8()),
    })
}

/// Length of the word that `rest` begins with, of the characters that names in SQL have.
fn word_length(rest: &str) -> usize {
    let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == '$' || !it.is_ascii();
    rest.find(|it| !is_part(it)).unwrap_or(rest.len())
}

fn not_closed(what: &str) -> StatementFault {
    StatementFault::new(format!("{what} is not closed"), "close it")
}

/// Length of the text in `quote`s that `rest` begins with; two of them stand for one.
fn quoted_length(rest: &str, quote: char, has_escapes: bool) -> Result<usize, StatementFault> {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        if has_escapes && char == '\\' {
            chars.next();
        } else if char == quote && chars.next_if(|&(_, next)| next == quote).is_none() {
            return Ok(at + quote.len_utf8());
        }
    }
    Err(not_closed(&format!("the quote {quote}")))
}

/// Length of the comment that `rest` begins with.
fn comment_length(rest: &str, dialect: Dialect) -> Result<usize, StatementFault> {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let Some(next) = rest[at..].find(['*', '/']) else {
            return Err(not_closed("a comment"));
        };
        at += next;
        if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else if dialect == Dialect::Postgres && rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else {
            at += 1;
        }
    }
    Ok(at)
}

/// Length of the text `$tag$…$tag$` that `rest` begins with; `None` if it is a parameter.
fn dollar_length(rest: &str) -> Result<Option<usize>, StatementFault> {
    let is_tag = |it: char| it.is_alphanumeric() || it == '_' || !it.is_ascii();
    let tag = rest[1..].find(|it| !is_tag(it)).map_or(rest.len(), |end| end + 1);
    let is_number = rest[1..].starts_with(|it: char| it.is_ascii_digit());
    if is_number || !rest[tag..].starts_with('$') {
        return Ok(None);
    }
    let quote = &rest[..=tag];
    match rest[tag + 1..].find(quote) {
        Some(end) => Ok(Some(tag + 1 + end + quote.len())),
        None => Err(not_closed(quote)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, dialect: Dialect) -> Result<StatementText, StatementFault> {
        StatementText::parse(text, dialect, &["id", "name"])
    }

    fn parameters(text: &str, dialect: Dialect) -> Vec<String> {
        parse(text, dialect).unwrap().parameters().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn parameters_are_outside_of_quotes() {
        let text =
            "/* :a */ select ':b', \":c\", [:d], `:e` from t -- :f\nwhere x = :id and y=:Name";
        assert_eq!(parameters(text, Dialect::Sqlite), ["id", "Name"]);
        let text = "select ':b', \":c\", $$:d$$, $q$ $$ :e $q$, E'\\':f', x::text /* /* */ :g */ \
                    from t where a[:id] = :name and b = :id";
        assert_eq!(parameters(text, Dialect::Postgres), ["id", "name"]);
        assert_eq!(parameters("select 'it''s :no', :id", Dialect::Sqlite), ["id"]);
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn parameters_are_numbered_for_postgres() {
        let statement = parse("select :a::int, ':a', :b where :a = x", Dialect::Postgres).unwrap();
        assert_eq!(statement.numbered(), "select $1::int, ':a', $2 where $1 = x");
    }

    #[test]
    fn second_statement_is_refused() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            for two in ["select 1; select 2", "select 1;drop table t", "select 1;;x"] {
                let fault = parse(two, dialect).unwrap_err();
                assert_eq!(fault.message, "has more than one statement", "{two}");
            }
            for none in ["", " ; ", "-- select 1", "/* */"] {
                assert_eq!(parse(none, dialect).unwrap_err().message, "has no statement");
            }
            for open in ["select 'a", "select \"a", "select /* ", "select 1 /* ; select 2"] {
                let fault = parse(open, dialect).unwrap_err();
                assert!(fault.message.ends_with("is not closed"), "{open}");
            }
            let one = parse("\n select ';' ; -- end\n", dialect).unwrap();
            assert_eq!(one.text(), "select ';'");
        }
        assert!(parse("select /* /* */ 1", Dialect::Postgres).is_err());
        assert!(parse("select $a$ 1 $b$", Dialect::Postgres).is_err());
    }

    #[test]
    fn other_parameters_are_refused() {
        for other in ["?", "?1", "@id", "$id"] {
            let fault = parse(&format!("select {other}"), Dialect::Sqlite).unwrap_err();
            assert_eq!(fault.message, format!("has the parameter {other:?}"));
        }
        assert!(parse("select $1", Dialect::Postgres).is_err());
        assert!(parse("select a ? 'b', c @> d", Dialect::Postgres).is_ok());
    }

    #[test]
    fn placeholders_are_refused_with_hint() {
        for wrong in ["select {id}", "select '%{id}%'", "select '{principal}'", "select \"{id}\""] {
            let fault = parse(wrong, Dialect::Sqlite).unwrap_err();
            assert!(fault.message.starts_with("has the placeholder"), "{wrong}");
            assert!(fault.hint.contains(":name"), "{wrong}");
        }
        assert!(parse("select '{\"id\": 1}', '{x}'", Dialect::Sqlite).is_ok());
    }

    #[test]
    fn words_and_names_are_found() {
        let statement =
            parse("With a as (select 'union') select * from \"V\", t, `a``b`", Dialect::Sqlite);
        let statement = statement.unwrap();
        assert!(statement.has_word("with") && !statement.has_word("union"));
        assert!(statement.has_name("v") && statement.has_name("T"));
        assert!(statement.has_name("a`b") && !statement.has_name("x"));
    }
}
