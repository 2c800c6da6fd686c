//! Other servers behind this one: their tools, resources and prompts are offered as its own, and
//! requests are passed on to them.
//!
//! ```text
//!   client ──▶ server ──▶ Tool / Prompt / Resource ──▶ Call ──▶ Pool ──▶ Client ──▶ upstream
//!                 ▲              (entries)            (call)   (pool)
//!                 └── catalog ◀── Gateway ◀── lists ◀──────────────────────────────┘
//! ```
//!
//! [`Pool`](pool::Pool) decides who shares a program; [`forward`](call::forward) passes on one
//! request, its progress, its cancellation and the input that it requires:
//! [`RoundTrip`](round_trip::RoundTrip) where both sides speak 2026-07-28, and otherwise
//! [`HeldCall`](held::HeldCall). [`Gateway`] follows the lists of all upstreams and merges them
//! into the catalog.
//!
//! Results pass through as they were received, but for `resultType` and cache hints, which
//! servers up to 2025-11-25 do not send.

#![forbid(unsafe_code)]

mod lists;

mod manifest;

mod access_tokens;

mod recycling;

mod settings;

mod faults;

mod names;

mod import;

mod search;

mod output;

mod input;

mod held;

mod status;

mod pool;

mod pins;

mod report;

mod round_trip;

mod call;

mod tool_search;

mod entries;

mod follower;

mod followed_resources;

mod directory;

mod federation;

pub use self::faults::find_faults;
pub use self::federation::Gateway;
pub use self::import::{Imported, ImportedUpstream, import};
pub use self::report::{UpstreamFacts, UpstreamReport};
pub use self::settings::UpstreamSettings;
