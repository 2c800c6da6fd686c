//! Checks of a machine: kernel settings against a profile, limits against what it is used for now
//! or against a number of connections.
//!
//! ```text
//!  /proc, /sys ─▶ inspection ─▶ Machine ─┐
//!                                        ├─▶ review ─▶ findings: needed, advised, info
//!  tuning/90-corelane.conf ─▶ profile    ┘
//! ```
//!
//! The profile is the installed file, embedded at compile time. Everything but [`inspect`] is
//! pure. Without a number of connections only what the listeners of the machine use is judged, and
//! settings that matter for many connections are for information. Values that a machine does not
//! report are not checked. Nothing is changed: each finding states what to do, and
//! `tuning/README.md` how to measure the effect and how to undo it.

mod finding;
mod listeners;

mod machine;

mod inspection;
mod knobs;
mod profile;

mod limits;
mod usage;

mod review;

pub use self::finding::{PlannedLoad, Severity, TuningFinding};
pub use self::inspection::inspect;
pub use self::listeners::{Listener, ListenerProcess, Listeners};
pub use self::machine::Machine;
pub use self::profile::{PROFILE, Setting, settings};
pub use self::review::{Review, review};
