//! Response times on open connections while others are in their handshake.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use corelane_bench_support::process;
use corelane_bench_support::requests::{Era, MESSAGE_BYTES, RequestTemplate};
use corelane_bench_support::rounds::format_rounds;
use corelane_engine::clock::Clock;
use rustix::thread::gettid;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::version;

use crate::authority::Authority;
use crate::stream::{Stream, client_connection};
use crate::{CLIENT_CORE, median, start};

/// Connections that call, by turns.
const CONNECTIONS: usize = 8;
/// Calls of each round.
const CALLS: usize = 4_000;
/// Connections in their handshake.
const FLOOD: usize = 32;

/// Measures response times, alone and beside a flood, alternating.
pub(crate) fn measure(
    authority: &Authority,
    rounds: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let arguments = authority.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = start(&[&["--tcp", "127.0.0.1:0", "--http", "off"], &arguments[..]].concat())?;
    let address = server.address()?;
    let client = authority.client(&version::TLS13, kx_group::X25519MLKEM768, false)?;
    let mut hello = Vec::new();
    client_connection(&client)?.write_tls(&mut hello)?;
    let connect = |_| {
        let mut stream = Stream::connect(address, Some(&client))?;
        stream.begin()?;
        stream.complete()?;
        Ok(stream)
    };
    let mut streams = (0..CONNECTIONS).map(connect).collect::<io::Result<Vec<_>>>()?;
    let mut measured = [const { Vec::new() }; 4];
    let (mut handshakes, mut cpu, mut wall) = (0, Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        for is_flood in [false, true] {
            let flood = is_flood.then(|| Flood::start(address, hello.clone()));
            let (clock, before) = (Clock::start(), server.cpu_time()?);
            let mut times = response_times(&mut streams)?;
            if let Some(flood) = flood {
                handshakes += flood.stop()?;
                cpu += server.cpu_time()?.saturating_sub(before);
                wall += Duration::from_nanos(clock.now().nanoseconds());
            }
            times.sort_by(f64::total_cmp);
            let at = usize::from(is_flood) * 2;
            measured[at].push(times[times.len() / 2]);
            measured[at + 1].push(times[times.len() * 99 / 100]);
        }
    }
    let ratios = [0, 1].map(|at| median(&measured[at + 2]) / median(&measured[at]));
    let cores = cpu.as_secs_f64() / wall.as_secs_f64();
    let rate = f64::from(handshakes) / wall.as_secs_f64();
    writeln!(out, "\nResponse times on open connections in µs (min–max)\n")?;
    writeln!(out, "| | alone | beside {rate:.0} handshakes/s ({cores:.2} cores) | ratio |")?;
    writeln!(out, "| --- | --- | --- | --- |")?;
    for (at, name) in ["p50", "p99"].into_iter().enumerate() {
        let [alone, beside] = [at, at + 2].map(|at| format_rounds(&measured[at]));
        writeln!(out, "| {name} | {alone} | {beside} | {:.1} |", ratios[at])?;
    }
    Ok(())
}

fn response_times(streams: &mut [Stream]) -> io::Result<Vec<f64>> {
    let request = RequestTemplate::echo(Era::Modern, MESSAGE_BYTES).repeat(1);
    let clock = Clock::start();
    let mut times = Vec::new();
    let mut received = Vec::new();
    for call in 0..CALLS {
        let index = call % streams.len();
        let begin = clock.now();
        streams[index].send(&request)?;
        received.clear();
        while received.last() != Some(&b'\n') {
            streams[index].receive(&mut received)?;
        }
        times.push(clock.now().since(begin).as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// Connections that send a `ClientHello` and are closed once the server has answered.
struct Flood {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU32>,
    thread: thread::JoinHandle<io::Result<()>>,
}

impl Flood {
    fn start(address: SocketAddr, hello: Vec<u8>) -> Self {
        let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&answered));
        let thread = thread::spawn(move || {
            process::pin(&[CLIENT_CORE])?;
            yield_to_calls()?;
            let mut open = VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(address)?;
                stream.write_all(&hello)?;
                open.push_back(stream);
                if open.len() >= FLOOD
                    && let Some(mut first) = open.pop_front()
                {
                    first.read_exact(&mut [0])?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        });
        Self { is_over, answered, thread }
    }

    /// Ends it, and returns the number of handshakes that the server has answered.
    fn stop(self) -> io::Result<u32> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| io::Error::other("the flood has panicked"))??;
        Ok(self.answered.load(Ordering::Relaxed))
    }
}

/// Gives the calling thread the policy `SCHED_IDLE`: the client of the calls, on the same core,
/// interrupts it at once, so that the response times are those of the server.
fn yield_to_calls() -> io::Result<()> {
    let thread = gettid().as_raw_nonzero().to_string();
    let status = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("chrt: {status}"))) }
}
