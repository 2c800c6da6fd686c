//! The paths of the endpoints of clients.

use std::borrow::Cow;

/// The paths of the MCP endpoint and of the endpoints of 2024-11-05. Each begins with `/`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointPaths {
    mcp: Cow<'static, str>,
    legacy_sse: Cow<'static, str>,
    legacy_messages: Cow<'static, str>,
    /// Whether `mcp` is [`EndpointPaths::MCP`], which is compared as a constant.
    has_default_mcp: bool,
}

impl EndpointPaths {
    /// The default path of the MCP endpoint.
    pub const MCP: &'static str = "/mcp";
    /// The default path of the event stream of 2024-11-05.
    pub const LEGACY_SSE: &'static str = "/sse";
    /// The default path for the messages of 2024-11-05.
    pub const LEGACY_MESSAGES: &'static str = "/messages";

    /// The default paths.
    pub const DEFAULT: Self = Self {
        mcp: Cow::Borrowed(Self::MCP),
        legacy_sse: Cow::Borrowed(Self::LEGACY_SSE),
        legacy_messages: Cow::Borrowed(Self::LEGACY_MESSAGES),
        has_default_mcp: true,
    };

    /// Returns these paths.
    pub fn new(mcp: &str, legacy_sse: &str, legacy_messages: &str) -> Self {
        Self {
            has_default_mcp: mcp == Self::MCP,
            mcp: Cow::Owned(mcp.to_owned()),
            legacy_sse: Cow::Owned(legacy_sse.to_owned()),
            legacy_messages: Cow::Owned(legacy_messages.to_owned()),
        }
    }

    /// Returns paths that no request has: MCP is not served.
    pub fn none() -> Self {
        Self::new("", "", "")
    }

    /// Returns the path of the MCP endpoint.
    pub fn mcp(&self) -> &str {
        &self.mcp
    }

    /// Returns the path of the event stream of 2024-11-05.
    pub fn legacy_sse(&self) -> &str {
        &self.legacy_sse
    }

    /// Returns the path to which messages of 2024-11-05 are posted.
    pub fn legacy_messages(&self) -> &str {
        &self.legacy_messages
    }

    /// Returns whether `path` is the MCP endpoint and has its default.
    #[inline]
    pub(super) fn is_default_mcp(&self, path: &[u8]) -> bool {
        path == Self::MCP.as_bytes() && self.has_default_mcp
    }
}
