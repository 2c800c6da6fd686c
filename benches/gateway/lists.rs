//! The merged list of many upstreams, from the cache.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, NoArguments, Server, Tool};
use corelane_bench_support::process::CHILD;
use corelane_bench_support::requests::Era;
use tempfile::NamedTempFile;

use crate::caller::{Method, Plan, Transport};
use crate::calls::{Load, microseconds, verdict};
use crate::product_process::ProductProcess;
use crate::products::{self, Product};

/// Word of the command line of an upstream.
pub(crate) const TOOLS: &str = "tools";
const UPSTREAMS: usize = 20;
const TOOLS_EACH: usize = 500;
const CONNECTIONS: [usize; 2] = [1, 16];
const WARM_UP: Duration = Duration::from_millis(200);
/// Goals in microseconds: the median of one connection, and the 99th percentile.
const FIRST_PAGE_MAX: f64 = 200.0;
const P99_MAX: f64 = 1000.0;

/// Measures the first page of the list.
pub(crate) fn measure(span: Duration) -> io::Result<()> {
    let config = config()?;
    let mut out = io::stdout().lock();
    writeln!(out, "\n### First page of {UPSTREAMS} upstreams × {TOOLS_EACH} tools\n")?;
    writeln!(out, "| over | connections | requests/s | p50 µs | p99 µs | |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    for transport in [Transport::Lines, Transport::Http("/mcp")] {
        let product = product(transport, config.path().to_string_lossy().as_ref());
        let process = ProductProcess::start(&product)?;
        let plan = Plan {
            transport,
            era: product.era,
            method: Method::List,
            tool: product.tool,
            host: process.address(),
        };
        for connections in CONNECTIONS {
            let mut load = Load::open(plan, connections)?;
            load.group.run_for(WARM_UP)?;
            load.shared.latency.borrow_mut().reset();
            let before = load.shared.answered.get();
            load.group.run_for(span)?;
            let answered = load.shared.answered.get() - before;
            let latency = load.shared.latency.borrow().clone();
            load.end()?;
            let (p50, p99) = (microseconds(&latency, 0.5), microseconds(&latency, 0.99));
            let is_reached = p99 < P99_MAX && (connections > 1 || p50 <= FIRST_PAGE_MAX);
            let verdict = verdict(is_reached);
            let rate = u128::from(answered) * 1000 / span.as_millis();
            let name = if transport == Transport::Lines { "TCP" } else { "HTTP" };
            writeln!(out, "| {name} | {connections} | {rate} | {p50:.0} | {p99:.0} | {verdict} |")?;
        }
    }
    Ok(())
}

fn product(transport: Transport, config: &str) -> Product {
    let mut product = products::gateway(transport, "all", &[]);
    product.command.retain(|word| word != "--" && word != "--share" && word != "all");
    product.command.extend(["--config".to_owned(), config.to_owned()]);
    product.era = Era::Modern;
    product
}

/// Writes the configuration of the gateway.
fn config() -> io::Result<NamedTempFile> {
    let program = std::env::current_exe()?;
    let mut text = String::new();
    for number in 0..UPSTREAMS {
        let name = format!("upstream-{number}");
        let command = [&program.to_string_lossy(), CHILD, TOOLS, &name];
        let written = write!(text, "[[upstream]]\nname = \"{name}\"\ncommand = {command:?}\n");
        written.map_err(io::Error::other)?;
    }
    let mut file = NamedTempFile::with_suffix(".toml")?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Serves the tools of an upstream over standard input and output.
pub(crate) fn serve(name: &str) -> io::Result<()> {
    let mut catalog = Catalog::builder(Implementation::new(name, "1.0.0"));
    for number in 0..TOOLS_EACH {
        let tool = Tool::new(format!("{name}_tool-{number}"))
            .description("Returns the entries that fit the arguments, the newest first.");
        catalog = catalog.tool(tool.inline_writer(|NoArguments {}, result, _| {
            result.text("done");
            Ok(())
        }));
    }
    let catalog = catalog.build().map_err(io::Error::other)?;
    Server::builder(catalog).stdio().map_err(io::Error::other).map(drop)
}
