//! Opens connections on a thread that may block.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, PeerId, SHARD};
use crate::io::connect::{self, OpenError, OpenStreams, Path};
use crate::io::peer_handle::PeerHandle;
use crate::io::process::ProgramCallback;
use crate::oauth::OAuthOptions;
use crate::proxy::Route;
use crate::target::{HostAddress, Target};
use corelane_engine::blocking::Job;
use corelane_engine::mesh::Sender;
use corelane_tls::TlsClient;

/// What a connection is for.
pub enum Purpose {
    /// The messages of the server.
    Server { tls: Option<TlsClient>, on_event: Option<ProgramCallback> },
    /// A request of a flow of authorization, by its number.
    Flow { number: u64, oauth: Option<Arc<OAuthOptions>> },
}

/// Opens the streams of one server and reports them.
pub struct ConnectJob {
    pub peer: PeerId,
    pub purpose: Purpose,
    pub target: Arc<Target>,
    /// Connected to instead of the address of the target.
    pub address: Option<Arc<HostAddress>>,
    pub route: Route,
    pub timeout: Duration,
    pub commands: Sender<Command>,
}

impl ConnectJob {
    /// Creates the job for a server, or for the target of a request of a flow.
    pub fn new(
        peer: PeerId,
        handle: &PeerHandle,
        flow_target: Option<(u64, Arc<Target>)>,
        commands: Sender<Command>,
    ) -> Self {
        let PeerHandle { target, tls, connect, oauth, on_event, .. } = handle;
        let (purpose, target) = if let Some((number, target)) = flow_target {
            (Purpose::Flow { number, oauth: oauth.clone() }, target)
        } else {
            let (tls, on_event) = (tls.as_deref().cloned(), on_event.clone());
            (Purpose::Server { tls, on_event }, Arc::clone(target))
        };
        let is_flow = matches!(purpose, Purpose::Flow { .. });
        let address = connect.address.clone().filter(|_| !is_flow);
        let route = connect.proxies.route(&target);
        // The requests of a flow do not name the proxy.
        let route = if is_flow { route.tunnelled() } else { route };
        Self { peer, purpose, target, address, route, timeout: connect.timeout, commands }
    }

    /// Returns the report of a connection that is not opened because of `error`.
    pub fn fail(self, error: io::Error) -> Command {
        self.report(Err(OpenError::from(error)))
    }

    /// Returns the report of the streams that were opened.
    pub(super) fn report(self, opened: Result<OpenStreams, OpenError>) -> Command {
        let opened = Box::new(opened);
        match self.purpose {
            Purpose::Server { .. } => Command::Opened(self.peer, opened),
            Purpose::Flow { number, .. } => Command::FlowOpened(self.peer, number, opened),
        }
    }
}

impl Job for ConnectJob {
    fn run(self) {
        let Self { peer, target, address, route, timeout, commands, purpose } = self;
        let path = Path { target: &target, address: address.as_deref(), route: &route };
        let command = match purpose {
            Purpose::Server { tls, on_event } => {
                let opened = connect::open(path, tls.as_ref(), timeout, on_event);
                Command::Opened(peer, Box::new(opened))
            }
            Purpose::Flow { number, oauth } => {
                let tls = oauth.and_then(|oauth| oauth.tls_client(&target).transpose()).transpose();
                let tls = tls.map_err(|error| OpenError::from(io::Error::other(error)));
                let opened = tls.and_then(|tls| connect::open(path, tls.as_ref(), timeout, None));
                Command::FlowOpened(peer, number, Box::new(opened))
            }
        };
        // Fails once the thread has ended.
        drop(commands.send_while(SHARD, command, || true));
    }
}
