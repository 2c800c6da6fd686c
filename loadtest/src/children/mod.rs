//! Programs that are started for a run, and ended with it: servers on standard input and output.
//!
//! ```text
//!  worker ── Start, Stop ─▶ keeper's thread ─▶ children
//!         ◀─ News, waker ──       │  reads their standard error, waits for their ends
//!  worker ◀════ the other ends of their standard input and output, over its own ring
//! ```
//!
//! What it keeps true: a child is started with pipes of its own, which no other child holds; its
//! standard error is read, so that it never waits for it; when it is no longer wanted it is ended
//! in the order of the specification (2026-07-28 and 2025-11-25, `basic/transports/stdio`): its
//! input is closed, after [`ASKED_MAX`] it is asked by `SIGTERM`, after as long again it is killed,
//! and so is what it has started itself. No child outlives its [`Keeper`].
//!
//! What it does not do: end children when this process is killed itself. They see the end of their
//! standard input then, because nobody else holds its other end, and they stand in the same process
//! group: what a terminal or `timeout` sends to this program reaches them, too.

mod family;
mod tail;

mod child;
mod keeper;

use std::os::fd::OwnedFd;
use std::time::Duration;

pub use self::keeper::Keeper;

/// How long a child may take to end after its input was closed, and again after `SIGTERM`.
pub const ASKED_MAX: Duration = Duration::from_secs(2);

/// A program and how it is started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Program {
    /// Its file, looked for as a shell looks for it, and its arguments.
    pub words: Vec<String>,
    /// Where its standard error goes.
    pub errors: Errors,
}

/// Where the standard error of a child goes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Errors {
    /// It is read, and its last lines are told when the child fails.
    #[default]
    Keep,
    /// To the standard error of this program.
    Inherit,
}

/// What has become of a child. `lane` is the number under which it was asked for.
#[derive(Debug)]
pub enum News {
    /// It runs.
    Started {
        /// Its number.
        lane: u32,
        /// Where its standard input is written.
        input: OwnedFd,
        /// Where its standard output is read.
        output: OwnedFd,
    },
    /// It could not be started, and why.
    Failed {
        /// Its number.
        lane: u32,
        /// Why, with the name of the program.
        why: String,
    },
    /// It has ended after it was to be stopped.
    Ended {
        /// Its number.
        lane: u32,
        /// Its status and what it said last.
        why: String,
    },
}
