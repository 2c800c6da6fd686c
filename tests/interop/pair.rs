//! The two endpoints of 2024-11-05, for clients that know no Streamable HTTP.

use crate::asking::expect_answers;
use crate::changes::expect_changes_over;
use crate::session::expect_session;
use crate::stage::{Era, LEGACY, Sdk, Transport, run};

#[test]
fn python_has_a_whole_session_over_the_endpoints_of_2024_11_05() {
    expect_everything(Sdk::Python);
}

#[test]
fn typescript_has_a_whole_session_over_the_endpoints_of_2024_11_05() {
    expect_everything(Sdk::TypeScript);
}

/// Calls, questions and changes, all on the one stream that the client opened.
fn expect_everything(sdk: Sdk) {
    let summary = |feature| run(sdk, feature, Era::Legacy.mode(), Transport::Pair, &[]);
    expect_session(&summary("session"), LEGACY);
    expect_answers(&summary("asking"), Era::Legacy);
    expect_changes_over(Transport::Pair, sdk, Era::Legacy);
}
