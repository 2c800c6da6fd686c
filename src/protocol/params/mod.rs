//! The params that the protocol itself reads, apart from those of the handshake
//! ([`crate::protocol::era`]).
//!
//! What it keeps true: each key occurs at most once, a member that is `null` counts as left out,
//! and members that are not known are passed over. Everything is borrowed from the message. The
//! name and the arguments of `tools/call` are read by the service.
//!
//! Source: the `*RequestParams` of the schema of each revision (params stand inside the requests
//! up to 2025-06-18).

mod fields;

mod control;

mod listing;

mod resources;

mod prompts;

mod completion;

mod subscription;

mod tasks;

mod retry;

mod call;

pub use call::CallParams;
pub use completion::{Complete, Reference};
pub use control::{Cancelled, Progress, SetLevel};
pub use fields::Texts;
pub use listing::List;
pub use prompts::GetPrompt;
pub use resources::{ReadResource, Subscribe};
pub use retry::Retry;
pub use subscription::{Filter, Listen};
pub use tasks::{Task, TaskMetadata, TaskUpdate};
