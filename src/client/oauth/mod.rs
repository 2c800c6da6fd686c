//! Authorization of HTTP requests: OAuth 2.1 (MCP 2026-07-28 basic/authorization).
//!
//! [`OAuthOptions`] is what a program sets. [`Flow`] obtains tokens, sans-IO: its input are
//! challenges, responses, redirects, the time and random bytes, its output are requests, the URL
//! for the user, and tokens. [`Credentials`] authorize requests.

mod challenge;
mod secret;
pub(in crate::client) mod signing;
mod urls;

mod metadata;

mod tokens;

mod credentials;
mod store;

mod entry;

mod options;

mod flow;

#[cfg(feature = "internals")]
mod fuzz;

pub(in crate::client) use self::challenge::Challenge;
pub(in crate::client) use self::credentials::Credentials;
pub(in crate::client) use self::entry::TokenEntry;
pub(in crate::client) use self::flow::{
    FetchRequest, FetchResponse, Flow, FlowCause, FlowInput, FlowStep,
};
#[cfg(feature = "internals")]
pub use self::fuzz::check_text;
pub(in crate::client) use self::options::UserAgent;
pub use self::options::{IdentityAssertion, OAuthOptions};
pub(in crate::client) use self::secret::Secret;
#[cfg(feature = "oauth-jwt")]
pub use self::signing::SigningAlgorithm;
pub use self::store::{FileTokenStore, MemoryTokenStore, TokenLock, TokenStore};
pub use self::tokens::StoredTokens;
