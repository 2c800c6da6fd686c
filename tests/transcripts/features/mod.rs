//! The plays: one for each feature of the protocol.

mod catalog;
mod errors;
mod handshake;
mod questions;
mod resources;
mod rounds;
mod subscriptions;
mod tasks;
mod tools;

use crate::dialogue::Dialogue;

/// A feature, the revisions that have it and how it is played.
pub(crate) struct Feature {
    /// The name of its golden files.
    pub(crate) name: &'static str,
    /// The revisions that it is played in.
    pub(crate) revisions: &'static [&'static str],
    /// Arguments of the program beyond those of every play.
    pub(crate) arguments: &'static [&'static str],
    /// What the client says and waits for.
    pub(crate) play: fn(&mut Dialogue),
}
