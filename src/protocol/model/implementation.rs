//! `Implementation` of a peer, and the members that end every modern result.
//!
//! MCP schema: `Implementation` of each revision; 2026-07-28 `basic/index`, "_meta".

use super::content::Icon;
use crate::json::{Object, Value, write};
use crate::revision::Revision;

/// Name and version of a server (`serverInfo`) or client (`clientInfo`). Fields that a revision
/// lacks are omitted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Implementation {
    /// Programmatic name.
    pub name: String,
    /// Display name (2025-06-18 and later).
    pub title: Option<String>,
    /// Its version.
    pub version: String,
    /// Its description (2025-11-25 and later).
    pub description: Option<String>,
    /// URL of its website, absolute (2025-11-25 and later).
    pub website_url: Option<String>,
    /// Icons (2025-11-25 and later).
    pub icons: Vec<Icon>,
}

impl Implementation {
    /// Creates one with the two fields that every revision requires.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// Reads the object of a peer. Members that are missing or not strings are empty or `None`;
    /// icons are not read.
    #[doc(hidden)]
    pub fn read(object: Object<'_>) -> Self {
        let text = |name| object.find(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            name: text("name").unwrap_or_default(),
            title: text("title"),
            version: text("version").unwrap_or_default(),
            description: text("description"),
            website_url: text("websiteUrl"),
            icons: Vec::new(),
        }
    }

    /// Appends the object as `revision` defines it.
    #[doc(hidden)]
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        out.extend_from_slice(br#"{"name":"#);
        write::string(out, &self.name);
        let optional = [
            (&br#","title":"#[..], &self.title, dialect.titles),
            (br#","description":"#, &self.description, dialect.implementation_details),
            (br#","websiteUrl":"#, &self.website_url, dialect.implementation_details),
        ];
        for (key, text, is_supported) in optional {
            if let Some(text) = text
                && is_supported
            {
                out.extend_from_slice(key);
                write::string(out, text);
            }
        }
        if dialect.icons && !self.icons.is_empty() {
            out.extend_from_slice(br#","icons":"#);
            Icon::write_all(&self.icons, out);
        }
        out.extend_from_slice(br#","version":"#);
        write::string(out, &self.version);
        out.push(b'}');
    }
}

/// Returns the members that end every complete result of `revision`, with a leading comma: empty
/// for legacy clients, `resultType` and `serverInfo` in `_meta` for modern ones. Computed once per
/// catalog.
pub fn result_suffix(revision: Revision, info: &Implementation) -> Vec<u8> {
    let mut out = Vec::new();
    if revision.dialect().result_type {
        out.extend_from_slice(RESULT_TYPE_COMPLETE);
        out.extend_from_slice(br#","_meta":{"io.modelcontextprotocol/serverInfo":"#);
        info.write(&mut out, revision);
        out.push(b'}');
    }
    out
}

/// Returns the part of a suffix that incomplete results carry too: `_meta` with a leading comma.
pub(super) fn suffix_meta(suffix: &[u8]) -> &[u8] {
    suffix.strip_prefix(RESULT_TYPE_COMPLETE).unwrap_or(suffix)
}

/// Start of the suffix of a complete result.
const RESULT_TYPE_COMPLETE: &[u8] = br#","resultType":"complete""#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementation_fields_depend_on_revision() {
        let info = Implementation {
            title: Some("T".into()),
            description: Some("D".into()),
            website_url: Some("https://example.com".into()),
            ..Implementation::new("n", "1")
        };
        let text = |revision| {
            let mut out = Vec::new();
            info.write(&mut out, revision);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Revision::V2025_03_26), r#"{"name":"n","version":"1"}"#);
        assert_eq!(text(Revision::V2025_06_18), r#"{"name":"n","title":"T","version":"1"}"#);
        assert!(text(Revision::V2025_11_25).contains(r#""websiteUrl":"https://example.com""#));
    }

    #[test]
    fn result_suffix_is_empty_for_legacy() {
        let info = Implementation::new("n", "1");
        for revision in Revision::ALL {
            assert_eq!(result_suffix(revision, &info).is_empty(), !revision.is_modern());
        }
    }
}
