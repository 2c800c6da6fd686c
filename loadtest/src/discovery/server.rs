//! The client that finds out what the server is.

use std::io::Write;
use std::net::TcpStream;
use std::process::ExitStatus;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};
use std::thread;

use corelane_client::Client;
use corelane_client::{
    ClientBuilder, ClientError, EraPreference, ProgramEvent, ServerInfo, ToolInfo, block_on,
};

use super::request_error::RequestError;
use crate::children::{EXIT_TIMEOUT, StderrMode, StderrTail};
use crate::generator::RunConfig;
use crate::target::{Era, Target};

#[expect(
    clippy::disallowed_types,
    reason = "held for one event, which threads of the client report"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// The server, with a connection of its own.
#[derive(Debug)]
pub(super) struct Server<'a> {
    client: Client,
    config: &'a RunConfig,
    exit: Arc<Mutex<ProgramExit>>,
}

/// How the program of a stdio target has ended.
#[derive(Debug, Default)]
struct ProgramExit {
    stderr: StderrTail,
    status: Option<ExitStatus>,
}

impl<'a> Server<'a> {
    /// Creates a client that connects with its first request, for this protocol version if there
    /// is one.
    pub(super) fn new(
        target: &Target,
        config: &'a RunConfig,
        era: Option<Era>,
    ) -> Result<Self, RequestError> {
        let exit = Arc::<Mutex<ProgramExit>>::default();
        let builder = configure(target, config, era, &exit);
        let client = builder.connect_lazy().map_err(|error| RequestError::new(&error, config))?;
        Ok(Self { client, config, exit })
    }

    /// Completes the handshake; returns what the server declared.
    pub(super) fn info(&self) -> Result<Arc<ServerInfo>, RequestError> {
        block_on(self.client.server()).map_err(|error| self.describe(&error))
    }

    /// Reads all pages of `tools/list`.
    pub(super) fn tools(&self) -> Result<Vec<ToolInfo>, RequestError> {
        block_on(self.client.list_tools()).map_err(|error| self.describe(&error))
    }

    fn describe(&self, error: &ClientError) -> RequestError {
        RequestError::new(error, self.config)
    }

    /// Ends the session and the connection. Returns how a program has ended.
    pub(super) fn close(self) -> Option<String> {
        let (closed_tx, closed_rx) = sync_channel(1);
        let client = self.client;
        let close = move || {
            block_on(client.close());
            closed_tx.send(()).unwrap_or(());
        };
        // A process that the program has left behind may hold its pipes open.
        if thread::Builder::new().name("discovery-close".into()).spawn(close).is_ok() {
            closed_rx.recv_timeout(EXIT_TIMEOUT * 3).unwrap_or(());
        }
        let exit = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        let status = exit.status?;
        Some(match exit.stderr.last_lines() {
            Some(lines) => format!("the program ended ({status}): {lines}"),
            None => format!("the program ended ({status})"),
        })
    }
}

fn configure(
    target: &Target,
    config: &RunConfig,
    era: Option<Era>,
    exit: &Arc<Mutex<ProgramExit>>,
) -> ClientBuilder {
    let limits = &config.limits;
    let program = config.endpoint.program();
    let timeout = match program {
        None => limits.response_timeout.min(limits.connect_timeout),
        // A program that was just started may take longer.
        Some(_) => limits.response_timeout.max(limits.connect_timeout),
    };
    let era = match era {
        None => EraPreference::Auto,
        Some(Era::Modern) => EraPreference::Modern,
        Some(era) => EraPreference::Legacy(era.revision()),
    };
    let mut builder = config
        .request_settings
        .client_builder(target, config.tls.as_ref(), limits.connect_timeout)
        .era(era)
        .request_timeout(timeout);
    if let Some(program) = program {
        let (exit, mode) = (Arc::clone(exit), program.stderr);
        builder = builder.on_program_event(move |event| {
            let mut exit = exit.lock().unwrap_or_else(PoisonError::into_inner);
            match (event, mode) {
                (ProgramEvent::Stderr(line), StderrMode::Capture) => {
                    exit.stderr.add(line.as_bytes());
                    exit.stderr.add(b"\n");
                }
                (ProgramEvent::Stderr(line), StderrMode::Inherit) => {
                    // Without a standard error the lines are lost.
                    writeln!(std::io::stderr(), "{line}").unwrap_or(());
                }
                (ProgramEvent::Exited(status), _) => exit.status = Some(status),
                _ => {}
            }
        });
    }
    builder
}

/// Checks that one of the addresses accepts a connection.
pub(super) fn check_address(config: &RunConfig) -> Result<(), std::io::Error> {
    let mut addresses = config.endpoint.addresses().iter();
    let Some(first) = addresses.next() else { return Ok(()) };
    let connect = |address| TcpStream::connect_timeout(address, config.limits.connect_timeout);
    let first = connect(first).map(drop);
    addresses.fold(first, |found, address| found.or_else(|_| connect(address).map(drop)))
}
