//! `serve` and `stdio`: start a server of files and demo services from options.
//!
//! `serve` writes nothing to standard output; `stdio` writes only MCP there.

use std::error::Error;
use std::sync::Arc;

use corelane_engine::buffer::allocator;
use corelane_protocol::model::Implementation;

use crate::cli::log_warnings;
use crate::cli::logging::{Log, LogHandle};
#[cfg(feature = "declared")]
use crate::cli::print_diagnostic;
use crate::config::options::{DemoServices, GatewayOptions, ServiceOptions};
use crate::config::{self, CommandLine, Options, table};
#[cfg(feature = "declared")]
use crate::declared::{DeclarationErrors, Declared, Loaded};
use crate::files::Files;
#[cfg(feature = "gateway")]
use crate::gateway::{Gateway, UpstreamSettings, find_faults};
use crate::server::{Handle, Server};
use crate::service::{Catalog, demo};
use crate::telemetry::{Counters, Event};

/// What SIGHUP reads the configuration from, and what it changes beside the server.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) command_line: CommandLine,
    pub(crate) log: LogHandle,
    #[cfg(feature = "declared")]
    pub(crate) declared: Arc<Declared>,
}

/// What the configuration file declares: read, and kept for reloads.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    #[cfg(feature = "declared")]
    pub(crate) declared: Arc<Declared>,
    #[cfg(feature = "declared")]
    pub(crate) loaded: Loaded,
    /// Other servers behind this one.
    #[cfg(feature = "gateway")]
    pub(crate) upstreams: Vec<UpstreamSettings>,
}

/// Serves the network until a signal arrives. SIGHUP reloads the configuration.
pub(crate) fn serve(
    options: &Options,
    declarations: Declarations,
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
    let server = build_server(options, declarations)?;
    let server = server.count_lost_lines(STANDARD_ERROR, Arc::clone(log.lines()));
    Ok(server.on_reload(reload).serve()?)
}

/// Serves one peer over standard input and output until end of input. With `can_trim` it returns
/// the memory that only its start has needed to the system.
pub(crate) fn stdio(
    options: &Options,
    declarations: Declarations,
    log: &Log,
    can_trim: bool,
) -> Result<Counters, Box<dyn Error>> {
    let server = build_server(options, declarations)?;
    let server = server.count_lost_lines(STANDARD_ERROR, Arc::clone(log.lines()));
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
        let declarations = self.load_declarations()?;
        let options = &declarations.add_rules(&effective.options);
        self.log.set_options(&options.log);
        log_warnings(&effective);
        handle.reload_limits(options);
        let parts = [
            handle.reload_tls(options),
            handle.reload_auth(options),
            handle.reload_rate(options),
            handle.reload_state_keys(options),
            self.publish(handle, declarations),
        ];
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

    #[cfg(feature = "declared")]
    fn load_declarations(&self) -> Result<Declarations, String> {
        let loaded = self.declared.load().map_err(|errors| errors.to_string())?;
        Ok(Declarations { declared: Arc::clone(&self.declared), loaded, ..Default::default() })
    }

    #[cfg(feature = "declared")]
    fn publish(&self, handle: &Handle, declarations: Declarations) -> Result<(), String> {
        let changed = self.declared.publish(handle, declarations.loaded);
        changed.map(drop).map_err(|errors| errors.to_string())
    }

    #[cfg(not(feature = "declared"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with declarations")]
    fn load_declarations(&self) -> Result<Declarations, String> {
        Ok(Declarations::default())
    }

    #[cfg(not(feature = "declared"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with declarations")]
    fn publish(&self, _: &Handle, _: Declarations) -> Result<(), String> {
        Ok(())
    }
}

/// Builds a server of the demo services, of the declarations and of the configured directories.
pub(crate) fn build_server(
    options: &Options,
    declarations: Declarations,
) -> Result<Server, Box<dyn Error>> {
    let options = declarations.add_rules(options);
    if declarations.is_empty() {
        warn_if_empty(&options);
    }
    let service = &options.service;
    let page_length_max = usize::try_from(service.page_size)?;
    let builder = Catalog::builder(server_info(service)).page_size(page_length_max);
    let builder = match &service.instructions {
        Some(instructions) => builder.instructions(instructions.as_str()),
        None => builder,
    };
    let has_declarations = !declarations.is_empty();
    let builder = match options.demo_services() {
        DemoServices::Off => builder,
        // Declared tools are offered alone.
        _ if has_declarations && options.service.demo == DemoServices::Auto => builder,
        DemoServices::Conformance => demo::add_services(builder),
        DemoServices::Auto | DemoServices::Basic => builder.tools(demo::tools()),
        DemoServices::Sized { tools, bytes } => builder.tools(demo::sized_tools(tools, bytes)),
    };
    let catalog = builder.build()?;
    let files = Files::from_options(&options.files)?;
    let gateway = options.gateway.clone();
    declarations.add_to(Server::builder(catalog).options(options).files(files)?, &gateway)
}

/// What a check does not start.
impl Declarations {
    /// The rest of the declarations, and what is wrong with the upstreams together.
    #[cfg(feature = "gateway")]
    pub(crate) fn without_upstreams(mut self) -> (Self, Option<String>) {
        let error = find_faults(&std::mem::take(&mut self.upstreams));
        (self, error)
    }

    /// The declarations, which have no upstreams.
    #[cfg(not(feature = "gateway"))]
    pub(crate) const fn without_upstreams(self) -> (Self, Option<String>) {
        (self, None)
    }
}

#[cfg(feature = "declared")]
impl Declarations {
    #[cfg(feature = "gateway")]
    fn is_empty(&self) -> bool {
        self.loaded.is_empty() && self.upstreams.is_empty()
    }

    #[cfg(not(feature = "gateway"))]
    fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    /// Name and description of each declared tool.
    pub(crate) fn describe_tools(&self) -> Vec<(String, Option<String>)> {
        self.loaded.describe_tools()
    }

    /// Prints why parts of the directories are not offered.
    pub(crate) fn print_warnings(&self) {
        for warning in &self.loaded.warnings {
            print_diagnostic("warning", warning);
        }
    }

    /// Adds the rate limits and audited tools of the declarations to those of the options.
    fn add_rules(&self, options: &Options) -> Options {
        self.declared.with_rules(options, &self.loaded)
    }

    /// What is not offered, and why.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.loaded.warnings.iter().map(ToString::to_string)
    }

    #[cfg_attr(not(feature = "gateway"), expect(unused_variables, reason = "as with upstreams"))]
    fn add_to(self, server: Server, options: &GatewayOptions) -> Result<Server, Box<dyn Error>> {
        let Self { declared, loaded, .. } = self;
        let server = if declared.has_sources() { declared.add_to(server, loaded)? } else { server };
        #[cfg(feature = "gateway")]
        if !self.upstreams.is_empty() {
            let gateway = Gateway::new(self.upstreams, options)?;
            return Arc::new(gateway).add_to(server);
        }
        Ok(server)
    }
}

#[cfg(not(feature = "declared"))]
impl Declarations {
    #[expect(clippy::unused_self, reason = "as with declarations")]
    pub(crate) const fn print_warnings(&self) {}

    #[expect(clippy::unused_self, reason = "as with declarations")]
    pub(crate) const fn describe_tools(&self) -> Vec<(String, Option<String>)> {
        Vec::new()
    }

    #[expect(clippy::unused_self, reason = "as with declarations")]
    const fn is_empty(&self) -> bool {
        true
    }

    #[expect(clippy::unused_self, reason = "as with declarations")]
    fn add_rules(&self, options: &Options) -> Options {
        options.clone()
    }

    #[expect(clippy::unused_self, reason = "as with declarations")]
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        std::iter::empty()
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with declarations")]
    fn add_to(self, server: Server, _: &GatewayOptions) -> Result<Server, Box<dyn Error>> {
        Ok(server)
    }
}

/// The faults of declarations, one on a line, if `error` is that of them.
#[cfg(feature = "declared")]
pub(crate) fn declaration_faults(error: &(dyn Error + 'static)) -> Option<String> {
    error.downcast_ref::<DeclarationErrors>().map(ToString::to_string)
}

/// Without declarations there is no error of them.
#[cfg(not(feature = "declared"))]
pub(crate) const fn declaration_faults(_: &(dyn Error + 'static)) -> Option<String> {
    None
}

/// Returns what clients see of the server. Title and description of Corelane go with its name.
pub(crate) fn server_info(service: &ServiceOptions) -> Implementation {
    let version = service.version.as_deref().unwrap_or(clap::crate_version!());
    let info = match &service.name {
        Some(name) => Implementation::new(name.as_str(), version),
        None => Implementation {
            title: Some("Corelane".to_owned()),
            description: Some(clap::crate_description!().to_owned()),
            ..Implementation::new("corelane", version)
        },
    };
    Implementation {
        title: service.title.clone().or(info.title),
        description: service.description.clone().or(info.description),
        ..info
    }
}

/// Warns if the server has nothing to offer, which is rarely intended.
fn warn_if_empty(options: &Options) {
    let files = &options.files;
    let directories = [&files.resources, &files.prompts, &files.tools, &files.skills];
    let has_files = directories.into_iter().any(Option::is_some);
    if options.demo_services() == DemoServices::Off && !has_files {
        let warning = "the server offers nothing, every list is empty: demo is off and no \
                       directory is set; give one with --resources, --prompts, --tools or --skills";
        Event::OptionWarning { warning }.emit();
    }
}
