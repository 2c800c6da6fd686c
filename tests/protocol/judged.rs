//! What the tests of messages share: one is written, held against the schema, and looked at.

use crate::judge::judge;
use corelane::protocol::message::{self, CacheHint, Icon, ServerInfo, Theme};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use serde_json::Value;

pub(crate) const CACHE: CacheHint = CacheHint { fresh_ms: 60_000, shared: true };

pub(crate) fn info() -> ServerInfo {
    ServerInfo {
        title: Some("A \"server\"".into()),
        description: Some("It serves.".into()),
        website_url: Some("https://example.com/".into()),
        icons: vec![Icon {
            mime_type: Some("image/png".into()),
            sizes: vec!["48x48".into(), "any".into()],
            theme: Some(Theme::Dark),
            ..Icon::new("https://example.com/icon.png")
        }],
        ..ServerInfo::new("server", "1.0")
    }
}

/// Judges what `write` says in `revision`, as the answer to `method`.
pub(crate) fn hold(
    revision: Revision,
    method: Option<&str>,
    write: impl FnOnce(&mut Vec<u8>),
) -> Value {
    let mut out = Vec::new();
    write(&mut out);
    assert!(!out.contains(&b'\n'), "a message is one line");
    let message: Value = serde_json::from_slice(&out).expect("a message is one JSON text");
    if let Err(reason) = judge(revision.as_str(), &message, method) {
        panic!("{reason}");
    }
    message
}

/// What ends a result of `revision`.
pub(crate) fn suffix(revision: Revision) -> Vec<u8> {
    message::result_suffix(revision, &info())
}

/// Judges a response with the body that `write` says.
pub(crate) fn hold_result(
    revision: Revision,
    method: &str,
    write: impl FnOnce(&mut Vec<u8>),
) -> Value {
    hold(revision, Some(method), |out| {
        message::result_open(out, Id::Text("7"));
        write(out);
        message::result_close(out);
    })
}
