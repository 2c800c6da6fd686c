//! `serve` and `stdio`: from options to a running server.
//!
//! What it keeps true: `serve` never writes to standard output, and `stdio` writes nothing there
//! but MCP. It starts nothing where nothing would listen.

use std::process::ExitCode;

use corelane::config::Options;
use corelane::observe::{Event, Transport};

use crate::cli::complain;

/// Serves the network until a signal ends it.
pub(crate) fn serve(options: Options) -> ExitCode {
    if let Some(address) = options.http.address {
        Event::NotServed { transport: Transport::Http, address }.emit();
    }
    if options.tcp.address.is_none() {
        let what = "nothing to serve: tcp is off and http is not served yet; \
                    give an address with --tcp";
        complain("error", &what);
        return ExitCode::FAILURE;
    }
    run(options)
}

/// Serves one peer over standard input and output until it ends its input.
pub(crate) fn stdio(options: Options) -> ExitCode {
    run(options)
}

/// The call of the server.
fn run(_: Options) -> ExitCode {
    complain("error", &"this build has no server in it yet; only `corelane check` works");
    ExitCode::FAILURE
}
