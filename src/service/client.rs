//! Who calls, as far as a handler may know it.

use crate::protocol::era::ClientCapabilities;
use crate::protocol::revision::Revision;

/// The client behind a request. What it is called is not told: the specification forbids to behave
/// by it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Client {
    /// The revision that it speaks.
    pub revision: Revision,
    /// What it declared that it can do: once for a legacy session, with each modern request.
    pub capabilities: ClientCapabilities,
}
