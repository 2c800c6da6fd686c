//! What all declarations share: the process that starts commands.

use std::io;
use std::sync::{Arc, OnceLock};

use corelane_process::{Supervisor, SupervisorCommand};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::declared::call::{Failure, Output};
use crate::declared::room::OutputRoom;

/// Shared by all tools of a server, over reloads.
#[derive(Debug, Default)]
pub struct Services {
    supervisor: OnceLock<Supervisor>,
    runtime: OnceLock<Handle>,
    room: Arc<OutputRoom>,
}

impl Services {
    /// Services that start nothing until something is declared that needs it.
    pub fn new() -> Self {
        Self::default()
    }

    /// The process that starts commands; it is started with the first declaration of one.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn supervisor(&self) -> io::Result<Supervisor> {
        if let Some(supervisor) = self.supervisor.get() {
            return Ok(supervisor.clone());
        }
        let supervisor =
            Supervisor::start(SupervisorCommand::this_program([SupervisorCommand::ARGUMENT]))?;
        Ok(self.supervisor.get_or_init(|| supervisor).clone())
    }

    /// The room for what running calls have read.
    pub const fn room(&self) -> &Arc<OutputRoom> {
        &self.room
    }

    /// Sets the runtime on which resources and prompts wait for their programs.
    pub fn set_runtime(&self, runtime: &Handle) {
        // A second server of the same declarations uses the first runtime.
        drop(self.runtime.set(runtime.clone()));
    }

    /// The runtime, once the server has one.
    pub fn runtime(&self) -> Option<&Handle> {
        self.runtime.get()
    }

    /// Runs a call on the runtime. Dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// The call fails, or there is no runtime.
    pub async fn run(
        &self,
        call: impl Future<Output = Result<Output, Failure>> + Send + 'static,
    ) -> Result<Output, Failure> {
        let Some(runtime) = self.runtime() else {
            return Err(Failure::failed("the server has no thread for this call"));
        };
        let running = runtime.spawn(call);
        let _abort = AbortOnDrop(running.abort_handle());
        running.await.unwrap_or_else(|_| Err(Failure::failed("the call was ended")))
    }
}

/// Ends a call whose caller is gone.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
