//! `corelane-load`: capacity planning for any MCP server.
//!
//! Requests are sent at times that are planned before the run begins, independently of the
//! server's responses (an **open loop**). Latency counts from the intended send time, so the
//! results are free of coordinated omission. A run whose generator fell behind its own schedule is
//! reported as invalid.
//!
//! # Modules
//!
//! | module | contents |
//! | --- | --- |
//! | [`schedule`] | send times of requests, times of reconnects |
//! | [`wire`] | client side of each transport, without a socket |
//! | [`target`] | address and transport of the server under test |
//! | [`mcp`] | MCP client side of one connection: handshake, requests, responses, close |
//! | [`metrics`] | latency, outcomes, CPU time and memory of processes |
//! | [`children`] | programs started for a run (stdio servers) |
//! | [`sign_in`] | access tokens of users, and their renewal |
//! | [`generator`] | load threads with their rings and connections |
//! | [`plan`] | description of a run, as written by a user |
//! | [`discovery`] | what the server is, found out before the run |
//! | [`nearest`] | the known name that a misspelled one means |
//! | [`result`] | results of a run and their validity |
//! | [`report`] | output of results for people and programs |
//! | [`search`] | search for the highest rate that meets the thresholds |
//! | [`probe`] | the search, executed run by run |
//! | [`sweep`] | the highest rate, and runs at fractions of it |
//! | [`significance`] | permutation test of the difference of two groups of runs |
//! | [`comparison`] | comparison of results within budgets, and their comparability |
//! | [`capacity`] | resources required for a target rate, from measured results |
//! | [`machine`] | warnings about this machine before a run |

#![forbid(unsafe_code)]

pub mod capacity;
pub mod children;
pub mod comparison;
pub mod discovery;
pub mod figure;
pub mod generator;
pub mod machine;
pub mod mcp;
pub mod metrics;
pub mod nearest;
pub mod plan;
pub mod probe;
pub mod report;
pub mod result;
pub mod schedule;
pub mod search;
pub mod sign_in;
pub mod significance;
pub mod sweep;
pub mod target;
pub mod users;
pub mod wire;
