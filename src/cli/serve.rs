//! `serve` and `stdio`: start a server of files and demo services from options.
//!
//! `serve` writes nothing to standard output; `stdio` writes only MCP there.

use std::error::Error;
use std::process::ExitCode;

use crate::config::options::{DemoServices, ServiceOptions};
use crate::config::{self, CommandLine, Options};
use crate::files::Files;
use crate::protocol::model::Implementation;
use crate::server::{Handle, Server};
use crate::service::{Catalog, demo};
use crate::telemetry::{Counters, Event};

use crate::cli::signals::end_at_second_signal;
use crate::cli::{log_warnings, print_diagnostic};

/// Serves the network until a signal arrives. SIGHUP reloads the configuration of `command_line`.
pub(crate) fn serve(options: Options, command_line: CommandLine) -> ExitCode {
    if options.tcp.address.is_none() && options.http.address.is_none() {
        let message =
            "nothing to serve: tcp and http are off; give an address with --tcp or --http";
        print_diagnostic("error", &message);
        return ExitCode::FAILURE;
    }
    let reload = move |handle: &Handle| reload(&command_line, handle);
    exit_code(build_server(options).and_then(|server| Ok(server.on_reload(reload).serve()?)))
}

/// Serves one peer over standard input and output until end of input.
pub(crate) fn stdio(options: Options) -> ExitCode {
    exit_code(build_server(options).and_then(|server| Ok(server.stdio()?)))
}

/// Reads the configuration again and applies its limits. Options fixed at start, such as the file
/// directories, stay. An invalid configuration changes nothing.
fn reload(command_line: &CommandLine, handle: &Handle) {
    match config::load(command_line) {
        Ok(effective) => {
            log_warnings(&effective);
            handle.reload_limits(&effective.options);
            Event::Reloaded.emit();
        }
        Err(problems) => {
            for problem in &problems.0 {
                Event::ReloadFailed { error: &problem.to_string() }.emit();
            }
        }
    }
}

/// Builds a server of the demo services and of the configured directories.
fn build_server(options: Options) -> Result<Server, Box<dyn Error>> {
    warn_if_empty(&options);
    let service = &options.service;
    let page_length_max = usize::try_from(service.page_size)?;
    let builder = Catalog::builder(server_info(service)).page_size(page_length_max);
    let builder = match &service.instructions {
        Some(instructions) => builder.instructions(instructions.as_str()),
        None => builder,
    };
    let builder = match options.demo_services() {
        DemoServices::Off => builder,
        DemoServices::Conformance => demo::add_services(builder),
        DemoServices::Auto | DemoServices::Basic => builder.tools(demo::tools()),
    };
    let catalog = builder.build()?;
    let files = Files::from_options(&options.files)?;
    let server = Server::new(catalog).options(options).files(files)?;
    // Fails only for signals that cannot be handled; the first one drains all the same.
    Ok(server.on_start(|_| end_at_second_signal().ok()))
}

/// Returns what clients see of the server. Title and description of Corelane go with its name.
fn server_info(service: &ServiceOptions) -> Implementation {
    let version = service.version.as_deref().unwrap_or(clap::crate_version!());
    let info = match &service.name {
        Some(name) => Implementation::new(name.as_str(), version),
        None => Implementation {
            title: Some("Corelane".to_owned()),
            description: Some(clap::crate_description!().to_owned()),
            ..Implementation::new("corelane", version)
        },
    };
    Implementation { title: service.title.clone().or(info.title), ..info }
}

/// Warns if the server has nothing to offer, which is rarely intended.
fn warn_if_empty(options: &Options) {
    let files = &options.files;
    let has_files = files.resources.is_some() || files.prompts.is_some();
    if options.demo_services() == DemoServices::Off && !has_files {
        let warning = "the server offers nothing, every list is empty: demo is off and no \
                       directory is set; give one with --resources or --prompts";
        Event::OptionWarning { warning }.emit();
    }
}

/// Logs the final counters, or prints the error.
fn exit_code(result: Result<Counters, Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(counters) => {
            Event::CountersSnapshot { counters: &counters }.emit();
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_diagnostic("error", &error);
            ExitCode::FAILURE
        }
    }
}
