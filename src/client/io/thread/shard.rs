//! The driver of clients on a shard of a server.

use super::{IoThread, RING_OPTIONS, Shared, current};
use crate::io::commands::{Command, Connector, own_commands};
use crate::io::driver::IoDriver;
use corelane_engine::driver_pair::{AttachedDriver, DriverFactory};
use corelane_engine::mesh::{MeshOptions, build_mesh};
use corelane_engine::ring::Waker;

/// Has each shard of a server drive clients.
#[derive(Debug)]
pub struct ShardIo;

/// Commands of other threads that may wait; those of the shard itself do not count.
const COMMANDS_MAX: u32 = 1_024;

impl DriverFactory for ShardIo {
    fn create(&self, waker: Waker) -> Box<dyn AttachedDriver> {
        let options = MeshOptions { inbox_messages_max: COMMANDS_MAX, ..MeshOptions::default() };
        let (mut endpoints, commands) = build_mesh(1, &options);
        let endpoint = endpoints.pop().expect("a mesh of one shard has one endpoint");
        let driver = IoDriver::new(
            endpoint.open(waker.clone()),
            commands.clone(),
            waker,
            Connector::with_threads(),
        );
        current::set_shard(IoThread::new(Shared::new(commands, false)));
        Box::new(driver)
    }

    fn sockets_max(&self) -> u32 {
        RING_OPTIONS.sockets_max
    }
}

impl AttachedDriver for IoDriver {
    fn begin_stop(&mut self) {
        // Fails if the thread is ending.
        own_commands::push(Command::Stop).unwrap_or(());
    }
}
