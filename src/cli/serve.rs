//! `serve` and `stdio`: start a server of files and demo services from options.
//!
//! `serve` writes nothing to standard output; `stdio` writes only MCP there.

use std::error::Error;
use std::sync::Arc;

use corelane_engine::buffer::allocator;
use corelane_protocol::model::Implementation;

use crate::cli::log_warnings;
use crate::cli::logging::{Log, LogHandle};
use crate::config::options::{DemoServices, ServiceOptions};
use crate::config::{self, CommandLine, Options, table};
use crate::files::Files;
use crate::server::{Handle, Server};
use crate::service::{Catalog, demo};
use crate::telemetry::{Counters, Event};

/// What SIGHUP reads the configuration from, and what it changes beside the server.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) command_line: CommandLine,
    pub(crate) log: LogHandle,
}

/// Serves the network until a signal arrives. SIGHUP reloads the configuration.
pub(crate) fn serve(
    options: Options,
    log: &Log,
    reloader: Reloader,
) -> Result<Counters, Box<dyn Error>> {
    if options.tcp.address.is_none() && options.http.address.is_none() {
        let message =
            "nothing to serve: tcp and http are off; give an address with --tcp or --http";
        return Err(message.into());
    }
    let running = options.clone();
    let reload = move |handle: &Handle| reloader.reload(&running, handle);
    let server = build_server(options)?.count_lost_lines(STANDARD_ERROR, Arc::clone(log.lines()));
    Ok(server.on_reload(reload).serve()?)
}

/// Serves one peer over standard input and output until end of input. With `can_trim` it returns
/// the memory that only its start has needed to the system.
pub(crate) fn stdio(
    options: Options,
    log: &Log,
    can_trim: bool,
) -> Result<Counters, Box<dyn Error>> {
    let server = build_server(options)?.count_lost_lines(STANDARD_ERROR, Arc::clone(log.lines()));
    let server = server.on_start(move |_| {
        if can_trim {
            allocator::trim();
        }
    });
    Ok(server.stdio()?)
}

/// The name of the log in the metrics.
const STANDARD_ERROR: &str = "stderr";

impl Reloader {
    /// Reads the configuration again and applies its limits. Options that are fixed at start, such
    /// as the file directories, stay as `running`; those that have changed are logged. An invalid
    /// configuration changes nothing; files of TLS and authentication that cannot be used stay as
    /// they were, and the rest is applied.
    ///
    /// # Errors
    ///
    /// What is not applied, and why.
    fn reload(&self, running: &Options, handle: &Handle) -> Result<(), String> {
        let effective = config::load(&self.command_line).map_err(|problems| {
            let problems: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            problems.join("; ")
        })?;
        let options = &effective.options;
        self.log.set_options(&options.log);
        log_warnings(&effective);
        handle.reload_limits(options);
        let parts =
            [handle.reload_tls(options), handle.reload_auth(options), handle.reload_rate(options)];
        for row in table::rows().filter(|row| !row.is_reloadable) {
            let [running, configured] = &[running, options].map(|it| row.format_value(it));
            if running != configured {
                Event::OptionNotReloaded { key: row.key, running, configured }.emit();
            }
        }
        let errors: Vec<String> = parts.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(format!("{}; the rest is applied", errors.join("; ")))
    }
}

/// Builds a server of the demo services and of the configured directories.
pub(crate) fn build_server(options: Options) -> Result<Server, Box<dyn Error>> {
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
        DemoServices::Sized { tools, bytes } => builder.tools(demo::sized_tools(tools, bytes)),
    };
    let catalog = builder.build()?;
    let files = Files::from_options(&options.files)?;
    Ok(Server::builder(catalog).options(options).files(files)?)
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
