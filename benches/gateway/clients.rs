//! Tens of thousands of clients of one child: memory of a session, calls of all, and lists beside
//! them.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use corelane_bench_support::client_group::ClientGroup;
use corelane_engine::clock::Clock;

use crate::caller::{Caller, Method, Plan, Shared, Transport};
use crate::calls::{Load, microseconds, verdict};
use crate::product_process::{ProductProcess, is_server, pause};
use crate::products::{self, Product};

/// Clients of one ring, and of one loopback address.
const GROUP_MAX: usize = 12_500;
/// Time in which the gateway becomes idle, and returns memory that it does not use.
const IDLE: Duration = Duration::from_secs(3);
/// Goals: bytes of an idle session, and the 99th percentile of a list in microseconds.
const SESSION_BYTES_MAX: u64 = 2048;
const LIST_MAX: f64 = 1000.0;

/// Holds `clients` sessions of the gateway over TCP and HTTP.
pub(crate) fn measure(clients: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n### {clients} clients of one child, on one core\n")?;
    writeln!(
        out,
        "| over | children | bytes of one more session, idle | | all call at once: ms | beside \
         them, list of one client: p50 µs | p99 µs | |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for transport in [Transport::Lines, Transport::Http("/mcp")] {
        let product = products::gateway(transport, "all", &[products::CORELANE, "stdio"]);
        let product = with_shards(product, clients.div_ceil(GROUP_MAX));
        let process = ProductProcess::start(&product)?;
        let line = hold(&product, &process, clients);
        writeln!(out, "{}", line.map_err(|error| process.describe(&product, error))?)?;
    }
    Ok(())
}

/// Has the gateway listen on all loopback addresses, each of which has ports for 28,000 clients,
/// with this many shards, each of which has the limit of open files for itself.
fn with_shards(mut product: Product, shards: usize) -> Product {
    let shards = shards.to_string();
    for word in &mut product.command {
        *word = word.replace("127.0.0.1:", "0.0.0.0:");
        if word == "1" {
            word.clone_from(&shards);
        }
    }
    product.command.insert(2, "--insecure-public".to_owned());
    product
}

fn hold(product: &Product, process: &ProductProcess, clients: usize) -> io::Result<String> {
    let Product { transport, era, tool, .. } = *product;
    let plan = |host, method| Plan { transport, era, method, tool, host };
    let shared = Shared::new()?;
    let groups = clients.div_ceil(GROUP_MAX);
    let mut open: Vec<(ClientGroup<Caller>, usize)> = Vec::with_capacity(groups);
    let mut at_half = (0, 0);
    for number in 0..groups {
        let host = neighbour(process.address(), number);
        let count = GROUP_MAX.min(clients - number * GROUP_MAX);
        let callers = (0..count).map(|_| Caller::new(plan(host, Method::Call), &shared)).collect();
        open.push((ClientGroup::open(host, Clock::start(), callers)?, count));
        if number + 1 == groups.div_ceil(2) {
            pause(IDLE);
            at_half = (process.resident_bytes()?, (number + 1) * GROUP_MAX);
        }
    }
    pause(IDLE);
    let grown = process.resident_bytes()?.saturating_sub(at_half.0);
    let each = grown / clients.saturating_sub(at_half.1).max(1) as u64;
    let clock = Clock::start();
    let began = clock.now();
    for (group, _) in &mut open {
        group.send(0, 1, Caller::request);
    }
    for (group, count) in &mut open {
        group.wait_for_responses(*count)?;
    }
    let all_answered = clock.now().since(began).as_millis();
    let children = process.processes()?.iter().filter(|it| is_server(it)).count();
    let mut load = Load::open(plan(process.address(), Method::List), 1)?;
    load.group.run_for(Duration::from_secs(1))?;
    let latency = load.shared.latency.borrow().clone();
    load.end()?;
    let (p50, p99) = (microseconds(&latency, 0.5), microseconds(&latency, 0.99));
    let name = if transport == Transport::Lines { "TCP" } else { "HTTP" };
    Ok(format!(
        "| {name} | {children} | {each} | {} | {all_answered} | {p50:.0} | {p99:.0} | {} |",
        verdict(each <= SESSION_BYTES_MAX),
        verdict(p99 < LIST_MAX),
    ))
}

/// Returns the address of a group: 127.0.0.1 and its neighbours.
fn neighbour(address: SocketAddr, group: usize) -> SocketAddr {
    let last = u8::try_from(group % 250).unwrap_or(0) + 1;
    (Ipv4Addr::new(127, 0, 0, last), address.port()).into()
}
