//! Who answers: the server's name, and the end of every modern result that carries it.
//!
//! Source: `Implementation` in the schema of each revision; `basic/index` (2026-07-28), "_meta".

use super::content::Icon;
use crate::protocol::json::write;
use crate::protocol::revision::Revision;

/// The server as it introduces itself. Fields that a revision does not know are left out there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServerInfo {
    /// A name for programs.
    pub name: String,
    /// A name for people (2025-06-18 and later).
    pub title: Option<String>,
    /// The version of the server.
    pub version: String,
    /// What it is for (2025-11-25 and later).
    pub description: Option<String>,
    /// Where to read about it, an absolute URI (2025-11-25 and later).
    pub website_url: Option<String>,
    /// Pictures (2025-11-25 and later).
    pub icons: Vec<Icon>,
}

impl ServerInfo {
    /// A server with the two fields that every revision requires.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// Appends the object as `revision` knows it.
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let dialect = revision.dialect();
        out.extend_from_slice(br#"{"name":"#);
        write::string(out, &self.name);
        let optional = [
            (&br#","title":"#[..], &self.title, dialect.titles),
            (br#","description":"#, &self.description, dialect.implementation_details),
            (br#","websiteUrl":"#, &self.website_url, dialect.implementation_details),
        ];
        for (key, text, known) in optional {
            if let Some(text) = text
                && known
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

/// The members that end every complete result of `revision`, with the comma before them: nothing
/// for legacy clients, `resultType` and the server's name in `_meta` for modern ones. Made once per
/// catalog.
pub fn result_suffix(revision: Revision, info: &ServerInfo) -> Vec<u8> {
    let mut out = Vec::new();
    if revision.dialect().result_type {
        out.extend_from_slice(COMPLETE);
        out.extend_from_slice(br#","_meta":{"io.modelcontextprotocol/serverInfo":"#);
        info.write(&mut out, revision);
        out.push(b'}');
    }
    out
}

/// The part of a suffix that every result carries, complete or not: `_meta` with the comma before
/// it.
pub(super) fn meta_of(suffix: &[u8]) -> &[u8] {
    suffix.strip_prefix(COMPLETE).unwrap_or(suffix)
}

/// How the suffix of a complete result starts.
const COMPLETE: &[u8] = br#","resultType":"complete""#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_of_itself_what_the_revision_knows() {
        let info = ServerInfo {
            title: Some("T".into()),
            description: Some("D".into()),
            website_url: Some("https://example.com".into()),
            ..ServerInfo::new("n", "1")
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
    fn legacy_results_end_without_a_word_of_the_modern_ones() {
        let info = ServerInfo::new("n", "1");
        for revision in Revision::ALL {
            assert_eq!(result_suffix(revision, &info).is_empty(), !revision.is_modern());
        }
    }
}
