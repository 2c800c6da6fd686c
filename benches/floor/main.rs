//! The floor: whole processes side by side, alternating in one run.
//!
//! ```text
//! cargo bench --bench floor -- [--conns 64,1000] [--depth 1,16] [--eras legacy,modern]
//!     [--bytes 32] [--servers "ring echo,corelane"] [--with "--ring-receive-buffers 64"]
//!     [--rounds 5] [--seconds 1] [--stdio] [--http] [--ws]
//! ```
//!
//! Each server is a process of its own on core 0 and is driven over loopback from core 1 by a
//! closed loop of real `tools/call` lines; with `--stdio` over pipes, 64 in flight; with `--http`
//! by posts over connections that are kept, with every field of the revision, within a session
//! where there are sessions; with `--ws` by masked frames of text. The bare ring says back the very
//! bytes of the calls, over HTTP a fixed response of the same size as a right answer, over
//! WebSocket the unmasked text, and is what the ratios refer to. `corelane hop` has two shards on
//! its core, and no session is used where it lives. Over WebSocket tokio-tungstenite is another
//! echo, as it comes and with a read buffer that fits, and what Corelane has to reach is said below
//! each table.
//!
//! The load core is nearly saturated by the floors, so CPU per request is the honest figure
//! (nanosecond counters of the scheduler); a machine drifts, so only ratios within one run count.
//! What this bench saturates is the two cores.

#[path = "../rig/answering.rs"]
mod answering;
mod contender;
mod dialogue;
mod echo;
mod fixed;
#[expect(dead_code, reason = "the footprint bench asks for more")]
#[path = "../rig/frames.rs"]
mod frames;
mod hop;
mod load;
mod opening;
mod over;
mod plan;
#[expect(dead_code, reason = "the footprint bench asks for more")]
#[path = "../rig/process.rs"]
mod process;
#[expect(dead_code, reason = "the footprint bench asks for more")]
#[path = "../rig/requests.rs"]
mod requests;
#[path = "../rig/responses.rs"]
mod responses;
mod stdio;
mod table;
mod targets;
mod tungstenite;
mod unmasked;
#[path = "../rig/wording.rs"]
mod wording;
mod words;

use std::io;
use std::time::Duration;

use self::contender::Contender;
use self::load::Load;
use self::over::Over;
use self::plan::Plan;
use self::requests::Era;
use self::table::Row;

const LOAD_CORE: usize = 1;
const WARM_UP: Duration = Duration::from_millis(200);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == process::CHILD) {
        return contender::be_child(&arguments[1..]);
    }
    let plan = Plan::read(arguments.into_iter())?;
    process::pin(&[LOAD_CORE])?;
    let mut contenders = contender::contenders(plan.over, &plan.variants);
    if let Some(wanted) = &plan.servers {
        contenders.retain(|contender| {
            wanted.contains(&contender.name) || plan.variants.contains(&contender.name)
        });
    }
    let load = Load {
        connections: 1,
        depth: 1,
        era: Era::Modern,
        message_bytes: plan.message_bytes,
        protocol: false,
        over: plan.over,
        hops: false,
        warm_up: WARM_UP,
        span: Duration::from_secs_f64(plan.seconds),
    };
    contenders.retain(|contender| {
        let obstacle = contender.obstacle(load);
        if let Some(obstacle) = &obstacle {
            eprintln!("left out: {}: {obstacle}", contender.name);
        }
        obstacle.is_none()
    });
    for &connections in &plan.connections {
        for &depth in &plan.depths {
            for &era in &plan.eras {
                compare(&contenders, Load { connections, depth, era, ..load }, &plan)?;
            }
        }
    }
    Ok(())
}

/// One condition: every contender once a round, in turn, then their table.
fn compare(contenders: &[Contender], load: Load, plan: &Plan) -> io::Result<()> {
    let row = |contender: &Contender| Row { name: contender.name.clone(), outcomes: Vec::new() };
    let contenders = contenders.iter().filter(|contender| contender.takes_part(load));
    let mut rows: Vec<Row> = contenders.clone().map(row).collect();
    for _ in 0..plan.rounds {
        for (contender, row) in contenders.clone().zip(&mut rows) {
            row.outcomes.push(contender.measure(load)?);
        }
    }
    let (depth, era, bytes) = (load.depth, load.era.name(), load.message_bytes);
    let over = match load.over {
        Over::Stdio => Over::Stdio.name().to_owned(),
        over => format!("{}, {} connections", over.name(), load.connections),
    };
    let title = format!("{over}, {depth} in flight on each, {era} calls of {bytes} bytes");
    table::print(&title, &rows)?;
    targets::print(load, &rows)
}
