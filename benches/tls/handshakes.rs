//! CPU time of the server for each handshake, against that of rustls in memory.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use corelane_bench_support::process::Server;
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
    (rounds, count): (usize, usize),
    out: &mut impl Write,
) -> io::Result<()> {
    let arguments = authority.arguments();
    let arguments = arguments.each_ref().map(String::as_str);
    let server = start(&[&["--tcp", "127.0.0.1:0", "--http", "off"], &arguments[..]].concat())?;
    let floor = authority.server()?;
    writeln!(out, "\nCPU µs of the server for each handshake (min–max)\n")?;
    writeln!(out, "| version, group | handshake | floor | Corelane | floor / Corelane |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for (version, group) in KINDS {
        for resumes in [false, true] {
            let mut measured = [const { Vec::new() }; 2];
            let clients = [(); 2].map(|()| authority.client(version, group, resumes));
            let [of_floor, of_server] = clients;
            let (of_floor, of_server) = (of_floor?, of_server?);
            for _ in 0..=rounds {
                measured[0].push(in_memory(&floor, &of_floor, count)?);
                measured[1].push(over_sockets(&server, &of_server, count)?);
            }
            // The first round is the warm-up.
            let [floor, ours] = measured.map(|values| values[1..].to_vec());
            let kind = if resumes { "resumed" } else { "full" };
            let ratio = median(&floor) / median(&ours);
            let name = format!("{:?}, {:?}", version.version, group.name());
            let [floor, ours] = [floor, ours].map(|values| format_rounds(&values));
            writeln!(out, "| {name} | {kind} | {floor} | {ours} | {ratio:.2} |")?;
        }
    }
    Ok(())
}

fn over_sockets(server: &Server, client: &Arc<ClientConfig>, count: usize) -> io::Result<f64> {
    let address = server.address()?;
    let before = server.cpu_time()?;
    let batches = count.div_ceil(BATCH);
    for _ in 0..batches {
        let connect = |_| Stream::connect(address, Some(client));
        let mut streams = (0..BATCH).map(connect).collect::<io::Result<Vec<_>>>()?;
        streams.iter_mut().try_for_each(Stream::begin)?;
        streams.iter_mut().try_for_each(Stream::complete)?;
    }
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
