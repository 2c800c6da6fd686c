//! URI templates: the subset of RFC 6570 for which the values of a URI are unambiguous.
//!
//! Matching scans the URI once without backtracking. For that, a template is rejected if two
//! variables are adjacent, or if a variable follows `{+name}` before the query.
//!
//! | expression | matches |
//! | --- | --- |
//! | `{name}` | one or more characters except `/`, `?`, `#`, up to the next literal |
//! | `{+name}` | one or more characters of any kind |
//! | `{?a,b}` | nothing, or `?` and pairs `a=…&b=…` in any order, each at most once |
//!
//! Source: RFC 6570, sections 2 and 3.

use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct UriTemplate {
    parts: Box<[TemplatePart]>,
    variable_names: Box<[Box<str>]>,
}

#[derive(Clone, Debug)]
enum TemplatePart {
    Literal(Box<str>),
    /// `{name}`
    Simple(usize),
    /// `{+name}`
    Reserved(usize),
    /// `{?a,b}`
    Query(Range<usize>),
}

/// Byte ranges of the values in a matched URI, by index of the variable. Values that the URI omits
/// are empty.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct VariableSpans([(u32, u32); VARIABLES_MAX]);

impl UriTemplate {
    /// Parses a template, with its host in lower case; `Err` is phrased to follow "resource
    /// template `template`: ".
    pub(super) fn parse(template: &str) -> Result<Self, &'static str> {
        let (mut parts, mut names) = (Vec::new(), Vec::new());
        let mut rest = template;
        while !rest.is_empty() {
            let (literal, expression) = match rest.split_once('{') {
                None => (std::mem::take(&mut rest), None),
                Some((literal, tail)) => {
                    let (inside, tail) =
                        tail.split_once('}').ok_or("the URI template has a `{` without `}`")?;
                    rest = tail;
                    (literal, Some(inside))
                }
            };
            if literal.contains('}') {
                return Err("the URI template has a `}` without `{`");
            }
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(literal.into()));
            }
            if let Some(expression) = expression {
                let part = Self::parse_expression(expression, &mut names)?;
                Self::check_order(&parts, &part)?;
                parts.push(part);
            }
        }
        match parts.first() {
            Some(TemplatePart::Literal(first)) if first.contains(':') => {}
            _ => return Err("the URI template must begin with a scheme, such as `https:`"),
        }
        if names.is_empty() {
            return Err("the URI template has no variable; register it as a resource");
        }
        Ok(Self { parts: parts.into(), variable_names: names.into() })
    }

    fn parse_expression(
        inside: &str,
        names: &mut Vec<Box<str>>,
    ) -> Result<TemplatePart, &'static str> {
        let start = names.len();
        let listed = inside.strip_prefix('?');
        let rest = inside.strip_prefix('+');
        for name in listed.or(rest).unwrap_or(inside).split(',') {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_allowed) {
                return Err(UNSUPPORTED_EXPRESSION);
            }
            if names.iter().any(|other| **other == *name) {
                return Err("the URI template has two variables of the same name");
            }
            if names.len() == VARIABLES_MAX {
                return Err("the URI template has more than 8 variables");
            }
            names.push(name.into());
        }
        match (listed, rest, names.len() - start) {
            (Some(_), ..) => Ok(TemplatePart::Query(start..names.len())),
            (None, Some(_), 1) => Ok(TemplatePart::Reserved(start)),
            (None, None, 1) => Ok(TemplatePart::Simple(start)),
            _ => Err(UNSUPPORTED_EXPRESSION),
        }
    }

    /// Rejects templates for which a URI could have two meanings.
    fn check_order(before: &[TemplatePart], part: &TemplatePart) -> Result<(), &'static str> {
        let has_query = before.iter().any(|part| matches!(part, TemplatePart::Query(_)));
        let has_reserved = before.iter().any(|part| matches!(part, TemplatePart::Reserved(_)));
        let is_adjacent =
            matches!(before.last(), Some(TemplatePart::Simple(_) | TemplatePart::Reserved(_)));
        match part {
            _ if has_query => Err("the URI template continues after `{?…}`, which must be last"),
            TemplatePart::Simple(_) | TemplatePart::Reserved(_) if has_reserved => {
                Err("the URI template has a variable after `{+…}`, which would be ambiguous")
            }
            TemplatePart::Simple(_) | TemplatePart::Reserved(_) if is_adjacent => {
                Err("the URI template has adjacent variables, which would be ambiguous")
            }
            _ => Ok(()),
        }
    }

    /// Names of the variables, in order.
    pub(super) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variable_names.iter().map(|name| &**name)
    }

    /// The text before the first variable.
    pub(super) fn first_literal(&self) -> &str {
        match self.parts.first() {
            Some(TemplatePart::Literal(first)) => first,
            _ => "",
        }
    }

    /// Index of the variable `name`.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.variable_names.iter().position(|known| **known == *name)
    }

    /// Ranges of the values in `uri`, a comparison key, or `None` if it does not match. Allocates
    /// nothing.
    pub(super) fn match_uri(&self, uri: &str) -> Option<VariableSpans> {
        // Ranges are stored as 32-bit offsets.
        u32::try_from(uri.len()).ok()?;
        let mut spans = VariableSpans::default();
        let mut at = 0;
        let (path_end, query) = match self.parts.last() {
            Some(TemplatePart::Query(names)) => {
                (uri.find('?').unwrap_or(uri.len()), Some(names.clone()))
            }
            _ => (uri.len(), None),
        };
        let path = &uri[..path_end];
        let parts = &self.parts[..self.parts.len() - usize::from(query.is_some())];
        for (index, part) in parts.iter().enumerate() {
            let rest = &path[at..];
            at += match part {
                TemplatePart::Literal(literal) => {
                    rest.strip_prefix(&**literal).map(|_| literal.len())?
                }
                TemplatePart::Simple(variable) => {
                    let length = value_length(rest, &parts[index + 1..], false)?;
                    spans.set(*variable, at..at + length)
                }
                TemplatePart::Reserved(variable) => {
                    let length = value_length(rest, &parts[index + 1..], true)?;
                    spans.set(*variable, at..at + length)
                }
                TemplatePart::Query(_) => return None,
            };
        }
        if at != path.len() {
            return None;
        }
        match query {
            Some(names) if path_end < uri.len() => self.match_query(uri, path_end, names, spans),
            _ => Some(spans),
        }
    }

    fn match_query(
        &self,
        uri: &str,
        question_mark: usize,
        names: Range<usize>,
        mut spans: VariableSpans,
    ) -> Option<VariableSpans> {
        let mut at = question_mark + 1;
        let mut seen = 0_u32;
        for pair in uri[at..].split('&') {
            let (name, value) = pair.split_once('=')?;
            let index = self.index_of(name).filter(|index| names.contains(index))?;
            if seen & (1 << index) != 0 || value.contains('#') {
                return None;
            }
            seen |= 1 << index;
            let start = at + name.len() + 1;
            spans.set(index, start..start + value.len());
            at += pair.len() + 1;
        }
        Some(spans)
    }
}

impl VariableSpans {
    /// Sets the range of a variable and returns its length.
    #[expect(clippy::cast_possible_truncation, reason = "a URI that matches fits 32 bits")]
    fn set(&mut self, index: usize, span: Range<usize>) -> usize {
        self.0[index] = (span.start as u32, span.end as u32);
        span.len()
    }

    /// The value of a variable in `uri`, not decoded.
    pub(super) fn value(self, index: usize, uri: &str) -> &str {
        let (start, end) = self.0[index];
        uri.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Length of the value at the start of `rest`, followed by `after`. `is_reserved` allows `/`, `?`
/// and `#` in it.
fn value_length(rest: &str, after: &[TemplatePart], is_reserved: bool) -> Option<usize> {
    let bound =
        if is_reserved { rest.len() } else { rest.find(['/', '?', '#']).unwrap_or(rest.len()) };
    let length = match after {
        [] => rest.len(),
        // The last literal is compared with the end, so that the value may contain it too.
        [TemplatePart::Literal(last)] => rest.strip_suffix(&**last)?.len(),
        [TemplatePart::Literal(next), ..] => rest.find(&**next)?,
        [_, ..] => return None,
    };
    (length > 0 && length <= bound).then_some(length)
}

/// Maximum number of variables of a template; their ranges are stored without allocation.
pub(super) const VARIABLES_MAX: usize = 8;

const UNSUPPORTED_EXPRESSION: &str =
    "the URI template has an expression other than `{a}`, `{+a}` and `{?a,b}`";

#[cfg(test)]
mod tests {
    use super::*;

    fn match_values<'u>(template: &str, uri: &'u str) -> Option<Vec<&'u str>> {
        let pattern = UriTemplate::parse(template).unwrap();
        let spans = pattern.match_uri(uri)?;
        Some((0..pattern.variable_names().count()).map(|index| spans.value(index, uri)).collect())
    }

    #[test]
    fn uri_template_extracts_values() {
        for (template, uri, expected) in [
            ("test://template/{id}/data", "test://template/7/data", Some(vec!["7"])),
            ("test://template/{id}/data", "test://template//data", None),
            ("test://template/{id}/data", "test://template/7/8/data", None),
            ("test://template/{id}/data", "test://template/7/data/", None),
            ("test://template/{id}/data", "test://template/7", None),
            ("a:{x}.{y}", "a:1.2.3", Some(vec!["1", "2.3"])),
            ("a:{x}ab", "a:xabab", Some(vec!["xab"])),
            ("file:///{+path}", "file:///a/b?c", Some(vec!["a/b?c"])),
            ("a:{+path}/end", "a:1/end/end", Some(vec!["1/end"])),
            ("a:{x}{?p,q}", "a:1", Some(vec!["1", "", ""])),
            ("a:{x}{?p,q}", "a:1?q=2", Some(vec!["1", "", "2"])),
            ("a:{x}{?p,q}", "a:1?q=2&p=", Some(vec!["1", "", "2"])),
            ("a:{x}{?p,q}", "a:1?q=2&q=3", None),
            ("a:{x}{?p,q}", "a:1?x=2", None),
            ("a:{x}{?p,q}", "a:1?", None),
            ("a:{x}{?p,q}", "a:1?p", None),
            ("a:é{x}", "a:éü", Some(vec!["ü"])),
        ] {
            assert_eq!(match_values(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn ambiguous_uri_template_is_rejected() {
        for template in [
            "",
            "plain://uri",
            "{scheme}:x",
            "no-scheme/{a}",
            "a:{x",
            "a:x}",
            "a:{}",
            "a:{x}{y}",
            "a:{+x}/{y}",
            "a:{?x}/y{z}",
            "a:{x}/{x}",
            "a:{x,y}",
            "a:{/x}",
            "a:{x*}",
            "a:{x:3}",
            "a:{?a,b,c,d,e,f,g,h,i}",
        ] {
            assert!(UriTemplate::parse(template).is_err(), "{template}");
        }
    }
}
