//! `corelane-load`: capacity planning for any MCP server.
//!
//! It sends requests at moments that were planned before the run began, whatever the server does
//! (an **open loop**), and counts every answer from the moment at which its request was meant to
//! leave. It checks itself while it does so: a generator that could not keep its own plan says that
//! the run is worth nothing.
//!
//! # The rooms
//!
//! | room | what stands there |
//! | --- | --- |
//! | [`schedule`] | when requests are to be sent |
//! | [`wire`] | the client's side of each transport, without a socket |
//! | [`target`] | which server, and how it is spoken to |
//! | [`dialogue`] | what is said on one connection, and what the answers are worth |
//! | [`measure`] | latencies, outcomes, what processes cost |
//! | [`children`] | programs that are started for a run |
//! | [`generator`] | the load itself: workers, their rings and connections |
//! | [`plan`] | what a run is to do, as a person writes it |
//! | [`result`] | what came of it, and whether it counts |
//! | [`report`] | results as people and other programs read them |
//! | [`search`] | the highest rate that a server bears |
//! | [`probe`] | the search for it, carried out run by run |
//! | [`scalability`] | what more cores, connections or machines would do |
//! | [`sweep`] | the highest rate, and runs at parts of it |
//! | [`significance`] | whether two samples differ |
//! | [`comparison`] | whether results differ, and whether they may be compared |
//! | [`forecast`] | what a target needs, from results at several sizes |
//! | [`tuning`] | what of a machine bounds or spoils a load |

#![forbid(unsafe_code)]

pub mod children;
pub mod comparison;
pub mod dialogue;
pub mod forecast;
pub mod generator;
pub mod measure;
pub mod plan;
pub mod probe;
pub mod report;
pub mod result;
pub mod scalability;
pub mod schedule;
pub mod search;
pub mod significance;
pub mod sweep;
pub mod target;
pub mod tuning;
pub mod wire;
