//! CPU time of the server for each handshake, against that of rustls in memory.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corelane_bench_support::process::Server;
use corelane_bench_support::requests::{Era, MESSAGE_BYTES, RequestTemplate};
use corelane_bench_support::rounds::format_rounds;
use rustix::time::{ClockId, clock_gettime};
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::{ClientConfig, ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use crate::authority::Authority;
use crate::stream::{Stream, client_connection};
use crate::{median, start};

/// Connections that are in their handshake at the same time.
const BATCH: usize = 16;

const KINDS: [(&SupportedProtocolVersion, &dyn SupportedKxGroup); 3] = [
    (&version::TLS13, kx_group::X25519MLKEM768),
    (&version::TLS13, kx_group::X25519),
    (&version::TLS12, kx_group::X25519),
];

/// Measures full and resumed handshakes of each kind.
pub(crate) fn measure(
    authority: &Authority,
    rounds: usize,
    count: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let listener = ["--tcp", "127.0.0.1:0", "--http", "off"];
    let arguments = authority.arguments();
    let arguments = arguments.each_ref().map(String::as_str);
    let servers = [start(&listener)?, start(&[&listener[..], &arguments].concat())?];
    let floor = authority.server()?;
    writeln!(out, "\nCPU µs of the server for each handshake (min–max)\n")?;
    writeln!(
        out,
        "| version, group | handshake | floor | plain connection | Corelane | of it kernel \
         | floor / Corelane | floor / (Corelane - plain) |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for (version, group) in KINDS {
        for resumes in [false, true] {
            let client = || authority.client(version, group, resumes);
            let of_floor = client()?;
            let configs = (0..BATCH).map(|_| client()).collect::<io::Result<_>>()?;
            // The first connections of these fetch the tickets.
            let first = Clients::Tls { configs, resumes: false };
            over_sockets(&servers[1], BATCH, &first)?;
            let Clients::Tls { configs, .. } = first else { continue };
            let clients = Clients::Tls { configs, resumes };
            // With TLS 1.2 the client that resumes sends the last message.
            let calls = if resumes && *version == version::TLS12 { 1 } else { 2 };
            let mut measured = [const { Vec::new() }; 3];
            let mut measure = || {
                measured[0].push(in_memory(&floor, &of_floor, count)?);
                measured[1].push(over_sockets(&servers[0], count, &Clients::Plain { calls })?);
                measured[2].push(over_sockets(&servers[1], count, &clients)?);
                Ok::<(), io::Error>(())
            };
            // The warm-up.
            measure()?;
            let ((), kernel) =
                servers[1].kernel_share(|| (0..rounds).try_for_each(|_| measure()))?;
            let measured = measured.map(|values| values[1..].to_vec());
            let [floor, plain, ours] = measured.each_ref().map(|values| median(values));
            let name = format!("{:?}, {:?}", version.version, group.name());
            let kind = if resumes { "resumed" } else { "full" };
            let columns = measured.map(|values| format_rounds(&values)).join(" | ");
            writeln!(
                out,
                "| {name} | {kind} | {columns} | {:.0} % | {:.2} | {:.2} |",
                kernel * 100.0,
                floor / ours,
                floor / (ours - plain)
            )?;
        }
    }
    Ok(())
}

/// Clients of connections that are open at the same time. The messages of all of them are ready
/// before the first is sent, so that the server does not wait for the client between them.
enum Clients {
    /// Without TLS: they make as many calls, one after another.
    Plain { calls: usize },
    /// Each has its own sessions, so that all can resume one at the same time.
    Tls { configs: Vec<Arc<ClientConfig>>, resumes: bool },
}

impl Clients {
    /// Opens and closes connections.
    fn run(&self, address: SocketAddr, request: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain { calls } => {
                let connect = |_| Stream::connect(address, None);
                let mut streams = (0..BATCH).map(connect).collect::<io::Result<Vec<_>>>()?;
                for _ in 0..*calls {
                    streams.iter_mut().try_for_each(|stream| stream.send(request))?;
                    streams.iter_mut().try_for_each(receive_line)?;
                }
                Ok(())
            }
            Self::Tls { configs, resumes } => {
                let connect = |config| Stream::connect(address, Some(config));
                let mut streams = configs.iter().map(connect).collect::<io::Result<Vec<_>>>()?;
                streams.iter_mut().try_for_each(Stream::begin)?;
                streams.iter_mut().try_for_each(Stream::prepare)?;
                streams.iter_mut().try_for_each(Stream::begin)?;
                streams.iter_mut().try_for_each(Stream::complete)?;
                if streams.iter().all(|stream| stream.is_resumed() == *resumes) {
                    return Ok(());
                }
                Err(io::Error::other("full and resumed handshakes are mixed"))
            }
        }
    }
}

fn receive_line(stream: &mut Stream) -> io::Result<()> {
    let mut received = Vec::new();
    while received.last() != Some(&b'\n') {
        stream.receive(&mut received)?;
    }
    Ok(())
}

fn over_sockets(server: &Server, count: usize, clients: &Clients) -> io::Result<f64> {
    let address = server.address()?;
    let request = RequestTemplate::echo(Era::Modern, MESSAGE_BYTES).repeat(1);
    let before = server.cpu_time()?;
    let batches = count.div_ceil(BATCH);
    (0..batches).try_for_each(|_| clients.run(address, &request))?;
    Ok(micros(server.cpu_time()?.saturating_sub(before), batches * BATCH))
}

fn in_memory(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
    count: usize,
) -> io::Result<f64> {
    let mut used = Duration::ZERO;
    for _ in 0..count {
        let mut client = client_connection(client)?;
        let begin = thread_time();
        let mut connection = ServerConnection::new(Arc::clone(server)).map_err(io::Error::other)?;
        used += thread_time().saturating_sub(begin);
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        while client.is_handshaking() || connection.is_handshaking() || connection.wants_write() {
            to_server.clear();
            while client.wants_write() {
                client.write_tls(&mut to_server)?;
            }
            to_client.clear();
            let begin = thread_time();
            let mut input = &to_server[..];
            while !input.is_empty() {
                connection.read_tls(&mut input)?;
                connection.process_new_packets().map_err(io::Error::other)?;
            }
            while connection.wants_write() {
                connection.write_tls(&mut to_client)?;
            }
            used += thread_time().saturating_sub(begin);
            let mut input = &to_client[..];
            while !input.is_empty() {
                client.read_tls(&mut input)?;
                client.process_new_packets().map_err(io::Error::other)?;
            }
        }
        let begin = thread_time();
        drop(connection);
        used += thread_time().saturating_sub(begin);
    }
    Ok(micros(used, count))
}

fn micros(used: Duration, count: usize) -> f64 {
    used.as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
