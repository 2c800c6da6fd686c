//! Params of requests and notifications that the protocol defines, except those of the handshake
//! ([`crate::eras`]).
//!
//! Invariants: a known key occurs at most once, a member that is `null` counts as absent, and
//! unknown members are ignored. Everything is borrowed from the message. The service validates the
//! name and arguments of `tools/call`.
//!
//! MCP schema: the `*RequestParams` of each revision (inline in the requests up to 2025-06-18).

mod members;

mod utilities;

mod server_features;

mod subscriptions;

mod tasks;

mod request;

pub use members::StringMap;
pub use request::RequestParams;
pub use server_features::GetPromptRequestParams;
pub use server_features::InputResponseRequestParams;
pub use server_features::PaginatedRequestParams;
pub use server_features::{CompleteRequestParams, CompletionReference};
pub use server_features::{ReadResourceRequestParams, SubscribeRequestParams};
pub use subscriptions::{SubscriptionFilter, SubscriptionsListenRequestParams};
pub use tasks::{TaskIdParams, TaskMetadata, UpdateTaskRequestParams};
pub use utilities::{
    CancelledNotificationParams, ProgressNotificationParams, SetLevelRequestParams,
};
