//! Measurements of a run: latency, outcomes, per-second results, CPU time and memory of processes.

pub mod backlog;
pub mod connects;
pub mod control_group;
pub mod fanout;
pub mod histogram;
pub mod host;
pub mod outcome;
pub mod port_limits;
pub mod process;
pub mod second;
pub mod unmeasured;

pub mod calls;
pub mod failure_examples;
pub mod process_group;
pub mod process_tree;

pub mod latency;
