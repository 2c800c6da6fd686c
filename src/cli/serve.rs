//! `serve` and `stdio`: from options to a running server of files and the demo services, and to an
//! exit code.
//!
//! What it keeps true: `serve` never writes to standard output, and `stdio` writes nothing there
//! but MCP. It starts nothing where nothing would listen.

use std::error::Error;
use std::process::ExitCode;

use corelane::config::{self, CommandLine, Options};
use corelane::observe::{Counters, Event};
use corelane::protocol::message::ServerInfo;
use corelane::server::files::Files;
use corelane::server::{Handle, Server};
use corelane::service::{Catalog, demo};

use crate::cli::{complain, doubt};

/// Serves the network until a signal ends it. SIGHUP reads what `command_line` named again.
pub(crate) fn serve(options: Options, command_line: CommandLine) -> ExitCode {
    if options.tcp.address.is_none() && options.http.address.is_none() {
        let what = "nothing to serve: tcp and http are off; give an address with --tcp or --http";
        complain("error", &what);
        return ExitCode::FAILURE;
    }
    let reload = move |handle: &Handle| reload(&command_line, handle);
    end(offer(options).and_then(|server| Ok(server.on_reload(reload).serve()?)))
}

/// Serves one peer over standard input and output until it ends its input.
pub(crate) fn stdio(options: Options) -> ExitCode {
    end(offer(options).and_then(|server| Ok(server.stdio()?)))
}

/// Reads the configuration again; its limits are kept to from now on. What was fixed at start
/// stays, the directories of files among it; what changes inside those is followed anyhow. A
/// configuration with problems changes nothing.
fn reload(command_line: &CommandLine, handle: &Handle) {
    match config::load(command_line) {
        Ok(effective) => {
            doubt(&effective);
            handle.keep_to(&effective.options);
            Event::Reloaded.emit();
        }
        Err(problems) => {
            for problem in &problems.0 {
                Event::ReloadRefused { problem: &problem.to_string() }.emit();
            }
        }
    }
}

/// A server of the demo services, unless they are off, and of the files that the options name.
fn offer(options: Options) -> Result<Server, Box<dyn Error>> {
    let info = ServerInfo {
        title: Some("Corelane".to_owned()),
        description: Some(clap::crate_description!().to_owned()),
        ..ServerInfo::new("corelane", clap::crate_version!())
    };
    doubt_emptiness(&options);
    let page_length_max = usize::try_from(options.service.page_length_max)?;
    let builder = Catalog::builder(info).page_length_max(page_length_max);
    let builder = if options.service.demo { demo::offer(builder) } else { builder };
    let catalog = builder.build()?;
    let files = Files::of(&options.files)?;
    Ok(Server::new(catalog).options(options).files(files)?)
}

/// A server without anything to offer runs, and every list of its is empty: that is rarely meant.
fn doubt_emptiness(options: &Options) {
    let files = &options.files;
    if !options.service.demo && files.resources.is_none() && files.prompts.is_none() {
        let doubt = "nothing is offered, every list is empty: demo is off and no directory is \
                     named; give one with --resources or --prompts";
        Event::OptionDoubted { doubt }.emit();
    }
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
