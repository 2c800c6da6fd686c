//! Sessions that are opened and broken off: what is left of them.

use std::io::{self, Write};
use std::time::Duration;

use corelane_bench_support::client_group::ClientGroup;
use corelane_engine::clock::Clock;

use crate::caller::{Caller, Method, Plan, Shared};
use crate::process_tree;
use crate::product_process::{ProductProcess, is_server, pause};
use crate::products::Product;

/// Sessions that are open at once.
const BATCH: usize = 50;
/// Time in which processes may end after the last session.
const SETTLE: Duration = Duration::from_secs(12);
const SETTLE_POLL: Duration = Duration::from_millis(200);

/// What there is of a product.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Footprint {
    processes: usize,
    servers: usize,
    descriptors: usize,
    memory: u64,
}

impl Footprint {
    fn read(process: &ProductProcess) -> io::Result<Self> {
        let processes = process.processes()?;
        Ok(Self {
            processes: processes.len(),
            servers: processes.iter().filter(|it| is_server(it)).count(),
            descriptors: processes.iter().map(process_tree::Process::descriptors).sum(),
            memory: processes.iter().map(process_tree::Process::memory_bytes).sum(),
        })
    }
}

/// Opens sessions of each product, each with one call, breaks their connections off, and prints
/// what is left.
pub(crate) fn measure(products: &[(Product, usize)]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n### Sessions with one call each, broken off without `DELETE`\n")?;
    writeln!(
        out,
        "| gateway | sessions | sessions/s | processes before, at most, after | descriptors \
         before, after | MiB before, at most, after | KiB a session |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for (product, sessions) in products {
        match measure_one(product, *sessions) {
            Ok(line) => writeln!(out, "{line}")?,
            Err(error) => eprintln!("left out: {error}"),
        }
    }
    Ok(())
}

fn measure_one(product: &Product, sessions: usize) -> io::Result<String> {
    let process = ProductProcess::start(product)?;
    let Product { transport, era, tool, .. } = *product;
    let plan = Plan { transport, era, tool, method: Method::Call, host: process.address() };
    let failed = |error| process.describe(product, error);
    open(plan, 1).map_err(failed)?;
    pause(SETTLE_POLL);
    let before = Footprint::read(&process)?;
    let clock = Clock::start();
    let (started, mut most) = (clock.now(), before);
    let mut left = sessions;
    while left > 0 {
        let group = open(plan, BATCH.min(left)).map_err(failed)?;
        left -= BATCH.min(left);
        if left == 0 || left.is_multiple_of(BATCH * 8) {
            let now = Footprint::read(&process)?;
            most.processes = most.processes.max(now.processes);
            most.memory = most.memory.max(now.memory);
        }
        // Ends the connections in the midst of their sessions.
        drop(group);
    }
    let rate = sessions as u128 * 1000 / clock.now().since(started).as_millis().max(1);
    let until = clock.now().after(SETTLE);
    let mut after = Footprint::read(&process)?;
    while clock.now() < until && after.processes > before.processes {
        pause(SETTLE_POLL);
        after = Footprint::read(&process)?;
    }
    let mebibytes = |footprint: Footprint| footprint.memory >> 20;
    let each = after.memory.saturating_sub(before.memory) / sessions as u64;
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let each = each as f64 / 1024.0;
    Ok(format!(
        "| {} | {sessions} | {rate} | {}, {}, {} | {}, {} | {}, {}, {} | {each:.1} |",
        product.name,
        before.processes,
        most.processes,
        after.processes,
        before.descriptors,
        after.descriptors,
        mebibytes(before),
        mebibytes(most),
        mebibytes(after),
    ))
}

/// Opens sessions, each with one call.
fn open(plan: Plan, sessions: usize) -> io::Result<ClientGroup<Caller>> {
    let shared = Shared::new()?;
    let clients = (0..sessions).map(|_| Caller::new(plan, &shared)).collect();
    ClientGroup::open(plan.host, Clock::start(), clients)
}
