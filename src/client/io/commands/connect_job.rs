//! Opens connections on a thread that may block.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, PeerId, SHARD};
use crate::client::io::connect::{self, OpenError};
use crate::client::io::process::ProgramCallback;
use crate::client::oauth::OAuthOptions;
use crate::client::proxy::Route;
use crate::client::target::Target;
use crate::engine::blocking::Job;
use crate::engine::mesh::Sender;
use crate::transport::tls::TlsClient;

/// What a connection is for.
pub(in crate::client::io) enum Purpose {
    /// The messages of the server.
    Server { tls: Option<TlsClient>, on_event: Option<ProgramCallback> },
    /// A request of a flow of authorization, by its number.
    Flow { number: u64, oauth: Option<Arc<OAuthOptions>> },
}

/// Opens the streams of one server and reports them.
pub(in crate::client::io) struct ConnectJob {
    pub(in crate::client::io) peer: PeerId,
    pub(in crate::client::io) purpose: Purpose,
    pub(in crate::client::io) target: Arc<Target>,
    pub(in crate::client::io) route: Route,
    pub(in crate::client::io) timeout: Duration,
    pub(in crate::client::io) commands: Sender<Command>,
}

impl ConnectJob {
    /// Returns the report of a connection that is not opened because of `error`.
    pub(in crate::client::io) fn fail(self, error: io::Error) -> Command {
        let opened = Box::new(Err(OpenError::from(error)));
        match self.purpose {
            Purpose::Server { .. } => Command::Opened(self.peer, opened),
            Purpose::Flow { number, .. } => Command::FlowOpened(self.peer, number, opened),
        }
    }
}

impl Job for ConnectJob {
    fn run(self) {
        let Self { peer, target, route, timeout, commands, purpose } = self;
        let command = match purpose {
            Purpose::Server { tls, on_event } => {
                let path = (&*target, &route);
                let opened = connect::open(path, tls.as_ref(), timeout, on_event);
                Command::Opened(peer, Box::new(opened))
            }
            Purpose::Flow { number, oauth } => {
                let tls = oauth.and_then(|oauth| oauth.tls_client(&target).transpose()).transpose();
                let tls = tls.map_err(|error| OpenError::from(io::Error::other(error)));
                let opened = tls
                    .and_then(|tls| connect::open((&target, &route), tls.as_ref(), timeout, None));
                Command::FlowOpened(peer, number, Box::new(opened))
            }
        };
        // Fails once the thread has ended.
        drop(commands.send_while(SHARD, command, || true));
    }
}
