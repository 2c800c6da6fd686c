//! The declarations of a running server: at its start, and read again.

use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::declared::context::Shared;
use crate::declared::fault::Fault;
use crate::declared::io_thread::IoThread;
use crate::declared::load::{Loaded, Sources};
use crate::declared::offered::{ChangeCounts, Offered};
use crate::declared::watch::{DeclarationWatch, FileState};
use crate::files::watcher::FileWatch;
use crate::server::{Handle, Options, Server};
use crate::service::Features;
use crate::telemetry::Event;

#[expect(clippy::disallowed_types, reason = "locked by a reload, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// Declarations that a server offers.
#[derive(Debug, Default)]
pub struct Declared {
    sources: Sources,
    shared: Shared,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    offered: Offered,
    /// The options of the program, without the rate limits of declarations.
    options: Options,
}

/// Every fault of the declarations. Never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeclarationErrors(pub Vec<Fault>);

/// One fault per line.
impl fmt::Display for DeclarationErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(formatter, "{newline}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DeclarationErrors {}

impl Declared {
    /// Declarations of `sources`, which are not read yet.
    pub fn new(sources: Sources) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Whether there is a file or folder that may declare something, now or after a change.
    pub const fn has_sources(&self) -> bool {
        self.sources.file.is_some() || self.sources.tools.is_some() || self.sources.skills.is_some()
    }

    /// Reads the declarations, without their use.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn load(&self) -> Result<Loaded, DeclarationErrors> {
        self.try_load().map_err(|loaded| DeclarationErrors(loaded.faults))
    }

    /// [`Declared::load`]; the error has the paths, too.
    fn try_load(&self) -> Result<Loaded, Box<Loaded>> {
        let mut loaded = self.sources.load(&self.shared);
        loaded.faults.sort();
        if loaded.faults.is_empty() { Ok(loaded) } else { Err(Box::new(loaded)) }
    }

    /// Returns `options` with what the declarations add: their rate limits, and with a file of
    /// audited calls the names of their tools.
    pub fn with_rules(&self, options: &Options, loaded: &Loaded) -> Options {
        self.shared.services.room().resize(options.limits.memory_bytes_max / 8);
        let mut with_rules = options.clone();
        with_rules.rate.rules.extend(loaded.rate_rules().map(ToOwned::to_owned));
        if options.auth.is_enabled() && options.auth.audit_file.is_some() {
            with_rules.auth.audit.extend(loaded.runners().into_keys());
        }
        self.lock().options = options.clone();
        with_rules
    }

    /// Adds what is `loaded` to the catalog of `server`, and follows changes of the files while it
    /// runs. Without a tokio runtime of the program ([`Server::tokio`]) the tools wait for their
    /// programs on a thread of their own.
    ///
    /// # Errors
    ///
    /// A declaration is invalid, has the name of a tool of the program, or there is no thread.
    pub fn add_to(
        self: &Arc<Self>,
        server: Server,
        mut loaded: Loaded,
    ) -> Result<Server, DeclarationErrors> {
        for warning in &loaded.warnings {
            Event::FileWarning { warning: &warning.to_string() }.emit();
        }
        let state = FileState::of(&loaded);
        self.shared.tools.set(loaded.runners());
        let result = server.try_map_catalog(|catalog| {
            let (offered, catalog) = Offered::first(loaded.take_entries(), catalog)?;
            self.lock().offered = offered;
            if self.sources.skills.is_none() {
                return Ok(catalog);
            }
            // The first skill may come while the server runs.
            let features = Features::SKILLS.with(Features::RESOURCES);
            catalog.to_builder().enable_features(features).build()
        });
        let server = result.map_err(|error| DeclarationErrors(vec![loaded.fault_of(&error)]))?;
        let server = server.count_results(self.shared.services.room().held());
        let declared = Arc::clone(self);
        let server = server.on_start(move |handle| declared.watch(handle, state));
        if let Some(runtime) = server.tokio_handle() {
            self.shared.services.set_runtime(runtime);
            return Ok(server);
        }
        let thread = IoThread::start().map_err(|error| {
            let message = format!("the thread of declared tools cannot start: {error}");
            DeclarationErrors(vec![Fault::of_file("", message, "raise the limit of threads")])
        })?;
        let runtime = thread.handle().clone();
        self.shared.services.set_runtime(&runtime);
        Ok(server.tokio(runtime).on_start(move |_| thread))
    }

    /// Changes the catalog of a running server to what is `loaded`: at once, or not at all. Calls
    /// in flight end with the definition that they began with.
    ///
    /// # Errors
    ///
    /// As for [`Declared::add_to`]; nothing changes then.
    pub fn publish(
        &self,
        handle: &Handle,
        mut loaded: Loaded,
    ) -> Result<ChangeCounts, DeclarationErrors> {
        let runners = loaded.runners();
        let mut state = self.lock();
        let mut update = state.offered.update(loaded.take_entries());
        let counts = update.counts;
        let replaced_resources = std::mem::take(&mut update.replaced_resources);
        let ChangeCounts { added, replaced, removed } = counts;
        if counts == ChangeCounts::default() {
            return Ok(counts);
        }
        let (next, edit) = update.into_parts();
        let result = handle.update_catalog(edit);
        result.map_err(|error| DeclarationErrors(vec![loaded.fault_of(&error)]))?;
        state.offered = next;
        self.shared.tools.set(runners);
        for uri in replaced_resources {
            handle.notify_resource_updated(&uri);
        }
        Event::DeclarationsChanged { added, replaced, removed }.emit();
        Ok(counts)
    }

    /// Follows changes of the files; without a thread a warning is logged.
    fn watch(self: &Arc<Self>, handle: Handle, state: FileState) -> Option<FileWatch> {
        let declared = Arc::clone(self);
        let reload = move || declared.reload(&handle);
        FileWatch::start(DeclarationWatch::new(state, Box::new(reload)))
            .inspect_err(|error| {
                let warning = format!("cannot watch declarations ({error}); reduce threads");
                Event::FileWarning { warning: &warning }.emit();
            })
            .ok()
    }

    /// Reads the declarations again and publishes them. Faults are logged, and nothing changes.
    fn reload(&self, handle: &Handle) -> FileState {
        let loaded = match self.try_load() {
            Ok(loaded) => loaded,
            Err(loaded) => {
                log(&loaded.faults);
                return FileState::of(&loaded);
            }
        };
        log(&loaded.warnings);
        let state = FileState::of(&loaded);
        let options = self.lock().options.clone();
        let with_rules = self.with_rules(&options, &loaded);
        let reloaded = handle.reload_rate(&with_rules);
        let is_audit_unchanged = with_rules.auth.audit == options.auth.audit;
        let audit = if is_audit_unchanged { Ok(()) } else { handle.reload_auth(&with_rules) };
        for error in [reloaded, audit].into_iter().filter_map(Result::err) {
            Event::FileWarning { warning: &error }.emit();
        }
        if let Err(errors) = self.publish(handle, loaded) {
            log(&errors.0);
        }
        state
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(faults: &[Fault]) {
    for fault in faults {
        Event::FileWarning { warning: &fault.to_string() }.emit();
    }
}
