//! Challenges of a server: `WWW-Authenticate` (RFC 9110, section 11.6.1; RFC 6750, section 3;
//! RFC 9449, section 7.1; RFC 9728, section 5.1).

/// Challenges of one field that are read.
const CHALLENGES_MAX: usize = 16;
/// The algorithm of the proofs that this client signs.
pub(super) const PROOF_ALGORITHM: &str = "ES256";

/// What the challenges of one response ask for: the client may meet any of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Challenge {
    /// Those of the schemes `Bearer` and `DPoP`, in their order.
    offers: Vec<Offer>,
    /// Where the metadata of the protected resource is, whichever of them names it.
    pub resource_metadata: Option<String>,
}

/// One challenge of the scheme `Bearer` or `DPoP`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Offer {
    is_dpop: bool,
    /// The algorithms of proofs that the server accepts; `None` if it does not state them.
    algorithms: Option<String>,
    scope: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Offer {
    /// Returns whether the client can meet it.
    fn is_usable(&self) -> bool {
        let algorithms = self.algorithms.as_deref().filter(|_| self.is_dpop);
        algorithms.is_none_or(|list| {
            let mut names = list.split([' ', '\t', ',']).filter(|name| !name.is_empty()).peekable();
            names.peek().is_none() || names.any(|name| name == PROOF_ALGORITHM)
        })
    }

    fn has_error(&self, error: &str) -> bool {
        self.error.as_deref() == Some(error)
    }
}

impl Challenge {
    /// Reads the values of `WWW-Authenticate`. Returns `None` if none of them concerns tokens.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut found = Self::default();
        for value in values {
            for ParsedChallenge { scheme, offer, resource_metadata } in parse_list(value) {
                // The parameter may stand with any scheme (RFC 9728, section 5.1).
                found.resource_metadata = found.resource_metadata.or(resource_metadata);
                if scheme != Scheme::Other && !found.offers.contains(&offer) {
                    found.offers.push(offer);
                }
            }
        }
        (!found.offers.is_empty() || found.resource_metadata.is_some()).then_some(found)
    }

    /// Returns whether a bearer token is refused by every challenge: only `DPoP` was offered.
    pub(super) fn requires_dpop(&self) -> bool {
        !self.offers.is_empty() && self.offers.iter().all(|offer| offer.is_dpop)
    }

    /// Returns whether the client can meet a challenge of the scheme `DPoP`; `None` if there is
    /// none, so that the metadata of the resource decides.
    pub(super) fn offers_dpop(&self) -> Option<bool> {
        let mut offers = self.offers.iter().filter(|offer| offer.is_dpop).peekable();
        offers.peek()?;
        Some(offers.any(Offer::is_usable))
    }

    /// Returns the algorithms of the first challenge of the scheme `DPoP`, as the server names
    /// them.
    pub(super) fn algorithms(&self) -> Option<&str> {
        self.offers.iter().find_map(|offer| offer.algorithms.as_deref())
    }

    /// Returns the scopes that are asked for: by the challenge that lacks them, else by the one
    /// that is met with a token which `is_dpop` or not, else by another.
    pub fn scope(&self, is_dpop: bool) -> Option<&str> {
        let named = |offer: &&Offer| {
            offer.scope.as_deref().is_some_and(|scope| !scope.trim_ascii().is_empty())
        };
        let rank =
            |offer: &&Offer| (!offer.has_error(INSUFFICIENT_SCOPE), offer.is_dpop != is_dpop);
        self.offers.iter().filter(named).min_by_key(rank)?.scope.as_deref()
    }

    /// Returns why the token was refused: `error` and `error_description` of the first challenge
    /// that states them.
    pub fn reason(&self) -> (Option<&str>, Option<&str>) {
        let offer = self.offers.iter().find(|offer| offer.error.is_some());
        let texts = offer.map(|offer| (offer.error.as_deref(), offer.error_description.as_deref()));
        texts.unwrap_or_default()
    }

    /// Returns whether the token lacks a scope (RFC 6750, section 3.1).
    pub fn is_insufficient_scope(&self) -> bool {
        self.offers.iter().any(|offer| offer.has_error(INSUFFICIENT_SCOPE))
    }

    /// Returns whether the server asks for a nonce in the proof (RFC 9449, section 9).
    pub fn is_nonce_required(&self) -> bool {
        self.offers.iter().any(|offer| offer.is_dpop && offer.has_error("use_dpop_nonce"))
    }
}

const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scheme {
    Bearer,
    Dpop,
    Other,
}

impl Scheme {
    fn parse(name: &str) -> Self {
        match () {
            () if name.eq_ignore_ascii_case("bearer") => Self::Bearer,
            () if name.eq_ignore_ascii_case("dpop") => Self::Dpop,
            () => Self::Other,
        }
    }
}

/// One challenge of a field.
#[derive(Debug)]
struct ParsedChallenge {
    scheme: Scheme,
    offer: Offer,
    resource_metadata: Option<String>,
}

impl ParsedChallenge {
    fn new(scheme: Scheme) -> Self {
        let offer = Offer { is_dpop: scheme == Scheme::Dpop, ..Offer::default() };
        Self { scheme, offer, resource_metadata: None }
    }

    /// Returns where a parameter is kept, if it is used.
    fn parameter(&mut self, name: &str) -> Option<&mut Option<String>> {
        let offer = &mut self.offer;
        Some(match () {
            () if name.eq_ignore_ascii_case("resource_metadata") => &mut self.resource_metadata,
            () if name.eq_ignore_ascii_case("scope") => &mut offer.scope,
            () if name.eq_ignore_ascii_case("error") => &mut offer.error,
            () if name.eq_ignore_ascii_case("error_description") => &mut offer.error_description,
            () if name.eq_ignore_ascii_case("algs") => &mut offer.algorithms,
            () => return None,
        })
    }

    /// Sets a parameter; the first of its name counts.
    fn set(&mut self, name: &str, value: String) {
        if let Some(parameter) = self.parameter(name) {
            parameter.get_or_insert(value);
        }
    }

    /// Adds a word to the parameter `name`, whose value is not quoted although it has a space.
    fn extend(&mut self, name: &str, word: &str) {
        if let Some(Some(value)) = self.parameter(name) {
            value.extend([" ", word]);
        }
    }
}

/// Returns the challenges of one field value.
fn parse_list(value: &str) -> Vec<ParsedChallenge> {
    let mut scanner = Scanner { rest: value };
    let mut challenges: Vec<ParsedChallenge> = Vec::new();
    // The parameter that was read last, if its value is not quoted and no comma followed.
    let mut unquoted: Option<&str> = None;
    loop {
        if scanner.skip_separators() {
            unquoted = None;
        }
        let Some(name) = scanner.token() else { return challenges };
        if let Some(parameter) = scanner.value() {
            unquoted = Some(name).filter(|_| !parameter.is_quoted);
            if let Some(challenge) = challenges.last_mut() {
                challenge.set(name, parameter.text);
            }
            continue;
        }
        let scheme = Scheme::parse(name);
        if let (Scheme::Other, Some(parameter), Some(challenge)) =
            (scheme, unquoted, challenges.last_mut())
        {
            challenge.extend(parameter, name);
            continue;
        }
        if challenges.len() == CHALLENGES_MAX {
            return challenges;
        }
        challenges.push(ParsedChallenge::new(scheme));
        unquoted = None;
        if scheme == Scheme::Other {
            scanner.skip_token68();
        }
    }
}

/// The value of a parameter.
#[derive(Debug)]
struct ParameterValue {
    text: String,
    is_quoted: bool,
}

/// The part of a field value that is not read yet.
#[derive(Debug)]
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// Skips what separates parameters and challenges. Returns whether that is more than spaces.
    fn skip_separators(&mut self) -> bool {
        let rest = self.rest.trim_start_matches([' ', '\t', ',', ';']);
        let skipped = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        skipped.contains([',', ';'])
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Takes a token; `None` at the end and before a character that no token has.
    fn token(&mut self) -> Option<&'a str> {
        let is_end = |character: char| {
            character.is_whitespace() || matches!(character, ',' | '=' | '"' | ';')
        };
        let token = self.take_until(is_end);
        (!token.is_empty()).then_some(token)
    }

    /// Takes `=` and the value after it; `None`, and nothing is taken, without `=`.
    fn value(&mut self) -> Option<ParameterValue> {
        self.rest = self.rest.trim_start_matches([' ', '\t']).strip_prefix('=')?;
        self.skip_spaces();
        let Some(rest) = self.rest.strip_prefix('"') else {
            // More than a token: URLs stand here without quotes, too.
            let text = self.take_until(|character| character.is_whitespace() || character == ',');
            let text = text.trim_end_matches(';').to_owned();
            return Some(ParameterValue { text, is_quoted: false });
        };
        self.rest = rest;
        Some(ParameterValue { text: self.quoted(), is_quoted: true })
    }

    fn take_until(&mut self, is_end: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
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

    fn scope(value: &str) -> Option<String> {
        parse(value).unwrap().scope(false).map(str::to_owned)
    }

    #[test]
    fn bearer_challenge_is_read() {
        let text = "Bearer error=\"insufficient_scope\", scope=\"a b\", \
                    resource_metadata=\"https://a/x\", error_description=\"say \\\"b\\\"\"";
        let challenge = parse(text).unwrap();
        assert_eq!(challenge.scope(false), Some("a b"));
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a/x"));
        assert_eq!(challenge.reason(), (Some("insufficient_scope"), Some("say \"b\"")));
        assert!(challenge.is_insufficient_scope() && !challenge.requires_dpop());
        assert_eq!(challenge.offers_dpop(), None);
        assert_eq!(parse("bearer").unwrap().reason(), (None, None));
        assert_eq!(scope("Bearer SCOPE = a").as_deref(), Some("a"));
    }

    #[test]
    fn challenge_among_others_is_found() {
        for text in [
            "Basic realm=\"a, Bearer scope=b\", Bearer scope=\"c\"",
            "Negotiate YWJj==, Bearer scope=c",
            "Digest realm=x, nonce=\"y\", Bearer realm=z, scope=c",
            ",, Bearer scope=c,,",
            "Bearer realm=\"a\"; scope=\"c\"",
            "Bearer realm=a; scope=c",
            "Bearer realm=\"a\" DPoP scope=\"c\"",
        ] {
            assert_eq!(scope(text).as_deref(), Some("c"), "{text}");
        }
    }

    #[test]
    fn unquoted_values_are_read() {
        let url = "https://a/x?y=z&w=v";
        for text in [
            format!("Bearer resource_metadata={url}, scope=a"),
            format!("Bearer scope=a, resource_metadata={url}"),
            format!("Bearer scope=a,resource_metadata=\"{url}\""),
        ] {
            let challenge = parse(&text).unwrap();
            assert_eq!(challenge.resource_metadata.as_deref(), Some(url), "{text}");
            assert_eq!(challenge.scope(false), Some("a"), "{text}");
        }
        let text = "Bearer scope=read write, resource_metadata=https://a";
        assert_eq!(scope(text).as_deref(), Some("read write"));
        assert_eq!(parse(text).unwrap().resource_metadata.as_deref(), Some("https://a"));
    }

    #[test]
    fn any_of_several_challenges_may_be_met() {
        let dpop = "DPoP algs=\"ES256 RS256\", resource_metadata=\"https://a\"";
        for values in [[dpop, "Bearer scope=\"b\""], ["Bearer scope=\"b\"", dpop]] {
            let challenge = Challenge::parse(values).unwrap();
            assert!(!challenge.requires_dpop(), "{values:?}");
            assert_eq!(challenge.offers_dpop(), Some(true));
            assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a"));
            assert_eq!([true, false].map(|is_dpop| challenge.scope(is_dpop)), [Some("b"); 2]);
        }
        let both = parse("DPoP scope=\"d\", Bearer scope=\"b\"").unwrap();
        assert_eq!((both.scope(true), both.scope(false)), (Some("d"), Some("b")));
        let lacking = parse("DPoP scope=\"d\", Bearer error=insufficient_scope, scope=\"b\"");
        assert_eq!(lacking.unwrap().scope(true), Some("b"));
    }

    #[test]
    fn foreign_proof_algorithms_are_not_usable() {
        for (text, expected) in [
            ("DPoP algs=\"RS256\"", Some(false)),
            ("DPoP algs=RS256", Some(false)),
            ("DPoP algs=\"RS256 ES256\"", Some(true)),
            ("DPoP algs=\"\"", Some(true)),
            ("DPoP", Some(true)),
            ("Bearer algs=\"RS256\"", None),
        ] {
            assert_eq!(parse(text).unwrap().offers_dpop(), expected, "{text}");
        }
        let nonce = parse("Bearer, DPoP error=\"use_dpop_nonce\"").unwrap();
        assert!(nonce.is_nonce_required() && !nonce.requires_dpop());
    }

    #[test]
    fn invalid_challenge_is_ignored() {
        for text in ["", "Basic realm=\"a\"", "=", "\"", "Negotiate", "a=b"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(scope("Bearer scope=\"a").as_deref(), Some("a"));
        assert_eq!(scope("Bearer scope="), None);
        let many = "Bearer ".repeat(1_000);
        assert_eq!(parse(&many), parse("Bearer"));
        let metadata = parse("Basic realm=\"a\", resource_metadata=\"https://a\"").unwrap();
        assert_eq!((metadata.offers.len(), metadata.requires_dpop()), (0, false));
    }
}
