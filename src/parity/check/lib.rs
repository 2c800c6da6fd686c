//! Checks that a server complies with the parity dialect: what `corelane parity-check` runs.
//!
//! The checks use blocking sockets and no code of the server or of the client of Corelane, so that
//! an error that both share is found; only TLS is handed in ([`Tls`]). Each check opens connections
//! of its own. Rules that hold for every message are checked on every connection, too.
//!
//! Unstable: use the command.

#![forbid(unsafe_code)]

mod deadline;

mod endpoint;

mod wire;

mod rules;

mod trace;

mod suite;

mod peer;

mod steps;

mod http_steps;

mod checks;

mod report;

mod runner;

pub use self::checks::write_list;
pub use self::endpoint::{Address, Duplex, Endpoint, Tls, Transport};
pub use self::report::Report;
pub use self::runner::{check_reachable, run, select};
pub use self::suite::{Check, LongTool, Settings};
