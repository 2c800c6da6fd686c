//! A WebSocket. Of the official clients only that of the first generation for TypeScript speaks
//! over one; in the modern era, which it knows nothing of, the second borrows its transport.

use crate::asking::expect_answers;
use crate::changes::expect_changes_over;
use crate::session::expect_session;
use crate::stage::{Era, LEGACY, MODERN, Sdk, Transport, run};
use crate::telling::expect_telling;

#[test]
fn typescript_has_a_whole_session_over_a_websocket() {
    expect_everything(Era::Legacy, LEGACY);
}

#[test]
fn typescript_speaks_the_modern_era_over_a_websocket() {
    expect_everything(Era::Modern, MODERN);
}

/// Calls, progress, messages, questions and changes, each over a connection of its own.
fn expect_everything(era: Era, revision: &str) {
    let (sdk, transport) = (Sdk::TypeScript, Transport::WebSocket);
    let summary = |feature| run(sdk, feature, era.mode(), transport, &[]);
    expect_session(&summary("session"), revision);
    expect_telling(&summary("telling"), era);
    expect_answers(&summary("asking"), era);
    expect_changes_over(transport, sdk, era);
}
