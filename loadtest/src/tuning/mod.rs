//! Checks of a machine: kernel settings against a profile, limits against a number of connections.
//!
//! ```text
//!  /proc, /sys ─▶ inspection ─▶ Machine ─┐
//!                                        ├─▶ review ─▶ findings: needed, advised, info
//!  tuning/90-corelane.conf ─▶ profile    ┘
//! ```
//!
//! The profile is the installed file, embedded at compile time. Everything but [`inspect`] is pure.
//! Values that a machine does not report are not checked. Nothing is changed: each finding states
//! what to do, and `tuning/README.md` how to measure the effect and how to undo it.

mod finding;
mod inspection;
mod knobs;
mod machine;
mod profile;

mod limits;
mod review;

pub use self::finding::{PlannedLoad, Severity, TuningFinding};
pub use self::inspection::inspect;
pub use self::machine::Machine;
pub use self::profile::{PROFILE, Setting, settings};
pub use self::review::{Review, review};
