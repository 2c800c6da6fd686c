//! Helpers that encode a message and validate it against the schema of its revision.

use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{self, CacheHint, Icon, IconTheme, Implementation};
use corelane_protocol::revision::Revision;
use corelane_test_support::mcp_schema::expect_valid;
use serde_json::Value;

pub(crate) const CACHE_HINT: CacheHint = CacheHint { ttl_ms: 60_000, is_public: true };

pub(crate) fn server_info() -> Implementation {
    Implementation {
        title: Some("A \"server\"".into()),
        description: Some("It serves.".into()),
        website_url: Some("https://example.com/".into()),
        icons: vec![Icon {
            mime_type: Some("image/png".into()),
            sizes: vec!["48x48".into(), "any".into()],
            theme: Some(IconTheme::Dark),
            ..Icon::new("https://example.com/icon.png")
        }],
        ..Implementation::new("server", "1.0")
    }
}

/// Validates the message that `write` encodes; `method` is that of the request it answers.
pub(crate) fn check_encoded(
    revision: Revision,
    method: Option<&str>,
    write: impl FnOnce(&mut Vec<u8>),
) -> Value {
    let mut out = Vec::new();
    write(&mut out);
    assert!(!out.contains(&b'\n'), "a message contains a newline");
    let message: Value = serde_json::from_slice(&out).expect("a message is JSON");
    expect_valid(revision.as_str(), &message, method);
    message
}

/// Returns the result suffix of `revision`.
pub(crate) fn suffix(revision: Revision) -> Vec<u8> {
    model::result_suffix(revision, &server_info())
}

/// Validates a response with the result that `write` encodes.
pub(crate) fn check_response(
    revision: Revision,
    method: &str,
    write: impl FnOnce(&mut Vec<u8>),
) -> Value {
    check_encoded(revision, Some(method), |out| {
        model::begin_response(out, Id::Text("7"));
        write(out);
        model::end_response(out);
    })
}
