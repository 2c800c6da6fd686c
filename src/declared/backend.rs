//! What does the work of a declaration, with the limits around it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure, Output};
use crate::declared::command::Command;
use crate::declared::file::FileReader;
use crate::declared::fill::fill;
use crate::declared::http::HttpTool;
use crate::declared::limits::CallLimits;
use crate::declared::room::{CallRoom, NO_ROOM, OutputRoom};
use crate::declared::secrets::Secrets;
use crate::declared::services::Services;
use crate::declared::sql::{ExploreTool, SqlTool};
use crate::declared::template::Template;

/// What does the work.
pub enum Backend {
    /// A program.
    Command(Box<Command>),
    /// A request to an HTTP server.
    Http(Box<HttpTool>),
    /// A statement of a database.
    Sql(SqlTool),
    /// Statements and tables of a database that a model chooses.
    Explore(ExploreTool),
    /// A file.
    File(FileReader),
    /// A text with placeholders.
    Text(Template),
}

impl Backend {
    /// The schema of the structured results, if the backend knows it.
    pub fn output_schema(&self) -> Option<Value> {
        match self {
            Self::Sql(tool) => Some(tool.output_schema().clone()),
            Self::Explore(tool) => Some(tool.output_schema()),
            Self::Command(_) | Self::Http(_) | Self::File(_) | Self::Text(_) => None,
        }
    }

    /// Whether it waits for files alone, on a thread that may wait.
    const fn is_blocking(&self) -> bool {
        match self {
            Self::Sql(tool) => matches!(tool, SqlTool::Sqlite(_)),
            Self::Explore(tool) => tool.as_sqlite().is_some(),
            _ => false,
        }
    }

    /// What kind of declaration the backend is of.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Http(_) => "http",
            Self::Sql(_) | Self::Explore(_) => "sql",
            Self::File(_) => "file",
            Self::Text(_) => "text",
        }
    }

    async fn call(
        &self,
        arguments: &Arguments,
        call: Call,
        room: &CallRoom<'_>,
    ) -> Result<Output, Failure> {
        match self {
            Self::Command(command) => command.call(arguments, call, room).await,
            Self::Http(tool) => tool.call(call, room).await,
            Self::Sql(tool) => tool.call(call).await,
            Self::Explore(tool) => tool.call(call).await,
            Self::File(file) => file.call(call, room).await,
            Self::Text(template) => Ok(Output::Text(fill(template, &call))),
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The parts of a request and a command may have secrets.
        formatter.write_str(match self {
            Self::Command(_) => "Command",
            Self::Http(_) => "Http",
            Self::Sql(_) => "Sql",
            Self::Explore(_) => "Explore",
            Self::File(_) => "File",
            Self::Text(_) => "Text",
        })
    }
}

/// A backend with the limits of its declaration.
#[derive(Debug)]
pub struct Runner {
    name: Box<str>,
    backend: Backend,
    arguments: Arguments,
    limits: CallLimits,
    calls: Option<CallSlots>,
    secrets: Arc<Secrets>,
    room: Arc<OutputRoom>,
}

impl Runner {
    /// A backend of the declaration `name`, of which at most `calls_max` calls run at once.
    pub fn new(
        name: &str,
        backend: Backend,
        arguments: Arguments,
        limits: CallLimits,
        calls_max: Option<u32>,
        secrets: Arc<Secrets>,
        services: &Services,
    ) -> Self {
        let calls = calls_max.map(|calls| CallSlots::new(calls as usize));
        let room = Arc::clone(services.room());
        Self { name: name.into(), backend, arguments, limits, calls, secrets, room }
    }

    /// Name of the declaration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls the backend within the limits.
    ///
    /// # Errors
    ///
    /// The backend fails or reaches a limit. The text has no secret of the declaration.
    pub async fn call(&self, mut call: Call) -> Result<Output, Failure> {
        self.arguments.add_defaults(&mut call.arguments);
        let has_started = AtomicBool::new(false);
        let room = CallRoom::new(&self.room, self.limits.output_bytes_max);
        let work = async {
            let _slot = match &self.calls {
                Some(calls) => Some(calls.take().await),
                None => None,
            };
            has_started.store(true, Ordering::Relaxed);
            self.backend.call(&self.arguments, call, &room).await
        };
        let result = timeout(self.limits.timeout, work).await.unwrap_or_else(|_| {
            Err(match &self.calls {
                _ if room.is_waiting() => Failure::failed(NO_ROOM),
                Some(calls) if !has_started.load(Ordering::Relaxed) => calls.busy(),
                _ => self.timed_out(),
            })
        });
        result.map_err(|failure| self.redact(failure))
    }

    /// Whether calls wait for nothing, by [`Runner::call_immediately`].
    pub const fn is_immediate(&self) -> bool {
        self.calls.is_none() && matches!(self.backend, Backend::Text(_))
    }

    /// The text of a call that waits for nothing; `None` if calls of this backend wait.
    pub fn call_immediately(&self, mut call: Call) -> Option<String> {
        let Backend::Text(template) = &self.backend else { return None };
        self.arguments.add_defaults(&mut call.arguments);
        Some(fill(template, &call))
    }

    /// [`Runner::call`] for a caller on a shard: what waits runs on the runtime of `services`.
    ///
    /// # Errors
    ///
    /// As for [`Runner::call`]; or there is no runtime.
    pub async fn call_from_shard(
        self: &Arc<Self>,
        call: Call,
        services: &Services,
    ) -> Result<Output, Failure> {
        if self.is_immediate() {
            return Ok(Output::Text(self.call_immediately(call).unwrap_or_default()));
        }
        let runner = Arc::clone(self);
        services.run(async move { runner.call(call).await }).await
    }

    /// Whether calls run on a thread that may wait, by [`Runner::call_blocking`].
    pub const fn is_blocking(&self) -> bool {
        // Calls beyond a limit wait without a thread.
        self.calls.is_none() && self.backend.is_blocking()
    }

    /// [`Runner::call`] on this thread, which waits.
    ///
    /// # Errors
    ///
    /// As for [`Runner::call`]; or the backend does not run on such a thread.
    pub fn call_blocking(
        &self,
        mut call: Call,
        is_cancelled: impl Fn() -> bool + Send + 'static,
    ) -> Result<Output, Failure> {
        self.arguments.add_defaults(&mut call.arguments);
        let result = match &self.backend {
            Backend::Sql(SqlTool::Sqlite(tool)) => tool.call_blocking(&call, is_cancelled),
            Backend::Explore(tool) => match tool.as_sqlite() {
                Some(tool) => tool.call_blocking(&call, is_cancelled),
                None => Err(Failure::failed("the database is no file")),
            },
            _ => Err(Failure::failed("the call needs a runtime")),
        };
        result.map_err(|failure| self.redact(failure))
    }

    fn timed_out(&self) -> Failure {
        let (name, ms) = (&self.name, self.limits.timeout.as_millis());
        Failure::failed(format_args!(
            "{name} did not end within {ms} ms and was ended (limits.timeout)"
        ))
    }

    fn redact(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Failed(text) => Failure::Failed(self.secrets.redact(text)),
            Failure::InvalidArgument(text) => Failure::InvalidArgument(self.secrets.redact(text)),
        }
    }
}

/// The calls that may run at once, over all shards.
#[derive(Debug)]
struct CallSlots {
    free: Semaphore,
    count: usize,
}

impl CallSlots {
    fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count.min(Semaphore::MAX_PERMITS)), count }
    }

    /// Waits for a place, in the order of arrival.
    async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.free.acquire().await.ok()
    }

    /// The failure of a call that has waited for its whole time.
    fn busy(&self) -> Failure {
        Failure::failed(format_args!(
            "{} calls of this tool are running already (limits.calls); call it again later",
            self.count
        ))
    }
}
