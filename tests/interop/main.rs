//! The official clients of Python, Rust and TypeScript against `corelane stdio` and
//! `corelane serve`, in both eras.
//!
//! Each test runs one feature of one client in one mode, over pipes and over Streamable HTTP, some
//! over WebSocket and over the two endpoints that HTTP began with, as a child process: a script of
//! `python/` or `typescript/`, or the program of `rust/`. It does what a client does, and tells
//! what came back as one JSON object; what it must say is asserted here. The packages are installed
//! by `tests/interop/install.sh` before the tests; where they are missing a test fails and says so.
//!
//! What a client cannot do is written in its script: each knows the tasks of one generation.

mod asking;
mod changes;
mod content;
mod exchanges;
mod pair;
mod prompts;
mod resources;
mod rounds;
mod session;
mod stage;
mod tasks;
mod telling;
mod websocket;

#[path = "../support/serving.rs"]
mod serving;
