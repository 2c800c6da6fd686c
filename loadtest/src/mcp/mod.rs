//! The MCP client side of one connection, without a socket.
//!
//! A [`RequestTemplate`] is a request that can be written with any id; a [`Handshake`] comes before
//! the first one; a [`RequestLog`] matches responses with requests and checks them; [`Closing`]
//! ends the connection. All of it maps received bytes to bytes to send. The parity dialect has its
//! own messages and streams, and the same requests, matching and checks.
//!
//! Invariants: a request completes exactly once, as success or failure. One that timed out is in
//! flight no more, and its answer counts as late. A response that differs in any byte from the last
//! correct one is parsed in full.

pub mod answers;
pub mod http_field;
pub mod result_check;
pub mod user_values;
mod varying_text;

pub mod message_kind;
pub mod request_settings;
pub mod request_template;
mod response_template;

mod in_flight;
mod parity;
pub mod request_templates;
pub mod response_matcher;
mod timed_out_ids;

pub mod closing;
pub mod event_stream;
mod handshake;
pub mod request_log;

pub mod subscription;

pub mod subscriber;

pub use self::answers::Answers;
pub use self::closing::{CloseAction, Closing};
pub use self::event_stream::{EventStream, StreamEvent};
pub use self::handshake::{ConnectError, Handshake, HandshakeProgress};
pub use self::http_field::{HttpField, REDACTED, Secret};
pub use self::request_log::RequestLog;
pub use self::request_settings::RequestSettings;
pub use self::request_template::RequestTemplate;
pub use self::request_templates::RequestTemplates;
pub use self::response_matcher::{CompletedRequest, ReceiveEvent, UnansweredRequest};
pub use self::result_check::{Expectation, ResultCheck};
pub use self::subscriber::{Subscriber, SubscriberEvent};
pub use self::subscription::{Subscription, SubscriptionFilter};
pub use self::user_values::{UserData, UserValues, ValueNames};
