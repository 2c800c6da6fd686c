//! Warnings about this machine before a run: limits, settings and other programs that bound or
//! distort its load.
//!
//! ```text
//!  /proc, /sys, sock_diag(7) ─▶ Machine ─┐
//!                                        ├─▶ warnings: value found, value needed, what to do
//!  RunConfig, load threads ──────────────┘
//! ```
//!
//! Only what matters for the load is reported: a machine that suffices has no warning. Values that
//! the system does not report are not checked, and nothing is changed. `tuning/README.md` explains
//! the settings.

mod clock_source;
mod listener;
mod warnings;

use std::net::SocketAddr;

use corelane_engine::process::raise_open_files_limit;

pub use self::clock_source::ClockSource;
pub use self::listener::{Listener, ListenerProcess};
pub use self::warnings::warnings;
use crate::generator::RunConfig;
use crate::metrics::host::MachineUse;
use crate::metrics::port_limits;

/// Connections from which the process of the server is searched for: fewer fit into the usual
/// limits of open files.
const OWNED_MIN: usize = 200;

/// Properties of a machine that a load depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Ephemeral ports of each local address.
    pub ports: usize,
    /// `net.ipv4.tcp_tw_reuse`: 1 reuses ports in `TIME_WAIT`, 2 does over loopback.
    pub tw_reuse: Option<u32>,
    /// Open files that this process may have.
    pub open_files_max: u32,
    /// The clock source of the kernel.
    pub clock_source: Option<ClockSource>,
    /// The listener of the server, if it is on this machine.
    pub listener: Option<Listener>,
    /// Use of the cores before the run.
    pub core_use: Option<MachineUse>,
}

impl Machine {
    /// Reads what the load of `config` depends on. Takes some milliseconds.
    pub fn read(config: &RunConfig, core_use: Option<MachineUse>) -> Self {
        let is_owner_wanted = config.total_connections() >= OWNED_MIN;
        Self {
            ports: port_limits::ephemeral_ports(),
            tw_reuse: std::fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse")
                .ok()
                .and_then(|text| text.trim().parse().ok()),
            open_files_max: raise_open_files_limit(),
            clock_source: ClockSource::read(),
            listener: config
                .endpoint
                .addresses()
                .iter()
                .find(|address| is_local(address))
                .and_then(|address| Listener::read(*address, is_owner_wanted)),
            core_use,
        }
    }
}

/// Returns whether an address is one of this machine.
fn is_local(address: &SocketAddr) -> bool {
    address.ip().is_loopback() || port_limits::check_source(address.ip()).is_ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::plan::{HumanDuration, PhasePlan, Plan};

    #[test]
    fn this_machine_is_read_quickly() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut plan = Plan::new(format!("http://{}", listener.local_addr().unwrap()));
        plan.phases = vec![PhasePlan::constant(1.0, HumanDuration::from_secs(1))];
        let machine = Machine::read(&plan.run_config().unwrap(), MachineUse::observe());
        assert!(machine.ports > 0 && machine.open_files_max > 0);
        let used = machine.core_use.unwrap();
        assert!((0.0..=f64::from(used.cores)).contains(&used.busy_cores), "{used:?}");
        let found = machine.listener.unwrap();
        assert_eq!(found.address, listener.local_addr().unwrap());
    }
}
