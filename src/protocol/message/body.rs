//! Bodies that are the same for every request of one revision: the catalog encodes them once.
//!
//! Source: `InitializeResult`, `DiscoverResult` and `List…Result` in the schema of each revision;
//! 2026-07-28 `server/utilities/caching`.

use super::capabilities::ServerCapabilities;
use super::server::{ServerInfo, result_suffix};
use crate::protocol::json::write;
use crate::protocol::revision::Revision;

/// How long a modern client may keep a list, and for whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheHint {
    /// Milliseconds from its arrival; 0 is "do not keep".
    pub fresh_ms: u64,
    /// Whether a cache may give it to other callers.
    pub shared: bool,
}

impl CacheHint {
    /// Appends the two members, with a comma before each.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","ttlMs":"#);
        write::unsigned(out, self.fresh_ms);
        let scope: &[u8] = if self.shared { br#","cacheScope":"public""# } else { PRIVATE };
        out.extend_from_slice(scope);
    }
}

/// Appends the result of `initialize` for a legacy `revision`.
pub fn initialize_result(
    out: &mut Vec<u8>,
    revision: Revision,
    capabilities: ServerCapabilities,
    info: &ServerInfo,
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

/// Appends the result of `server/discover`. Every revision of this server is named, newest first:
/// the modern ones for requests with `_meta`, the others for `initialize`.
pub fn discover_result(
    out: &mut Vec<u8>,
    capabilities: ServerCapabilities,
    info: &ServerInfo,
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

/// Which list a page belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Listed {
    /// `prompts/list`
    Prompts,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `resources/list`
    Resources,
    /// `tools/list`
    Tools,
}

/// Appends one page of a list: `items` are objects of `revision`, encoded already, and
/// `next_cursor` is left out on the last page. `suffix` is that of [`result_suffix`].
pub fn list_page<T: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    revision: Revision,
    listed: Listed,
    items: impl IntoIterator<Item = T>,
    next_cursor: Option<&str>,
    cache: CacheHint,
    suffix: &[u8],
) {
    out.extend_from_slice(match listed {
        Listed::Prompts => br#"{"prompts":["#,
        Listed::ResourceTemplates => br#"{"resourceTemplates":["#,
        Listed::Resources => br#"{"resources":["#,
        Listed::Tools => br#"{"tools":["#,
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

const PRIVATE: &[u8] = br#","cacheScope":"private""#;
