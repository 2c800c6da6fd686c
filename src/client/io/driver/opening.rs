//! The connections of servers: opened, and registered with the ring.

use std::sync::Arc;

use super::IoDriver;
use crate::base::time::Instant;
use crate::client::io::commands::PeerId;
use crate::client::io::commands::connect_job::ConnectJob;
use crate::client::io::connect::{OpenError, OpenStreams, RegisteredStreams};
use crate::client::io::link::PeerAction;
use crate::client::io::stream::TlsRing;
use crate::client::target::Target;
use crate::engine::ring::{Operation, Ring};

impl IoDriver {
    /// Opens the streams of a server, or of the target for a request of a flow.
    pub(super) fn open_streams<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        flow_target: Option<(u64, Arc<Target>)>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get(&id) else { return };
        let job = ConnectJob::new(id, peer.handle(), flow_target, self.sender.clone());
        if let Some(report) = self.connector.open(ring, job, now) {
            self.handle_command(ring, report, now);
        }
    }

    /// Handles the end of an attempt to connect for a request of a flow.
    pub(super) fn handle_flow_opened<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        number: u64,
        opened: Result<OpenStreams, OpenError>,
        now: Instant,
    ) {
        let mut used = None;
        let opened = self.register(ring, opened).map(|streams| streams.sockets[0]);
        let socket = opened.as_ref().ok().copied();
        self.with_peer(ring, id, now, |peer, ring, _| {
            match (opened, peer.flow()) {
                (Ok(socket), Some(flow)) => {
                    let is_used = flow.handle_connected(ring, number, socket);
                    used = is_used.then_some(socket);
                }
                (Err(error), Some(flow)) => flow.handle_connect_failure(number, error, now),
                (_, None) => {}
            }
            PeerAction::None
        });
        match (used, socket) {
            (Some(socket), _) => {
                self.set_peer(socket, id);
                self.pass_early(ring, socket, now);
            }
            (None, Some(socket)) => {
                TlsRing::new(ring, &mut self.tls).submit(Operation::Close(socket));
            }
            (None, None) => {}
        }
    }

    /// Registers the streams of a connection, and its TLS.
    fn register<R: Ring>(
        &mut self,
        ring: &mut R,
        opened: Result<OpenStreams, OpenError>,
    ) -> Result<RegisteredStreams, OpenError> {
        let mut streams = opened?.register(ring)?;
        streams.sockets.into_iter().for_each(|socket| self.tls.begin_sends(socket));
        if let Some(tls) = streams.tls.take() {
            self.tls.insert(streams.sockets[0], tls);
        }
        Ok(streams)
    }

    /// Handles the end of an attempt to connect.
    pub(super) fn handle_opened<R: Ring>(
        &mut self,
        ring: &mut R,
        id: PeerId,
        opened: Result<OpenStreams, OpenError>,
        now: Instant,
    ) {
        if !self.peers.contains_key(&id) {
            return opened.into_iter().for_each(|streams| streams.close(ring));
        }
        let opened = self.register(ring, opened);
        let mut sockets = None;
        self.with_peer(ring, id, now, |peer, ring, workspace| {
            sockets = peer.handle_opened(opened, ring, workspace, now);
            PeerAction::None
        });
        let Some(sockets) = sockets else { return };
        for socket in sockets {
            self.set_peer(socket, id);
        }
        self.pass_early(ring, sockets[0], now);
    }
}
