//! The revisions of the specification, and what differs between them, as one table.
//!
//! Code elsewhere asks the table and never compares revisions by hand. Source: the changelog page
//! of each revision and the five `schema.json` files.

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
    /// 2025-11-25: the last one with `initialize`.
    V2025_11_25,
    /// 2026-07-28: stateless, every request carries its own metadata.
    V2026_07_28,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The newest.
    pub const LATEST: Self = Self::V2026_07_28;
    /// The newest that is negotiated by `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The name on the wire.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        self.dialect().name
    }

    /// The revision of that name, if it is one of ours.
    pub fn parse(name: &str) -> Option<Self> {
        // The newest first: what is named with every request stands there.
        Self::ALL.into_iter().rev().find(|revision| revision.as_str() == name)
    }

    /// Whether requests carry their own metadata and there is no handshake (2026-07-28 and later).
    #[inline]
    pub const fn is_modern(self) -> bool {
        self.dialect().result_type
    }

    /// What this revision says, and what it does not know.
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

/// One row of the table: what a revision has.
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
    pub structured_any: bool,
    /// Content blocks that link to a resource.
    pub resource_link: bool,
    /// `_meta` on data types as well as on params and results.
    pub meta_on_types: bool,
    /// `icons` on tools, prompts, resources and implementations.
    pub icons: bool,
    /// `description` and `websiteUrl` on implementations.
    pub implementation_details: bool,
    /// Arguments that fail validation are a failed result of the tool, not a JSON-RPC error.
    pub arguments_fail_in_band: bool,
    /// An error whose request id could not be read carries `"id":null`; later revisions leave the
    /// id out.
    pub error_id_null: bool,
    /// Results carry `resultType` and the server's name in `_meta`.
    pub result_type: bool,
    /// Lists, `resources/read` and `server/discover` carry `ttlMs` and `cacheScope`.
    pub cache_hints: bool,
    /// The error code for a resource that is not there.
    pub resource_not_found_code: i32,
    /// The server says whether it completes arguments.
    pub completions_capability: bool,
    /// Annotations of content carry `lastModified`.
    pub annotations_last_modified: bool,
    /// The server may ask the user for input: `elicitation/create`.
    pub elicitation: bool,
    /// Elicitation has modes, and one of them opens an address.
    pub elicitation_url: bool,
    /// Elicitation by address carries an `elicitationId`, and its end is told.
    pub elicitation_ids: bool,
    /// Forms have defaults, enumerations with titles and choices of several.
    pub elicitation_choices: bool,
    /// Sampling may offer tools to the model, and messages carry their use and results.
    pub sampling_tools: bool,
    /// A sampling message may hold several blocks.
    pub sampling_content_array: bool,
    /// Tasks are part of the core: `params.task`, `execution.taskSupport`, `tasks/result`.
    pub core_tasks: bool,
    /// Client and server declare extensions.
    pub extensions: bool,
}

const V2024_11_05: Dialect = Dialect {
    name: "2024-11-05",
    batches: false,
    tool_annotations: false,
    audio: false,
    progress_message: false,
    titles: false,
    structured_content: false,
    structured_any: false,
    resource_link: false,
    meta_on_types: false,
    icons: false,
    implementation_details: false,
    arguments_fail_in_band: false,
    error_id_null: true,
    result_type: false,
    cache_hints: false,
    resource_not_found_code: -32002,
    completions_capability: false,
    annotations_last_modified: false,
    elicitation: false,
    elicitation_url: false,
    elicitation_ids: false,
    elicitation_choices: false,
    sampling_tools: false,
    sampling_content_array: false,
    core_tasks: false,
    extensions: false,
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
    arguments_fail_in_band: true,
    error_id_null: false,
    elicitation_url: true,
    elicitation_ids: true,
    elicitation_choices: true,
    sampling_tools: true,
    sampling_content_array: true,
    core_tasks: true,
    ..V2025_06_18
};

const V2026_07_28: Dialect = Dialect {
    name: "2026-07-28",
    structured_any: true,
    result_type: true,
    cache_hints: true,
    resource_not_found_code: -32602,
    elicitation_ids: false,
    core_tasks: false,
    extensions: true,
    ..V2025_11_25
};

const DIALECTS: [Dialect; 5] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_dates_are_in_order() {
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
    fn only_the_newest_is_modern_and_only_one_has_batches() {
        let modern: Vec<_> = Revision::ALL.into_iter().filter(|r| r.is_modern()).collect();
        assert_eq!(modern, [Revision::LATEST]);
        let batches: Vec<_> = Revision::ALL.into_iter().filter(|r| r.dialect().batches).collect();
        assert_eq!(batches, [Revision::V2025_03_26]);
        assert!(!Revision::LATEST_LEGACY.is_modern());
    }

    #[test]
    fn an_id_that_could_not_be_read_is_null_up_to_2025_06_18() {
        let null: Vec<_> =
            Revision::ALL.into_iter().filter(|r| r.dialect().error_id_null).collect();
        assert_eq!(null, &Revision::ALL[..3]);
    }
}
