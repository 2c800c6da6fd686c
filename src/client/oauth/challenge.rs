//! Challenges of a server: `WWW-Authenticate` (RFC 9110, section 11.6.1; RFC 6750, section 3;
//! RFC 9449, section 7.1; RFC 9728, section 5.1).

/// Challenges of one response that are read.
const CHALLENGES_MAX: usize = 16;

/// A challenge of the scheme `Bearer` or `DPoP`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::client) struct Challenge {
    /// The scheme is `DPoP`.
    pub(in crate::client) is_dpop: bool,
    /// Where the metadata of the protected resource is.
    pub(in crate::client) resource_metadata: Option<String>,
    pub(in crate::client) scope: Option<String>,
    pub(in crate::client) error: Option<String>,
    pub(in crate::client) error_description: Option<String>,
}

impl Challenge {
    /// Returns the first challenge of the values of `WWW-Authenticate` that a client can meet with
    /// a token, preferring one that names the metadata of the resource.
    pub(in crate::client) fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for value in values {
            for challenge in parse_list(value) {
                let is_better = challenge.resource_metadata.is_some()
                    && found.as_ref().is_some_and(|found| found.resource_metadata.is_none());
                if found.is_none() || is_better {
                    found = Some(challenge);
                }
            }
        }
        found
    }

    /// Returns whether the token lacks a scope (RFC 6750, section 3.1).
    pub(in crate::client) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Returns whether the server asks for a nonce in the proof (RFC 9449, section 9).
    pub(in crate::client) fn is_nonce_required(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }

    fn set(&mut self, name: &str, value: String) {
        let field = match () {
            () if name.eq_ignore_ascii_case("resource_metadata") => &mut self.resource_metadata,
            () if name.eq_ignore_ascii_case("scope") => &mut self.scope,
            () if name.eq_ignore_ascii_case("error") => &mut self.error,
            () if name.eq_ignore_ascii_case("error_description") => &mut self.error_description,
            () => return,
        };
        field.get_or_insert(value);
    }
}

/// Returns the challenges of one field value whose scheme is `Bearer` or `DPoP`.
fn parse_list(value: &str) -> Vec<Challenge> {
    let mut scanner = Scanner { rest: value };
    let mut challenges = Vec::new();
    // `None` for a scheme that is not known.
    let mut current: Option<Challenge> = None;
    while challenges.len() < CHALLENGES_MAX {
        scanner.skip_separators();
        let Some(name) = scanner.token() else { break };
        if let Some(parameter) = scanner.value() {
            if let Some(challenge) = &mut current {
                challenge.set(name, parameter);
            }
            continue;
        }
        challenges.extend(current.take());
        let is_dpop = name.eq_ignore_ascii_case("dpop");
        if is_dpop || name.eq_ignore_ascii_case("bearer") {
            current = Some(Challenge { is_dpop, ..Challenge::default() });
        } else {
            scanner.skip_token68();
        }
    }
    challenges.extend(current);
    challenges
}

/// The part of a field value that is not read yet.
#[derive(Debug)]
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn skip_separators(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Takes a token; `None` at the end and before a character that no token has.
    fn token(&mut self) -> Option<&'a str> {
        let is_end = |character: char| {
            character.is_whitespace() || matches!(character, ',' | '=' | '"' | ';')
        };
        let (token, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    /// Takes `=` and the value after it; `None`, and nothing is taken, without `=`.
    fn value(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start_matches([' ', '\t']).strip_prefix('=')?;
        self.skip_spaces();
        match self.rest.strip_prefix('"') {
            Some(rest) => {
                self.rest = rest;
                Some(self.quoted())
            }
            None => Some(self.token().unwrap_or_default().to_owned()),
        }
    }

    /// Takes the rest of a quoted string.
    fn quoted(&mut self) -> String {
        let mut value = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return value;
                }
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                _ => value.push(character),
            }
        }
        self.rest = "";
        value
    }

    /// Takes the credentials in one word that may follow a scheme, such as those of `Negotiate`.
    fn skip_token68(&mut self) {
        self.skip_spaces();
        let end = self.rest.find([',', ' ', '\t']).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        let is_padded = word.ends_with('=');
        if is_padded || !word.contains('=') {
            self.rest = &self.rest[end..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<Challenge> {
        Challenge::parse([value])
    }

    #[test]
    fn bearer_challenge_is_read() {
        let text = "Bearer error=\"insufficient_scope\", scope=\"a b\", \
                    resource_metadata=\"https://a/x\", error_description=\"say \\\"b\\\"\"";
        let challenge = parse(text).unwrap();
        assert_eq!(challenge.scope.as_deref(), Some("a b"));
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a/x"));
        assert_eq!(challenge.error_description.as_deref(), Some("say \"b\""));
        assert!(challenge.is_insufficient_scope() && !challenge.is_dpop);
        assert_eq!(parse("bearer"), Some(Challenge::default()));
        assert_eq!(parse("Bearer SCOPE = a").unwrap().scope.as_deref(), Some("a"));
    }

    #[test]
    fn challenge_among_others_is_found() {
        for text in [
            "Basic realm=\"a, Bearer scope=b\", Bearer scope=\"c\"",
            "Negotiate YWJj==, Bearer scope=c",
            "Digest realm=x, nonce=\"y\", Bearer realm=z, scope=c",
            ",, Bearer scope=c,,",
        ] {
            assert_eq!(parse(text).unwrap().scope.as_deref(), Some("c"), "{text}");
        }
        let values = ["Bearer", "DPoP algs=\"ES256\", resource_metadata=\"https://a\""];
        assert!(Challenge::parse(values).unwrap().is_dpop);
        let nonce = parse("DPoP error=\"use_dpop_nonce\"").unwrap();
        assert!(nonce.is_dpop && nonce.is_nonce_required());
    }

    #[test]
    fn invalid_challenge_is_ignored() {
        for text in ["", "Basic realm=\"a\"", "=", "\"", "Negotiate", "a=b"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("Bearer scope=\"a").unwrap().scope.as_deref(), Some("a"));
        assert_eq!(parse("Bearer scope=").unwrap().scope.as_deref(), Some(""));
        let many = "Bearer ".repeat(1_000);
        assert_eq!(parse(&many), Some(Challenge::default()));
    }
}
