//! The load generator: threads that send requests when they are due and receive responses.
//!
//! A load thread has one ring (several if one cannot hold all its connections) and a share of the
//! connections and of the schedule. Load threads share no state while they run but the request to
//! stop; each sends a
//! [`Period`] to the collector about once per second.
//!
//! ```text
//!  schedule ─▶ due requests ─▶ available connections ─▶ ring ─▶ server
//!                                                                 │
//!  collector ◀── period ◀── period recorder ◀── request log ◀── ring
//! ```
//!
//! A load thread (`LoadThread`) composes these parts; each takes what it needs as arguments and
//! returns effects as values:
//!
//! - `RunContext`: configuration, time, phase and measurements, which all parts use;
//! - `RequestSchedule`: when each request is due, and which one it is;
//! - `Connections`: handshakes, received data, requests, timeouts; with `SlowReaders`;
//! - `Lifecycle`: opens, replaces and ends connections; with `Connector`, `Churn`, `Subscribers`;
//! - `ConnectionIo`: the ring, the connections' sockets and buffers, TLS.
//!
//! Invariants: a request keeps its intended send time while it waits for a connection. Lateness of
//! the generator itself is measured separately ([`Period::lag`]). Every due request is sent or
//! counted as unsent. A planned reconnect counts from its due time. Memory does not grow with the
//! length of a run, except for about a hundred bytes per second.

pub mod period;
pub mod run_config;

mod stop_request;

mod answer_connection;
mod slow_reader;

mod connection;
mod context;

mod connect_rate;
mod connection_io;
mod processes;

mod churn;
mod connector;
mod request_schedule;
mod slow_readers;
mod subscribers;
mod user_arrivals;
mod users;

mod lifecycle;

mod connections;

mod backlog_sampler;
mod load_thread;

mod ring_set;
mod second_summary;

pub mod seconds;

mod cpu_window;

mod run_error;

mod thread_plan;

pub mod thread_pool;

pub use self::period::Period;
pub use self::run_config::{
    ConnectConfig, ConnectionRoles, Endpoint, LoadMode, RunConfig, RunLimits, SubscribeConfig,
};
pub use self::run_error::RunError;
pub use self::seconds::{Second, WindowTotals};
pub use self::stop_request::StopRequest;
pub use self::thread_pool::{GeneratorSetup, Measurements, ResourceUsage, run};
