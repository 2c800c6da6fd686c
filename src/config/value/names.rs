//! Names that HTTP goes by: hosts, origins, paths, and the revision of the strict profile.
//!
//! What it keeps true: a list is held against the guard that will use it ([`OriginGuard`]), and
//! refused in its words, before anything starts; what is refused leaves the value as it was.

use super::{Choice, Value};
use crate::config::problem::Refusal;
use crate::config::unit::Unit;
use crate::guard::origin::{OriginGuard, OriginOptions};
use crate::protocol::revision::Revision;

/// Names between commas, or `default` for none.
impl Value for Vec<String> {
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
        let names = match text {
            DEFAULT => Self::new(),
            text => text.split(',').map(|name| name.trim().to_owned()).collect(),
        };
        let none = OriginOptions::default();
        let asked = match unit {
            Unit::Origins => OriginOptions { origins: names.clone(), ..none },
            _ => OriginOptions { hosts: names.clone(), ..none },
        };
        OriginGuard::new(&asked)
            .map_err(|unreadable| Refusal::new(unreadable.to_string(), unit.shape()))?;
        *self = names;
        Ok(())
    }

    fn show(&self, _: &Unit) -> String {
        if self.is_empty() { DEFAULT.to_owned() } else { self.join(",") }
    }
}

/// A path as requests name it, or `off` for none. Whether something else stands there is not asked
/// here.
impl Value for Option<String> {
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
        if text == "off" {
            *self = None;
            return Ok(());
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
        let what = if !text.starts_with('/') {
            "does not begin with /"
        } else if text.len() > 1 && text.ends_with('/') {
            "ends with /, which is passed over at the end of a path"
        } else if !text.bytes().all(is_plain) {
            "has characters that no path has"
        } else {
            *self = Some(text.to_owned());
            return Ok(());
        };
        Err(Refusal::new(format!("{text:?} {what}"), unit.shape()))
    }

    fn show(&self, _: &Unit) -> String {
        self.clone().unwrap_or_else(|| "off".to_owned())
    }
}

/// `off`, or a revision that can be pinned: clients of older ones do not name theirs with every
/// request.
impl Choice for Option<Revision> {
    const WORDS: &'static [&'static str] = &[
        "off",
        Revision::V2025_06_18.as_str(),
        Revision::V2025_11_25.as_str(),
        Revision::V2026_07_28.as_str(),
    ];
    const MEANINGS: &'static [Self] = &[
        None,
        Some(Revision::V2025_06_18),
        Some(Revision::V2025_11_25),
        Some(Revision::V2026_07_28),
    ];
}

/// The word for a list without names: what holds then is said where the list is used.
pub const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Result<Vec<String>, Refusal> {
        let mut value = vec!["before".to_owned()];
        value.read(text, &Unit::Hosts).map(|()| value)
    }

    #[test]
    fn a_list_of_names_keeps_its_order() {
        for text in ["default", "*", "mcp.example.com", "[::1]:80,localhost,192.0.2.1:8080"] {
            assert_eq!(hosts(text).unwrap().show(&Unit::Hosts), text);
        }
        assert_eq!(hosts(" a , b").unwrap(), ["a", "b"]);
        assert!(hosts("default").unwrap().is_empty());
        let mut origins = Vec::new();
        for text in ["default", "*", "https://a,http://b:*", "vscode-webview://c"] {
            origins.read(text, &Unit::Origins).unwrap();
            assert_eq!(origins.show(&Unit::Origins), text);
        }
    }

    #[test]
    fn an_entry_that_the_guard_cannot_read_is_refused_in_its_words() {
        for text in ["", ",", "a,,b", "a b", "http://a", "a/b", "a:99999", "*.a"] {
            assert!(hosts(text).is_err(), "{text:?}");
        }
        assert!(hosts("a,http://b").unwrap_err().what.starts_with("\"http://b\" is not a host: "));
        let mut origins = vec!["before".to_owned()];
        let refusal = origins.read("mcp.example.com", &Unit::Origins).unwrap_err();
        assert!(refusal.what.starts_with("\"mcp.example.com\" is not an origin: "));
        assert_eq!(origins, ["before"]);
    }

    #[test]
    fn a_path_is_one_that_a_request_can_name() {
        let mut path = Some("/before".to_owned());
        for text in ["/mcp/ws", "/", "/a%20b", "off", "/off"] {
            path.read(text, &Unit::UrlPath).unwrap();
            assert_eq!(path.show(&Unit::UrlPath), text);
        }
        for text in ["", "mcp/ws", "/mcp/", "/a?b", "/a#b", "/a b", "/ü", "ws://a/b", "/a\n"] {
            let refusal = path.read(text, &Unit::UrlPath).unwrap_err();
            assert_eq!(refusal.remedy, Unit::UrlPath.shape(), "{text:?}");
        }
        assert_eq!(path.as_deref(), Some("/off"));
    }

    #[test]
    fn a_revision_is_pinned_by_its_name() {
        let mut pinned = None;
        for word in <Option<Revision>>::WORDS {
            pinned.read(word, &Unit::Switch).unwrap();
            assert_eq!(pinned.show(&Unit::Switch), *word);
        }
        assert_eq!(pinned, Some(Revision::LATEST));
        assert_eq!(pinned.read("2026-07-29", &Unit::Switch).unwrap_err().remedy, {
            "did you mean 2026-07-28?"
        });
    }
}
