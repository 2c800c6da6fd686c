//! The options of a gateway: how the entries of other servers are merged.

use std::path::PathBuf;
use std::time::Duration;

use super::declare::options;
use super::value::{Choice as _, choice};

/// A day in milliseconds.
const DAY: u64 = 24 * 3600 * 1000;

options! {
    /// Servers behind this one: `[[upstream]]` of the file, and those of `corelane gateway`.
    pub struct GatewayOptions at |options| options.gateway;

    group GATEWAY {
        /// Which tools and prompts have the name of their upstream before their own: never (of two
        /// with one name the first is offered), collision (both), always.
        #[option("gateway.prefix", Choice(NamePrefix::NAMES), restart)]
        #[cost = "none"]
        #[source = "choice"]
        pub prefix: NamePrefix = NamePrefix::Collision;

        /// What stands between the name of the upstream and that of the tool or prompt.
        #[option("gateway.separator", Choice(NameSeparator::NAMES), restart)]
        #[cost = "none"]
        #[source = "choice"]
        pub separator: NameSeparator = NameSeparator::Underscore;

        /// Which tools of upstreams are listed: all, search (the tools `search_tools`,
        /// `describe_tool` and `call_tool` in place of them), both.
        #[option("gateway.expose", Choice(ExposeMode::NAMES), restart)]
        #[cost = "with search about 700 bytes a tool"]
        #[source = "choice"]
        pub expose: ExposeMode = ExposeMode::All;

        /// Time of a call that waits for a client of 2026-07-28 to answer a question of an
        /// upstream up to 2025-11-25. The call ends then, and the upstream gets an error.
        #[option("gateway.hold_time", Milliseconds { min: 1, max: DAY }, restart)]
        #[cost = "the program of the call runs meanwhile"]
        #[source = "MCP 2026-07-28, basic/patterns/mrtr"]
        pub hold_time: Duration = Duration::from_mins(1), tiny Duration::from_secs(1);

        /// Calls that wait so at once.
        #[option("gateway.held_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "about 1 KiB each, and the program of the call"]
        #[source = "choice"]
        pub held_max: usize = 1024, tiny 2;

        /// Time at the start for the lists of all upstreams. What a slower one offers follows when
        /// it answers.
        #[option("gateway.start_time", Milliseconds { min: 1, max: DAY }, restart)]
        #[cost = "clients connect later"]
        #[source = "choice"]
        pub start_time: Duration = Duration::from_secs(30), tiny Duration::from_secs(5);

        /// File of the definitions of tools that were accepted, which the gateway writes: the first
        /// ones of each upstream, and what operators approve. What an upstream changes later is in
        /// the log, or left out where its `on_change` says so.
        #[option("gateway.pins", File, restart)]
        #[cost = "one SHA-256 a tool whenever lists are read"]
        #[source = "choice"]
        pub pins: Option<PathBuf> = None;
    }
}

choice! {
    /// Which tools and prompts have the name of their upstream before their own.
    #[non_exhaustive]
    pub enum NamePrefix {
        /// None. Of two entries with one name the first one is offered.
        Never = "never",
        /// Those that two or more entries would have: every one of these entries gets its prefix.
        #[default]
        Collision = "collision",
        /// All.
        Always = "always",
    }
}

choice! {
    /// What stands between the name of an upstream and that of an entry.
    #[non_exhaustive]
    pub enum NameSeparator {
        /// `_`
        #[default]
        Underscore = "_",
        /// `__`
        DoubleUnderscore = "__",
        /// `.`, which names of tools may have since 2025-11-25. Not every client accepts it.
        Dot = ".",
    }
}

choice! {
    /// Which tools of upstreams are listed.
    #[non_exhaustive]
    pub enum ExposeMode {
        /// All.
        #[default]
        All = "all",
        /// Tools to search, describe and call them, in place of them.
        Search = "search",
        /// All, and the tools to search, describe and call them.
        Both = "both",
    }
}

#[cfg(feature = "gateway")]
impl NameSeparator {
    /// The separator as text.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Underscore => "_",
            Self::DoubleUnderscore => "__",
            Self::Dot => ".",
        }
    }
}
