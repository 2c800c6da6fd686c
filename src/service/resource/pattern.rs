//! The part of RFC 6570 that can be read backwards: from a URI to the values of a template.
//!
//! What it keeps true: matching walks over the URI once and never steps back, whatever the URI. So
//! that there is one way to read a URI, a template is refused where two variables touch, and
//! `{+name}`, which may hold anything, is the last variable before the query.
//!
//! | expression | matches |
//! | --- | --- |
//! | `{name}` | one character or more, none of `/ ? #`, up to the first occurrence of what follows |
//! | `{+name}` | one character or more, whatever they are |
//! | `{?a,b}` | nothing, or `?` and pairs `a=…&b=…` in any order, each once |
//!
//! Source: RFC 6570, sections 2 and 3.

use std::ops::Range;

/// A template, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    parts: Box<[Part]>,
    names: Box<[Box<str>]>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Box<str>),
    /// `{name}`
    Segment(usize),
    /// `{+name}`
    Rest(usize),
    /// `{?a,b}`
    Query(Range<usize>),
}

/// Where the values of a URI's variables lie, in bytes, by their places in the template. What the
/// URI leaves out is empty.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Spans([(u32, u32); VARIABLES_MAX]);

impl Pattern {
    /// Takes a template apart; `Err` says what is wrong with it, as the end of a sentence.
    pub(super) fn parse(template: &str) -> Result<Self, &'static str> {
        let (mut parts, mut names) = (Vec::new(), Vec::new());
        let mut rest = template;
        while !rest.is_empty() {
            let (literal, expression) = match rest.split_once('{') {
                None => (std::mem::take(&mut rest), None),
                Some((literal, tail)) => {
                    let (inside, tail) =
                        tail.split_once('}').ok_or("its URI template has a `{` without `}`")?;
                    rest = tail;
                    (literal, Some(inside))
                }
            };
            if literal.contains('}') {
                return Err("its URI template has a `}` without `{`");
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.into()));
            }
            if let Some(expression) = expression {
                let part = Self::expression(expression, &mut names)?;
                Self::check_order(&parts, &part)?;
                parts.push(part);
            }
        }
        match parts.first() {
            Some(Part::Literal(first)) if first.contains(':') => {}
            _ => return Err("its URI template does not begin with a scheme"),
        }
        if names.is_empty() {
            return Err("its URI template has no variable; it is a resource, not a template");
        }
        Ok(Self { parts: parts.into(), names: names.into() })
    }

    fn expression(inside: &str, names: &mut Vec<Box<str>>) -> Result<Part, &'static str> {
        let start = names.len();
        let listed = inside.strip_prefix('?');
        let rest = inside.strip_prefix('+');
        for name in listed.or(rest).unwrap_or(inside).split(',') {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_allowed) {
                return Err("its URI template has an expression other than {a}, {+a} and {?a,b}");
            }
            if names.iter().any(|other| **other == *name) {
                return Err("its URI template names a variable twice");
            }
            if names.len() == VARIABLES_MAX {
                return Err("its URI template has more than 8 variables");
            }
            names.push(name.into());
        }
        match (listed, rest, names.len() - start) {
            (Some(_), ..) => Ok(Part::Query(start..names.len())),
            (None, Some(_), 1) => Ok(Part::Rest(start)),
            (None, None, 1) => Ok(Part::Segment(start)),
            _ => Err("its URI template has an expression other than {a}, {+a} and {?a,b}"),
        }
    }

    /// Refuses what would give a URI two meanings.
    fn check_order(before: &[Part], part: &Part) -> Result<(), &'static str> {
        let query_stands = before.iter().any(|part| matches!(part, Part::Query(_)));
        let rest_stands = before.iter().any(|part| matches!(part, Part::Rest(_)));
        let touches = matches!(before.last(), Some(Part::Segment(_) | Part::Rest(_)));
        match part {
            _ if query_stands => Err("its URI template goes on behind the query"),
            Part::Segment(_) | Part::Rest(_) if rest_stands => {
                Err("its URI template has a variable behind {+…}, where nobody can tell them apart")
            }
            Part::Segment(_) | Part::Rest(_) if touches => {
                Err("two variables of its URI template touch, and nobody can tell them apart")
            }
            _ => Ok(()),
        }
    }

    /// The names of the variables, in their order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The place of the variable called `name`.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| **known == *name)
    }

    /// Where the values lie in `uri`; `None` where it is not of this template. Allocates nothing.
    pub(super) fn matches(&self, uri: &str) -> Option<Spans> {
        // Positions are 32 bits.
        u32::try_from(uri.len()).ok()?;
        let mut spans = Spans::default();
        let mut at = 0;
        let (path_end, query) = match self.parts.last() {
            Some(Part::Query(names)) => (uri.find('?').unwrap_or(uri.len()), Some(names.clone())),
            _ => (uri.len(), None),
        };
        let path = &uri[..path_end];
        let parts = &self.parts[..self.parts.len() - usize::from(query.is_some())];
        for (index, part) in parts.iter().enumerate() {
            let rest = &path[at..];
            at += match part {
                Part::Literal(literal) => rest.strip_prefix(&**literal).map(|_| literal.len())?,
                Part::Segment(place) => {
                    let length = value_length(rest, &parts[index + 1..], false)?;
                    spans.set(*place, at..at + length)
                }
                Part::Rest(place) => {
                    let length = value_length(rest, &parts[index + 1..], true)?;
                    spans.set(*place, at..at + length)
                }
                Part::Query(_) => return None,
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
        mark: usize,
        names: Range<usize>,
        mut spans: Spans,
    ) -> Option<Spans> {
        let mut at = mark + 1;
        let mut seen = 0_u32;
        for pair in uri[at..].split('&') {
            let (name, value) = pair.split_once('=')?;
            let place = self.place(name).filter(|place| names.contains(place))?;
            if seen & (1 << place) != 0 || value.contains('#') {
                return None;
            }
            seen |= 1 << place;
            let start = at + name.len() + 1;
            spans.set(place, start..start + value.len());
            at += pair.len() + 1;
        }
        Some(spans)
    }
}

impl Spans {
    /// Sets the span of a variable and gives its length.
    #[expect(clippy::cast_possible_truncation, reason = "a URI that matches fits 32 bits")]
    fn set(&mut self, place: usize, span: Range<usize>) -> usize {
        self.0[place] = (span.start as u32, span.end as u32);
        span.len()
    }

    /// The value of a variable as it stands in `uri`.
    pub(super) fn value(self, place: usize, uri: &str) -> &str {
        let (start, end) = self.0[place];
        uri.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// How long the value at the start of `rest` is, given what must follow it.
fn value_length(rest: &str, after: &[Part], takes_all: bool) -> Option<usize> {
    let bound =
        if takes_all { rest.len() } else { rest.find(['/', '?', '#']).unwrap_or(rest.len()) };
    let length = match after {
        [] => rest.len(),
        // The last text is held against the end, so that a value may hold the same text too.
        [Part::Literal(last)] => rest.strip_suffix(&**last)?.len(),
        [Part::Literal(next), ..] => rest.find(&**next)?,
        [_, ..] => return None,
    };
    (length > 0 && length <= bound).then_some(length)
}

/// The most variables of a template; their places are kept without an allocation.
pub(super) const VARIABLES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'u>(template: &str, uri: &'u str) -> Option<Vec<&'u str>> {
        let pattern = Pattern::parse(template).unwrap();
        let spans = pattern.matches(uri)?;
        Some((0..pattern.names().count()).map(|place| spans.value(place, uri)).collect())
    }

    #[test]
    fn a_uri_gives_its_values_back() {
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
            assert_eq!(values(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn a_template_that_could_be_read_in_two_ways_is_refused() {
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
            assert!(Pattern::parse(template).is_err(), "{template}");
        }
    }
}
