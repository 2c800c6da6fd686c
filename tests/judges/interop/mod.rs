//! The official clients of Python, Rust and TypeScript against `corelane stdio` and
//! `corelane serve`, in both eras.
//!
//! Each test runs one feature of one client in one mode as a child process: a script of `python/`
//! or `typescript/`, or the program of `rust/`, over stdio and Streamable HTTP, some also over
//! WebSocket and HTTP+SSE. The client prints a JSON summary of the responses, which is asserted
//! here. `tests/judges/interop/install.sh` installs the packages before the tests; without them
//! every test fails with that hint.
//!
//! `gateway` runs them in front of servers with the SDKs, through `corelane gateway`.
//!
//! The scripts say what their SDK does not support.

mod changes;
mod client_requests;
mod content;
mod gateway;
mod input_required;
mod legacy_sse;
mod progress_and_logging;
mod prompts;
mod resources;
mod resumption;
mod sdk;
mod session;
mod tasks;
mod traces;
mod websocket;
