//! CPU time of a call, and memory of a connection.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use corelane_bench_support::process::Server;
use corelane_bench_support::requests::{Era, FIRST_ID, MESSAGE_BYTES, RequestTemplate};
use corelane_bench_support::responses::Response;
use corelane_bench_support::rounds::format_rounds;
use memchr::memchr_iter;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::{ClientConfig, version};

use crate::authority::Authority;
use crate::stream::Stream;
use crate::{NGINX, median, start};

const CONNECTIONS: usize = 64;
/// Calls in flight on each connection.
const DEPTHS: [usize; 2] = [1, 16];
/// Calls of the warm-up, as a fraction of those measured.
const WARM_UP_DIVISOR: usize = 10;

/// Connections that are written and read by turns.
struct Load {
    streams: Vec<Stream>,
    requests: Vec<u8>,
    depth: usize,
    is_http: bool,
}

impl Load {
    fn connect(
        address: SocketAddr,
        tls: Option<&Arc<ClientConfig>>,
        connections: usize,
        depth: usize,
        is_http: bool,
    ) -> io::Result<Self> {
        let template = if is_http {
            RequestTemplate::echo_post(Era::Modern, MESSAGE_BYTES, address)
        } else {
            RequestTemplate::echo(Era::Modern, MESSAGE_BYTES)
        };
        let mut requests = template.repeat(depth);
        for index in 0..depth {
            template.set_id(&mut requests, index, FIRST_ID + index as u64);
        }
        let connect = |_| {
            let mut stream = Stream::connect(address, tls)?;
            stream.begin()?;
            stream.complete()?;
            Ok(stream)
        };
        let streams = (0..connections).map(connect).collect::<io::Result<_>>()?;
        Ok(Self { streams, requests, depth, is_http })
    }

    /// Makes at least `calls` calls, and returns how many.
    fn run(&mut self, calls: usize) -> io::Result<usize> {
        let turns = calls.div_ceil(self.streams.len() * self.depth);
        let mut received = Vec::new();
        for _ in 0..turns {
            for stream in &mut self.streams {
                stream.send(&self.requests)?;
            }
            for stream in &mut self.streams {
                received.clear();
                while !is_complete(&received, self.depth, self.is_http)? {
                    stream.receive(&mut received)?;
                }
            }
        }
        Ok(turns * self.streams.len() * self.depth)
    }

    /// Returns the CPU time of `servers` for each call, in microseconds.
    fn measure(&mut self, servers: &[&Server], calls: usize) -> io::Result<f64> {
        self.run(calls / WARM_UP_DIVISOR)?;
        let used = || servers.iter().map(|server| server.cpu_time()).sum::<io::Result<_>>();
        let before: std::time::Duration = used()?;
        let calls = self.run(calls)?;
        let used: std::time::Duration = used()?;
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        Ok(used.saturating_sub(before).as_secs_f64() * 1e6 / f64::from(calls))
    }
}

fn is_complete(received: &[u8], depth: usize, is_http: bool) -> io::Result<bool> {
    if !is_http {
        return Ok(memchr_iter(b'\n', received).count() >= depth);
    }
    let mut rest = received;
    for _ in 0..depth {
        let Some(response) = Response::read(rest)? else { return Ok(false) };
        response.expect(200)?;
        rest = &rest[response.bytes()..];
    }
    Ok(true)
}

fn client(authority: &Authority) -> io::Result<Arc<ClientConfig>> {
    authority.client(&version::TLS13, kx_group::X25519, false)
}

/// Starts a plain and an encrypted server with one listener.
fn start_both(authority: &Authority, listener: [&str; 4]) -> io::Result<[Server; 2]> {
    let tls = authority.arguments();
    let limits = ["--tcp-connections-max", "100000", "--tcp-idle-timeout", "1h"];
    let plain = [&listener[..], &limits].concat();
    let encrypted = [&plain[..], &tls.each_ref().map(String::as_str)].concat();
    Ok([start(&plain)?, start(&encrypted)?])
}

/// Measures calls over TCP.
pub(crate) fn measure(
    authority: &Authority,
    rounds: usize,
    count: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let [plain, encrypted] = start_both(authority, ["--tcp", "127.0.0.1:0", "--http", "off"])?;
    let client = client(authority)?;
    writeln!(out, "\nCPU µs of the server for each call over TCP (min–max)\n")?;
    writeln!(out, "| connections × in flight | plain | TLS 1.3 | TLS / plain |")?;
    writeln!(out, "| --- | --- | --- | --- |")?;
    for depth in DEPTHS {
        let connect =
            |server: &Server, tls| Load::connect(server.address()?, tls, CONNECTIONS, depth, false);
        let mut loads =
            [(connect(&plain, None)?, &plain), (connect(&encrypted, Some(&client))?, &encrypted)];
        let mut measured = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            for ((load, server), values) in loads.iter_mut().zip(&mut measured) {
                values.push(load.measure(&[server], count * depth)?);
            }
        }
        let ratio = median(&measured[1]) / median(&measured[0]);
        let [plain, encrypted] = measured.map(|values| format_rounds(&values));
        writeln!(out, "| {CONNECTIONS} × {depth} | {plain} | {encrypted} | {ratio:.2} |")?;
    }
    Ok(())
}

/// Measures the memory of connections that are idle after a call.
pub(crate) fn measure_memory(
    authority: &Authority,
    connections: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let servers = start_both(authority, ["--tcp", "127.0.0.1:0", "--http", "off"])?;
    let client = client(authority)?;
    let mut measured = Vec::new();
    for (server, tls) in servers.iter().zip([None, Some(&client)]) {
        let address = server.address()?;
        Load::connect(address, tls, 16, 1, false)?.run(16)?;
        let before = server.resident_bytes()?;
        let mut load = Load::connect(address, tls, connections, 1, false)?;
        load.run(connections)?;
        let more = server.resident_bytes()?.saturating_sub(before);
        measured.push(more / connections as u64);
    }
    let [plain, encrypted] = [measured[0], measured[1]];
    writeln!(out, "\nMemory of each of {connections} idle connections: plain {plain} bytes, TLS")?;
    writeln!(out, "{encrypted} bytes, {} more", encrypted.saturating_sub(plain))
}

/// Measures calls over HTTP: plain, with TLS, and behind nginx.
pub(crate) fn measure_nginx(
    authority: &Authority,
    rounds: usize,
    count: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let [plain, encrypted] = start_both(authority, ["--tcp", "off", "--http", "127.0.0.1:0"])?;
    let nginx = start_nginx(authority, plain.address()?)?;
    let client = client(authority)?;
    let connect =
        |server: &Server, tls| Load::connect(server.address()?, tls, CONNECTIONS, 1, true);
    let mut loads = [
        (connect(&plain, None)?, vec![&plain]),
        (connect(&encrypted, Some(&client))?, vec![&encrypted]),
        (connect(&nginx, Some(&client))?, vec![&nginx, &plain]),
    ];
    let mut measured = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for ((load, servers), values) in loads.iter_mut().zip(&mut measured) {
            values.push(load.measure(servers, count)?);
        }
    }
    let [plain, encrypted, nginx] = measured.map(|values| format_rounds(&values));
    writeln!(out, "\nCPU µs for each call over HTTP, {CONNECTIONS} connections (min–max)\n")?;
    writeln!(out, "| plain | TLS 1.3 | nginx with TLS 1.3, and plain Corelane |")?;
    writeln!(out, "| --- | --- | --- |\n| {plain} | {encrypted} | {nginx} |")
}

fn start_nginx(authority: &Authority, upstream: SocketAddr) -> io::Result<Server> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let path = authority.path().display().to_string();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {path}/{kind};\n")).concat();
    let text = format!(
        "daemon off; master_process off; worker_processes 1; pid {path}/nginx.pid;
         error_log stderr; events {{ worker_connections 1024; }}
         http {{ access_log off; {temporary} keepalive_requests 1000000000;
         upstream corelane {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}
         server {{ listen {address} ssl; ssl_protocols TLSv1.2 TLSv1.3;
         ssl_certificate {path}/cert.pem; ssl_certificate_key {path}/key.pem;
         location / {{ proxy_pass http://corelane; proxy_http_version 1.1;
         proxy_set_header Connection \"\"; proxy_set_header Host {upstream};
         proxy_buffering off; }} }} }}\n"
    );
    let file = authority.path().join("nginx.conf");
    std::fs::write(&file, text)?;
    let file = file.display().to_string();
    let arguments = [NGINX, &address.to_string(), "-p", &path, "-c", &file].map(str::to_owned);
    let server = Server::start(&arguments)?;
    while TcpStream::connect(address).is_err() {
        std::thread::yield_now();
    }
    Ok(server)
}
