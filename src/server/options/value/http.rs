//! Values of HTTP options: lists of hosts and origins, paths, and the pinned revision; texts.
//!
//! Invariants: a list is validated by the guard that will use it ([`OriginGuard`]), with its error
//! message. A rejected text leaves the value unchanged.

use corelane_protocol::revision::Revision;

use super::{Choice, Value};
use crate::guard::origin::{OriginGuard, OriginOptions};
use crate::server::options::check_uri_prefix;
use crate::server::options::unit::{Diagnostic, Unit};

/// Comma-separated names, or `default` for an empty list.
impl Value for Vec<String> {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        let names = match text {
            DEFAULT => Self::new(),
            text => text.split(',').map(|name| name.trim().to_owned()).collect(),
        };
        let empty = OriginOptions::default();
        if *unit == Unit::Words {
            let is_word = |name: &String| !name.is_empty() && !name.chars().any(char::is_control);
            if !names.iter().all(is_word) {
                let message = format!("{text:?} has an empty text or control characters");
                return Err(Diagnostic::new(message, unit.notation()));
            }
            *self = names;
            return Ok(());
        }
        let guard_options = match unit {
            Unit::Origins => OriginOptions { origins: names.clone(), ..empty },
            _ => OriginOptions { hosts: names.clone(), ..empty },
        };
        OriginGuard::new(&guard_options)
            .map_err(|error| Diagnostic::new(error.to_string(), unit.notation()))?;
        *self = names;
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        if self.is_empty() { DEFAULT.to_owned() } else { self.join(",") }
    }
}

/// A text, the beginning of a URI, or the path of a URL; `default` or `off` for `None`. It is not
/// checked whether the path is in use.
impl Value for Option<String> {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        if text == none_of(unit) {
            *self = None;
            return Ok(());
        }
        let checked = match unit {
            Unit::Text => check_text(text),
            Unit::UriPrefix => check_uri_prefix(text),
            _ => check_path(text),
        };
        checked.map_err(|what| Diagnostic::new(format!("{text:?} {what}"), unit.notation()))?;
        *self = Some(text.to_owned());
        Ok(())
    }

    fn format(&self, unit: &Unit) -> String {
        self.clone().unwrap_or_else(|| none_of(unit).to_owned())
    }
}

/// The path of a URL. It is not checked whether it is in use.
impl Value for String {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        check_path(text)
            .map_err(|it| Diagnostic::new(format!("{text:?} {it}"), unit.notation()))?;
        text.clone_into(self);
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        self.clone()
    }
}

/// Returns the text for `None`.
fn none_of(unit: &Unit) -> &'static str {
    if *unit == Unit::Text { DEFAULT } else { "off" }
}

fn check_text(text: &str) -> Result<(), &'static str> {
    let is_allowed = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
    if text.trim().is_empty() {
        Err("is empty")
    } else if text.len() > TEXT_BYTES_MAX {
        Err("is too long")
    } else if !text.chars().all(is_allowed) {
        Err("has control characters")
    } else {
        Ok(())
    }
}

fn check_path(text: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
    if !text.starts_with('/') {
        Err("does not begin with /")
    } else if text.len() > 1 && text.ends_with('/') {
        Err("ends with /, which is ignored at the end of a path")
    } else if !text.bytes().all(is_plain) {
        Err("has characters that are not allowed in a path")
    } else if text.split('/').any(|segment| segment == "." || segment == "..") {
        Err("has a segment . or .., which clients resolve")
    } else {
        Ok(())
    }
}

/// Maximum number of bytes of a text.
const TEXT_BYTES_MAX: usize = 4096;

/// `off`, or a revision that can be pinned; clients of older revisions do not send theirs with
/// every request.
impl Choice for Option<Revision> {
    const NAMES: &'static [&'static str] = &[
        "off",
        Revision::V2025_06_18.as_str(),
        Revision::V2025_11_25.as_str(),
        Revision::V2026_07_28.as_str(),
    ];
    const VALUES: &'static [Self] = &[
        None,
        Some(Revision::V2025_06_18),
        Some(Revision::V2025_11_25),
        Some(Revision::V2026_07_28),
    ];
}

/// Text of an empty list; the consumer of the list defines its meaning.
pub const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Result<Vec<String>, Diagnostic> {
        let mut value = vec!["before".to_owned()];
        value.parse_from(text, &Unit::Hosts).map(|()| value)
    }

    #[test]
    fn list_of_names_preserves_its_order() {
        for text in ["default", "*", "mcp.example.com", "[::1]:80,localhost,192.0.2.1:8080"] {
            assert_eq!(hosts(text).unwrap().format(&Unit::Hosts), text);
        }
        assert_eq!(hosts(" a , b").unwrap(), ["a", "b"]);
        assert!(hosts("default").unwrap().is_empty());
        let mut origins: Vec<String> = Vec::new();
        for text in ["default", "*", "https://a,http://b:*", "vscode-webview://c"] {
            origins.parse_from(text, &Unit::Origins).unwrap();
            assert_eq!(origins.format(&Unit::Origins), text);
        }
    }

    #[test]
    fn invalid_host_is_rejected_by_guard_error() {
        for text in ["", ",", "a,,b", "a b", "http://a", "a/b", "a:99999", "*.a"] {
            assert!(hosts(text).is_err(), "{text:?}");
        }
        assert!(
            hosts("a,http://b").unwrap_err().message.starts_with("\"http://b\" is not a host: ")
        );
        let mut origins = vec!["before".to_owned()];
        let diagnostic = origins.parse_from("mcp.example.com", &Unit::Origins).unwrap_err();
        assert!(diagnostic.message.starts_with("\"mcp.example.com\" is not an origin: "));
        assert_eq!(origins, ["before"]);
    }

    #[test]
    fn websocket_path_must_be_request_path() {
        let mut path = Some("/before".to_owned());
        for text in ["/mcp/ws", "/", "/a%20b", "off", "/off"] {
            path.parse_from(text, &Unit::UrlPath).unwrap();
            assert_eq!(path.format(&Unit::UrlPath), text);
        }
        for text in ["", "mcp/ws", "/mcp/", "/a?b", "/a#b", "/a b", "/ü", "ws://a/b", "/a\n"] {
            let diagnostic = path.parse_from(text, &Unit::UrlPath).unwrap_err();
            assert_eq!(diagnostic.hint, Unit::UrlPath.notation(), "{text:?}");
        }
        assert_eq!(path.as_deref(), Some("/off"));
    }

    #[test]
    fn endpoint_path_must_be_request_path() {
        let mut path = "/before".to_owned();
        for text in ["/mcp", "/api/v1/mcp", "/a%20b", "/.well-known/mcp", "/off"] {
            path.parse_from(text, &Unit::EndpointPath).unwrap();
            assert_eq!(path.format(&Unit::EndpointPath), text);
        }
        for text in ["", "off", "mcp", "/mcp/", "/a?b", "/a#b", "/a b", "/ü", "/a/../b", "/."] {
            let diagnostic = path.parse_from(text, &Unit::EndpointPath).unwrap_err();
            assert_eq!(diagnostic.hint, Unit::EndpointPath.notation(), "{text:?}");
        }
        assert_eq!(path, "/off");
    }

    #[test]
    fn pinned_revision_is_parsed_by_name() {
        let mut pinned = None;
        for word in <Option<Revision>>::NAMES {
            pinned.parse_from(word, &Unit::Switch).unwrap();
            assert_eq!(pinned.format(&Unit::Switch), *word);
        }
        assert_eq!(pinned, Some(Revision::LATEST));
        assert_eq!(pinned.parse_from("2026-07-29", &Unit::Switch).unwrap_err().hint, {
            "did you mean 2026-07-28?"
        });
    }
}
