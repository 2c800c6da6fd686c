//! Figures of the gateway, beside those of other gateways.
//!
//! ```text
//! benches/gateway/install.sh                # the other gateways, below the target folder; once
//! cargo bench --bench gateway -- [--scene calls,lists,clients,churn,storm] [--rivals]
//!     [--only NAME,NAME] [--rounds 5] [--seconds 1] [--connections 1,16,64] [--clients 50000]
//! ```
//!
//! Every gateway is a process on core 0 together with the server behind it, `corelane stdio`. The
//! clients are this process on core 1, the same for all. `none` is `corelane serve` without a
//! gateway. Sessions are those of 2025-11-25 unless a name says otherwise, because most gateways
//! have no others. All are started anew in each round, in turn; medians, with the lowest and
//! highest round. Only ratios within one run are meaningful.
//!
//! - `calls`: an echo of 32 bytes, one call in flight on each connection. CPU time is that of all
//!   processes of the gateway, without the server behind it.
//! - `lists`: the first page of the merged list of 20 upstreams with 500 tools each.
//! - `clients`: as many clients of one child, over TCP and HTTP: memory of a session, a call of
//!   each at once, and lists beside them.
//! - `churn`: sessions that are opened and broken off: processes, descriptors and memory after.
//! - `storm`: first calls of many clients at once: how many servers are started.
//!
//! Everything that it starts ends with it.

mod caller;
mod calls;
mod churn;
mod clients;
mod http_reply;
mod lists;
mod process_tree;
mod product_process;
mod products;
mod storm;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use corelane_bench_support::arguments::{check, number};
use corelane_bench_support::process::{self, CHILD};

use self::caller::Transport;
use self::products::Product;

/// The flags that a value follows.
const VALUES: [&str; 6] =
    ["--scene", "--only", "--rounds", "--seconds", "--connections", "--clients"];
const SERVER_CORE: usize = 0;
const LOAD_CORE: usize = 1;
const CONNECTIONS: &str = "1,16,64";
const SCENES: &str = "calls,lists,clients,churn,storm";
/// Sessions of the churn: of the gateway where all share a server, where each session has one, and
/// of others.
const CHURN: [usize; 3] = [10_000, 1000, 200];
/// Clients of the storm: of the gateway, and of others.
const STORM: [usize; 2] = [1000, 50];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [first, word, program, rest @ ..] if first == CHILD && word == "exec" => {
            process::setup_child(&[SERVER_CORE])?;
            return Err(process::exec_program(program, rest));
        }
        [first, word, name] if first == CHILD && word == lists::TOOLS => return lists::serve(name),
        _ => {}
    }
    check(&arguments, &VALUES, &["--rivals"])?;
    process::pin(&[LOAD_CORE])?;
    // What a gateway leaves behind is counted below this process, and ended by it.
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let rounds = number(&arguments, "--rounds", 5)?.max(1);
    let span = Duration::from_secs(number(&arguments, "--seconds", 1)?.max(1) as u64);
    let chosen = Chosen::read(&arguments);
    for scene in words(&arguments, "--scene").unwrap_or(SCENES).split(',') {
        match scene {
            "calls" => {
                let connections = words(&arguments, "--connections").unwrap_or(CONNECTIONS);
                let connections: Result<Vec<usize>, _> =
                    connections.split(',').map(str::parse).collect();
                let products = chosen.retain(products::own(), &[products::CORELANE, "stdio"]);
                let connections = connections.map_err(io::Error::other)?;
                calls::measure(products, &connections, rounds, span)?;
            }
            "lists" => lists::measure(span)?,
            "clients" => clients::measure(number(&arguments, "--clients", 50_000)?.max(2))?,
            "churn" => churn::measure(&chosen.churn())?,
            "storm" => storm::measure(|server| chosen.storm(server))?,
            other => return Err(io::Error::other(format!("no scene {other}: {SCENES}"))),
        }
    }
    Ok(())
}

/// Returns the word after a flag.
fn words<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    arguments.get(at + 1).map(String::as_str)
}

/// Which products are measured.
struct Chosen {
    has_rivals: bool,
    only: Option<String>,
}

impl Chosen {
    fn read(arguments: &[String]) -> Self {
        let has_rivals = arguments.iter().any(|argument| argument == "--rivals");
        Self { has_rivals, only: words(arguments, "--only").map(str::to_owned) }
    }

    /// Returns `own` and the rivals in front of `server`, as far as they are chosen.
    fn retain(&self, mut own: Vec<Product>, server: &[&str]) -> Vec<Product> {
        if self.has_rivals {
            let (rivals, missing) = products::rivals(&rivals_folder(), server);
            for name in missing {
                eprintln!("not installed: {name}: see benches/gateway/install.sh");
            }
            own.extend(rivals);
        }
        if let Some(only) = &self.only {
            own.retain(|product| only.split(',').any(|part| product.name.contains(part)));
        }
        own
    }

    fn churn(&self) -> Vec<(Product, usize)> {
        let server = [products::CORELANE, "stdio"];
        let mut for_each = products::gateway(Transport::Lines, "session", &server);
        for_each.name = "corelane gateway, TCP, a server for each session";
        let own = [
            (products::gateway(Transport::Lines, "all", &server), CHURN[0]),
            (products::gateway(Transport::Http("/mcp"), "all", &server), CHURN[0]),
            (for_each, CHURN[1]),
        ];
        self.with_counts(&own, &server, CHURN[2])
    }

    fn storm(&self, server: &[&str]) -> Vec<(Product, usize)> {
        let own = [Transport::Lines, Transport::Http("/mcp")];
        let own = own.map(|transport| (products::gateway(transport, "all", server), STORM[0]));
        self.with_counts(&own, server, STORM[1])
    }

    fn with_counts(
        &self,
        own: &[(Product, usize)],
        server: &[&str],
        of_rivals: usize,
    ) -> Vec<(Product, usize)> {
        let products = own.iter().map(|(product, _)| product.clone()).collect();
        let chosen = self.retain(products, server).into_iter();
        let count = |product: &Product| {
            let known = own.iter().find(|(known, _)| known.name == product.name);
            known.map_or(of_rivals, |(_, count)| *count)
        };
        chosen.map(|product| (product.clone(), count(&product))).collect()
    }
}

/// Where `install.sh` installs other gateways: below the target folder.
fn rivals_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("gateways")
}
