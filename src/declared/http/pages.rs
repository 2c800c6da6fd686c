//! Pages of a result.

use reqwest::header::{HeaderMap, LINK};
use serde_json::Value;
use url::Url;

use super::declaration::PagesDeclaration;
use super::values::text_of;
use crate::declared::call::Failure;
use crate::declared::problem::Problem;

const PAGES_DEFAULT: u32 = 10;
const PAGES_MAX: u32 = 1000;

/// Where the next page is, and how many are read.
#[derive(Clone, Debug)]
pub(super) struct PageRule {
    pub(super) pages_max: u32,
    next: Next,
}

#[derive(Clone, Debug)]
enum Next {
    /// The header `Link`.
    Link,
    /// A URL at this JSON Pointer.
    Url(String),
    /// A token at a JSON Pointer, for a parameter of the query.
    Token(TokenRule),
}

#[derive(Clone, Debug)]
struct TokenRule {
    pointer: String,
    parameter: String,
}

impl PageRule {
    /// The rule of a declaration.
    ///
    /// # Errors
    ///
    /// The declaration does not say where the next page is, or says it twice.
    pub(super) fn new(declaration: &PagesDeclaration) -> Result<Self, Problem> {
        let PagesDeclaration { next, parameter, link, max } = declaration;
        let pages_max = max.unwrap_or(PAGES_DEFAULT);
        if !(1..=PAGES_MAX).contains(&pages_max) {
            let hint = format!("write 1 to {PAGES_MAX}");
            return Err(Problem::new("pages.max", format!("is {pages_max}"), hint));
        }
        let next = match (next, parameter, link) {
            (None, None, true) => Next::Link,
            (Some(pointer), None, false) => Next::Url(pointer.clone()),
            (Some(pointer), Some(parameter), false) => {
                let (pointer, parameter) = (pointer.clone(), parameter.clone());
                Next::Token(TokenRule { pointer, parameter })
            }
            _ => {
                let hint = "write `link = true`, or `next` as a JSON Pointer";
                return Err(Problem::new("pages", "has not one place of the next page", hint));
            }
        };
        if let Next::Url(pointer) | Next::Token(TokenRule { pointer, .. }) = &next {
            check_pointer("pages.next", pointer)?;
        }
        Ok(Self { pages_max, next })
    }

    /// The URL of the page after `url`, `None` after the last page.
    ///
    /// # Errors
    ///
    /// The next page is at another origin.
    pub(super) fn next_url(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &Value,
    ) -> Result<Option<Url>, Failure> {
        let text = match &self.next {
            Next::Link => next_link(headers),
            Next::Url(pointer) => token(body, pointer),
            Next::Token(rule) => {
                let token = token(body, &rule.pointer);
                return Ok(token.map(|token| with_parameter(url, &rule.parameter, &token)));
            }
        };
        let Some(text) = text else {
            return Ok(None);
        };
        let next = url.join(&text).map_err(|error| {
            Failure::failed(format_args!("the URL of the next page is invalid: {error}"))
        })?;
        if next.origin() != url.origin() {
            let origin = next.origin().ascii_serialization();
            return Err(Failure::failed(format_args!(
                "the next page is at {origin}; pages at another origin are not read"
            )));
        }
        Ok((next != *url).then_some(next))
    }
}

/// Checks the syntax of a JSON Pointer (RFC 6901).
pub(super) fn check_pointer(key: &str, pointer: &str) -> Result<(), Problem> {
    if pointer.is_empty() || pointer.starts_with('/') {
        return Ok(());
    }
    let message = format!("{pointer:?} is not a JSON Pointer");
    Err(Problem::new(key, message, format!("write \"/{}\"", pointer.replace('.', "/"))))
}

fn token(body: &Value, pointer: &str) -> Option<String> {
    match body.pointer(pointer)? {
        Value::Null | Value::Bool(false) => None,
        value => Some(text_of(value).into_owned()).filter(|text| !text.is_empty()),
    }
}

/// The URL with another value of one parameter of the query.
fn with_parameter(url: &Url, name: &str, value: &str) -> Url {
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(known, _)| known != name)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut url = url.clone();
    url.query_pairs_mut().clear().extend_pairs(kept).append_pair(name, value);
    url
}

/// The target of `rel="next"` in the headers `Link` (RFC 8288).
fn next_link(headers: &HeaderMap) -> Option<String> {
    let texts = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    for text in texts {
        let mut rest = text;
        while let Some((_, link)) = rest.split_once('<') {
            let (target, after) = link.split_once('>')?;
            let end = after.find(',').map_or(after.len(), |comma| {
                // A comma in a quoted parameter does not end the link.
                after[comma..].find('<').map_or(after.len(), |index| comma + index)
            });
            let is_next = after[..end].split(';').any(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or_default();
                let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
                let mut relations = value.split(' ');
                name.trim().eq_ignore_ascii_case("rel")
                    && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
            });
            if is_next {
                return Some(target.to_owned());
            }
            rest = &after[end..];
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn link(text: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(LINK, HeaderValue::from_static(text));
        next_link(&headers)
    }

    #[test]
    fn link_header_has_next_page() {
        let both = "<https://a.example/1>; rel=\"prev\", <https://a.example/3>; rel=\"next\"";
        assert_eq!(link(both).as_deref(), Some("https://a.example/3"));
        let other = "</x,y>; title=\"a, b\"; rel=next, </z>; rel=last";
        assert_eq!(link(other).as_deref(), Some("/x,y"));
        assert_eq!(link("</1>; rel=prev"), None);
        assert_eq!(link("nonsense"), None);
    }

    #[test]
    fn next_page_stays_in_origin() {
        let next = Some("/next".to_owned());
        let declaration = PagesDeclaration { next, ..PagesDeclaration::default() };
        let rule = PageRule::new(&declaration).unwrap();
        let url = Url::parse("https://a.example/list?page=1").unwrap();
        let next = |value: Value| rule.next_url(&url, &HeaderMap::new(), &json!({ "next": value }));
        assert_eq!(next(json!("?page=2")).unwrap().unwrap().query(), Some("page=2"));
        assert_eq!(next(json!(null)).unwrap(), None);
        assert_eq!(next(json!("https://a.example/list?page=1")).unwrap(), None);
        assert!(next(json!("https://b.example/list")).is_err());
        assert!(next(json!("http://a.example/list")).is_err());
    }

    #[test]
    fn token_replaces_parameter() {
        let url = Url::parse("https://a.example/list?q=a%26b&cursor=1").unwrap();
        let url = with_parameter(&url, "cursor", "x=&y");
        assert_eq!(url.query(), Some("q=a%26b&cursor=x%3D%26y"));
    }
}
