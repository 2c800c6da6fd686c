//! Revisions of the MCP specification and a table of their differences.
//!
//! Other modules read the table instead of comparing revisions. Derived from the changelog page
//! and the `schema.json` of each revision.

use std::fmt;

/// A revision of the Model Context Protocol, oldest first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the last revision with `initialize`.
    V2025_11_25,
    /// 2026-07-28: stateless, every request carries its own `_meta`.
    V2026_07_28,
}

impl Revision {
    /// Every supported revision, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// Newest revision.
    pub const LATEST: Self = Self::V2026_07_28;
    /// Newest revision that is negotiated with `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// Returns the date that names the revision on the wire.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        self.dialect().name
    }

    /// Returns the supported revision with this name, or `None`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::parse_bytes(name.as_bytes())
    }

    /// Returns the same for a name that need not be UTF-8.
    #[doc(hidden)]
    #[inline]
    pub fn parse_bytes(name: &[u8]) -> Option<Self> {
        // Newest first, because it is named in every modern request.
        Self::ALL.into_iter().rev().find(|revision| revision.as_str().as_bytes() == name)
    }

    /// Returns whether requests are self-contained, without a handshake (2026-07-28 and later).
    #[inline]
    pub const fn is_modern(self) -> bool {
        self.dialect().result_type
    }

    /// Returns the features of the revision.
    #[doc(hidden)]
    #[inline]
    pub const fn dialect(self) -> &'static Dialect {
        &DIALECTS[self as usize]
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Features of a revision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a row of a table")]
pub struct Dialect {
    /// The date that names the revision on the wire.
    pub name: &'static str,
    /// JSON-RPC batches are accepted.
    pub batches: bool,
    /// Tools carry `annotations`.
    pub tool_annotations: bool,
    /// Audio content blocks.
    pub audio: bool,
    /// `notifications/progress` may carry a `message`.
    pub progress_message: bool,
    /// `title` on tools, prompts, resources and implementations.
    pub titles: bool,
    /// Tools have an `outputSchema` and results a `structuredContent`.
    pub structured_content: bool,
    /// `structuredContent` may be any JSON value and not only an object.
    pub structured_content_any: bool,
    /// Content blocks that link to a resource.
    pub resource_link: bool,
    /// `_meta` on data types as well as on params and results.
    pub meta_on_types: bool,
    /// `icons` on tools, prompts, resources and implementations.
    pub icons: bool,
    /// `description` and `websiteUrl` on implementations.
    pub implementation_details: bool,
    /// Invalid arguments produce a tool result with `isError`, not a JSON-RPC error.
    pub argument_errors_in_result: bool,
    /// An error response whose request id could not be read carries `"id":null`; later revisions
    /// omit the id.
    pub error_id_null: bool,
    /// Results carry `resultType`, and `serverInfo` in `_meta`.
    pub result_type: bool,
    /// Lists, `resources/read` and `server/discover` carry `ttlMs` and `cacheScope`.
    pub cache_hints: bool,
    /// Error code of a resource that does not exist.
    pub resource_not_found_code: i32,
    /// Servers declare the `completions` capability.
    pub completions_capability: bool,
    /// Content annotations carry `lastModified`.
    pub annotations_last_modified: bool,
    /// Servers may send `elicitation/create`.
    pub elicitation: bool,
    /// Elicitation has form and URL mode.
    pub elicitation_url: bool,
    /// URL elicitation carries an `elicitationId`, and its completion is notified.
    pub elicitation_ids: bool,
    /// Form fields have defaults, titled enums and multi-select enums.
    pub elicitation_enums: bool,
    /// Sampling may offer tools to the model; messages carry tool use and tool results.
    pub sampling_tools: bool,
    /// A sampling message may hold several content blocks.
    pub sampling_content_array: bool,
    /// Tasks are part of the core: `params.task`, `execution.taskSupport`, `tasks/result`.
    pub core_tasks: bool,
    /// Clients and servers declare `extensions`.
    pub extensions: bool,
    /// An event stream of a session may begin with an event without data, which carries an id to
    /// resume from, and the server may end it early, with a reconnection time (SEP-1699). Clients
    /// of earlier revisions parse the data of every event as JSON.
    pub priming_events: bool,
}

const V2024_11_05: Dialect = Dialect {
    name: "2024-11-05",
    batches: false,
    tool_annotations: false,
    audio: false,
    progress_message: false,
    titles: false,
    structured_content: false,
    structured_content_any: false,
    resource_link: false,
    meta_on_types: false,
    icons: false,
    implementation_details: false,
    argument_errors_in_result: false,
    error_id_null: true,
    result_type: false,
    cache_hints: false,
    resource_not_found_code: -32002,
    completions_capability: false,
    annotations_last_modified: false,
    elicitation: false,
    elicitation_url: false,
    elicitation_ids: false,
    elicitation_enums: false,
    sampling_tools: false,
    sampling_content_array: false,
    core_tasks: false,
    extensions: false,
    priming_events: false,
};

const V2025_03_26: Dialect = Dialect {
    name: "2025-03-26",
    batches: true,
    tool_annotations: true,
    audio: true,
    progress_message: true,
    completions_capability: true,
    ..V2024_11_05
};

const V2025_06_18: Dialect = Dialect {
    name: "2025-06-18",
    batches: false,
    titles: true,
    structured_content: true,
    resource_link: true,
    meta_on_types: true,
    annotations_last_modified: true,
    elicitation: true,
    ..V2025_03_26
};

const V2025_11_25: Dialect = Dialect {
    name: "2025-11-25",
    icons: true,
    implementation_details: true,
    argument_errors_in_result: true,
    error_id_null: false,
    elicitation_url: true,
    elicitation_ids: true,
    elicitation_enums: true,
    sampling_tools: true,
    sampling_content_array: true,
    core_tasks: true,
    priming_events: true,
    ..V2025_06_18
};

const V2026_07_28: Dialect = Dialect {
    name: "2026-07-28",
    structured_content_any: true,
    result_type: true,
    cache_hints: true,
    resource_not_found_code: -32602,
    elicitation_ids: false,
    core_tasks: false,
    extensions: true,
    priming_events: false,
    ..V2025_11_25
};

const DIALECTS: [Dialect; 5] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_names_round_trip_in_date_order() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
        }
        assert!(Revision::ALL.is_sorted());
        assert!(Revision::ALL.map(Revision::as_str).is_sorted());
        for unknown in ["", "2024-10-07", "2025-06-18 ", "draft", "2026-07-29"] {
            assert_eq!(Revision::parse(unknown), None);
        }
    }

    #[test]
    fn modern_and_batching_revisions_are_unique() {
        let modern: Vec<_> = Revision::ALL.into_iter().filter(|r| r.is_modern()).collect();
        assert_eq!(modern, [Revision::LATEST]);
        let batches: Vec<_> = Revision::ALL.into_iter().filter(|r| r.dialect().batches).collect();
        assert_eq!(batches, [Revision::V2025_03_26]);
        assert!(!Revision::LATEST_LEGACY.is_modern());
    }

    #[test]
    fn unreadable_error_id_null_depends_on_revision() {
        let null: Vec<_> =
            Revision::ALL.into_iter().filter(|r| r.dialect().error_id_null).collect();
        assert_eq!(null, &Revision::ALL[..3]);
    }
}
