//! One scenario for each feature of the protocol.

mod catalog;
mod client_requests;
mod errors;
mod handshake;
mod input_required;
mod resources;
mod subscriptions;
mod tasks;
mod tools;

use crate::transcripts::transcript_client::TranscriptClient;

/// A feature, its revisions and its scenario.
pub(crate) struct Feature {
    /// Name of its golden files.
    pub(crate) name: &'static str,
    pub(crate) revisions: &'static [&'static str],
    /// Additional command line arguments.
    pub(crate) arguments: &'static [&'static str],
    /// Sends and receives the messages.
    pub(crate) scenario: fn(&mut TranscriptClient),
}
