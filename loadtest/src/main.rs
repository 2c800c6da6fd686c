//! `corelane-load`: the harness for capacity planning of any MCP server.
//!
//! What it is: a binary of its own, so that its dependencies never reach a host that links the
//! engine. It keeps no promise yet but one: it says plainly that the harness is still to come and
//! exits with a status that no script can take for a result.

use std::process::ExitCode;

fn main() -> ExitCode {
    eprintln!("corelane-load: the harness is not built yet; nothing was measured");
    ExitCode::from(2)
}
