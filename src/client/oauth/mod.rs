//! Authorization of HTTP requests: OAuth 2.1 (MCP 2026-07-28 basic/authorization).
//!
//! [`OAuthOptions`] is what a program sets. [`Flow`] obtains tokens, sans-IO: its input are
//! challenges, responses, redirects, the time and random bytes, its output are requests, the URL
//! for the user, and tokens. [`Credentials`] authorize requests.

mod challenge;
pub(super) mod signing;

mod metadata;

mod tokens;

mod store;

mod options;

mod flow;

pub use self::challenge::Challenge;
pub(super) use self::flow::{FetchRequest, FetchResponse, Flow, FlowCause, FlowInput, FlowStep};
pub use self::metadata::{
    ResourceMetadata, ServerMetadata, parse_endpoint, resource_metadata_urls, server_metadata_urls,
};
pub(super) use self::options::UserAgent;
pub use self::options::{IdentityAssertion, OAuthOptions};
#[cfg(feature = "oauth-jwt")]
pub use self::signing::SigningAlgorithm;
pub(super) use self::store::TokenEntry;
pub use self::store::{FileTokenStore, MemoryTokenStore, TokenLock, TokenStore};
pub use self::tokens::StoredTokens;
pub(super) use self::tokens::{Credentials, Secret};
