//! First calls of many clients at once: starts of servers, and the time to the last response.

use std::io::{self, Write};

use corelane_bench_support::client_group::ClientGroup;
use corelane_engine::clock::Clock;
use tempfile::NamedTempFile;

use crate::caller::{Caller, Method, Plan, Shared};
use crate::product_process::{ProductProcess, is_server};
use crate::products::{CORELANE, Product};

/// Returns the command line of a server that adds a line to `file` when it starts.
pub(crate) fn counted_server(file: &str) -> [String; 6] {
    let script = "echo started >> \"$0\"; exec \"$@\"";
    ["sh", "-c", script, file, CORELANE, "stdio"].map(str::to_owned)
}

/// Has `clients` clients of each product send their first messages at once. `products` makes them
/// in front of a server.
pub(crate) fn measure(products: impl Fn(&[&str]) -> Vec<(Product, usize)>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n### First calls at once\n")?;
    writeln!(out, "| gateway | clients | servers started | of these alive | ms to the last |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    let file = NamedTempFile::new()?;
    let server = counted_server(&file.path().to_string_lossy());
    for (product, clients) in products(&server.each_ref().map(String::as_str)) {
        std::fs::write(file.path(), "")?;
        let process = ProductProcess::start(&product)?;
        let Product { transport, era, tool, .. } = product;
        let plan = Plan { transport, era, tool, method: Method::Call, host: process.address() };
        let shared = Shared::new()?;
        let callers = (0..clients).map(|_| Caller::new(plan, &shared)).collect();
        let clock = Clock::start();
        let began = clock.now();
        let group = ClientGroup::open_many(plan.host, clock, callers, clients);
        let milliseconds = clock.now().since(began).as_millis();
        let started = std::fs::read_to_string(file.path())?.lines().count();
        let alive = process.processes()?.iter().filter(|it| is_server(it)).count();
        let time = match group.map(drop) {
            Ok(()) => milliseconds.to_string(),
            Err(error) => {
                eprintln!("{}", process.describe(&product, &error));
                "failed".to_owned()
            }
        };
        writeln!(out, "| {} | {clients} | {started} | {alive} | {time} |", product.name)?;
    }
    Ok(())
}
