//! `serve` and `stdio`: from options to a running server of the demo tools, and to an exit code.
//!
//! What it keeps true: `serve` never writes to standard output, and `stdio` writes nothing there
//! but MCP. It starts nothing where nothing would listen.

use std::error::Error;
use std::process::ExitCode;

use corelane::config::Options;
use corelane::observe::{Counters, Event};
use corelane::protocol::message::ServerInfo;
use corelane::server::Server;
use corelane::service::{Catalog, demo};

use crate::cli::complain;

/// Serves the network until a signal ends it.
pub(crate) fn serve(options: Options) -> ExitCode {
    if options.tcp.address.is_none() {
        let what = "nothing to serve: tcp is off and http is not served yet; \
                    give an address with --tcp";
        complain("error", &what);
        return ExitCode::FAILURE;
    }
    end(offer(options).and_then(|server| Ok(server.serve()?)))
}

/// Serves one peer over standard input and output until it ends its input.
pub(crate) fn stdio(options: Options) -> ExitCode {
    end(offer(options).and_then(|server| Ok(server.stdio()?)))
}

/// A server of the demo tools.
fn offer(options: Options) -> Result<Server, Box<dyn Error>> {
    let info = ServerInfo {
        title: Some("Corelane".to_owned()),
        description: Some(clap::crate_description!().to_owned()),
        ..ServerInfo::new("corelane", clap::crate_version!())
    };
    let page = usize::try_from(options.service.tools_page_length)?;
    let catalog = Catalog::builder(info).tools(demo::tools()).page_tools_max(page).build()?;
    Ok(Server::new(catalog).options(options))
}

/// What was counted goes to the log, what went wrong to standard error.
fn end(outcome: Result<Counters, Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(counters) => {
            Event::Counted { counters: &counters }.emit();
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain("error", &error);
            ExitCode::FAILURE
        }
    }
}
