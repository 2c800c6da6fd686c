//! Child processes: their start, their limits, their sandbox and their end.
//!
//! [`Supervisor::start`] starts a second process of the same program, which calls
//! [`run_supervisor`]. That process starts all children, each in a process group of its own, and
//! ends what they leave behind: the whole group of a child and everything else that it has started
//! when the child ends; all of it when the server ends, by SIGKILL too.
//!
//! The server needs no runtime for it: exits arrive by callback on one thread. The interface is
//! unstable; programs use the crate `corelane`.

#![forbid(unsafe_code)]

mod program;
mod sandbox;
mod socket;
mod spec;

mod proc_table;
mod wire;

mod tag;

mod start;

mod supervise;

mod connection;

mod supervisor;

#[cfg(test)]
mod process_tests;

pub use program::find_program;
pub use sandbox::Sandbox;
pub use spec::{ChildSpec, ChildStdio, Exit, ResourceLimits, User, Variable};
pub use supervise::run_supervisor;
pub use supervisor::{ChildHandle, Supervisor, SupervisorCommand};
