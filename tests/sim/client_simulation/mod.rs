//! Simulation of the client: its I/O over simulated rings, against the real server.
//!
//! Connections are cut at any byte or stop to pass bytes, servers end and start again, sessions are
//! lost, calls time out and are cancelled. Every call must end once, with its own answer or with an
//! error that tells whether it may have run; at the end every client must work again.
//!
//! `catalog` is what the server offers, `call` are the calls, `plan` is what happens. `call_model`
//! checks the calls. `cut_proxy` breaks connections, `server_host` restarts the server, and
//! `io_thread` runs the client. `simulation` is a run, `seeds` are run, and `checker_tests` show
//! that wrong clients are detected.

#![expect(clippy::cast_possible_truncation, reason = "drawn and counted numbers are small")]

mod catalog;

mod call;

mod call_model;

mod cut_proxy;

mod io_thread;

pub(crate) mod plan;

mod server_host;

pub(crate) mod simulation;

mod checker_tests;

pub(crate) mod seeds;
