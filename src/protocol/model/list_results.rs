//! Results of `initialize`, `server/discover` and the lists, which the catalog encodes in advance.
//!
//! MCP schema: `InitializeResult`, `DiscoverResult` and `List…Result` of each revision; 2026-07-28
//! `server/utilities/caching`.

use super::capabilities::ServerCapabilities;
use super::implementation::{Implementation, result_suffix};
use crate::json::write;
use crate::revision::Revision;

/// How long and by whom a modern client may cache a result (`ttlMs`, `cacheScope`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheHint {
    /// Lifetime in milliseconds from receipt; 0 disables caching.
    pub ttl_ms: u64,
    /// Whether shared caches may serve it to other users (`cacheScope`: `public` or `private`).
    pub is_public: bool,
}

impl CacheHint {
    /// Appends both members, each with a leading comma.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","ttlMs":"#);
        write::unsigned(out, self.ttl_ms);
        let scope: &[u8] =
            if self.is_public { br#","cacheScope":"public""# } else { CACHE_SCOPE_PRIVATE };
        out.extend_from_slice(scope);
    }
}

/// Appends an `InitializeResult` for a legacy `revision`.
pub fn write_initialize_result(
    out: &mut Vec<u8>,
    revision: Revision,
    capabilities: ServerCapabilities,
    info: &Implementation,
    instructions: Option<&str>,
) {
    out.extend_from_slice(br#"{"protocolVersion":"#);
    write::string(out, revision.as_str());
    out.extend_from_slice(br#","capabilities":"#);
    capabilities.write(out, revision);
    out.extend_from_slice(br#","serverInfo":"#);
    info.write(out, revision);
    write_instructions(out, instructions);
    out.push(b'}');
}

/// Appends a `DiscoverResult`. It lists every supported revision, newest first: the modern ones are
/// used with `_meta`, the others with `initialize`.
pub fn write_discover_result(
    out: &mut Vec<u8>,
    capabilities: ServerCapabilities,
    info: &Implementation,
    instructions: Option<&str>,
    cache: CacheHint,
) {
    out.extend_from_slice(br#"{"supportedVersions":["#);
    for (index, revision) in Revision::ALL.iter().rev().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write::string(out, revision.as_str());
    }
    out.extend_from_slice(br#"],"capabilities":"#);
    capabilities.write(out, Revision::LATEST);
    write_instructions(out, instructions);
    cache.write(out);
    out.extend_from_slice(&result_suffix(Revision::LATEST, info));
    out.push(b'}');
}

/// The kind of a list result.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ListKind {
    /// `prompts/list`
    Prompts,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `resources/list`
    Resources,
    /// `tools/list`
    Tools,
}

/// Appends one page of a list: `items` are objects encoded for `revision`, and `next_cursor` is
/// `None` on the last page. `suffix` is the [`result_suffix`] of `revision`.
pub fn write_list_result<T: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    revision: Revision,
    listed: ListKind,
    items: impl IntoIterator<Item = T>,
    next_cursor: Option<&str>,
    cache: CacheHint,
    suffix: &[u8],
) {
    out.extend_from_slice(match listed {
        ListKind::Prompts => br#"{"prompts":["#,
        ListKind::ResourceTemplates => br#"{"resourceTemplates":["#,
        ListKind::Resources => br#"{"resources":["#,
        ListKind::Tools => br#"{"tools":["#,
    });
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item.as_ref());
    }
    out.push(b']');
    if let Some(cursor) = next_cursor {
        out.extend_from_slice(br#","nextCursor":"#);
        write::string(out, cursor);
    }
    if revision.dialect().cache_hints {
        cache.write(out);
    }
    out.extend_from_slice(suffix);
    out.push(b'}');
}

fn write_instructions(out: &mut Vec<u8>, instructions: Option<&str>) {
    if let Some(instructions) = instructions {
        out.extend_from_slice(br#","instructions":"#);
        write::string(out, instructions);
    }
}

const CACHE_SCOPE_PRIVATE: &[u8] = br#","cacheScope":"private""#;
