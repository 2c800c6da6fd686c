//! The clients: `corelane-load`, wrk, and `independent.py`. They inherit the affinity.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use corelane_test_support::wrk::{self, WrkSettings};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::servers::{HttpServer, OtherServer};

/// Version of all calls.
const VERSION: &str = "2025-11-25";
/// Connections of closed loops over HTTP.
const CONNECTIONS: usize = 8;
/// Calls in flight of closed loops over stdio: so many that the server always has some to read.
const DEPTH: usize = 64;

/// Seconds before a measurement of a server that was measured before.
const WARM_UP_AGAIN: u64 = 1;

/// Who measures: `corelane-load`, or wrk and the script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    Load,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Http,
    Stdio,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) server: &'a OtherServer,
    pub(crate) transport: Transport,
    /// Seconds before the measurement.
    pub(crate) warm_up: u64,
    pub(crate) seconds: u64,
    /// Calls a second of an open loop.
    pub(crate) rate: Option<f64>,
}

/// What a client measures: calls a second, the medians of response time and service time in
/// microseconds, and the cores that it and the server use, or zero if it does not measure them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Measured {
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) service_p50_us: f64,
    pub(crate) cores: f64,
    pub(crate) server_cores: f64,
}

impl Measured {
    /// Returns the mean of each figure.
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    fn mean(measured: &[Self]) -> Self {
        let mean = |figure: fn(&Self) -> f64| {
            measured.iter().map(figure).sum::<f64>() / measured.len() as f64
        };
        Self {
            rate: mean(|measured| measured.rate),
            p50_us: mean(|measured| measured.p50_us),
            service_p50_us: mean(|measured| measured.service_p50_us),
            cores: mean(|measured| measured.cores),
            server_cores: mean(|measured| measured.server_cores),
        }
    }
}

impl Run<'_> {
    /// Measures with `corelane-load`, and with wrk or the script. `order` says who is first.
    ///
    /// Over stdio each has a server of its own. Over HTTP both have the same one, and measure it
    /// twice, the second time in the opposite order: two processes of a server differ by some per
    /// cent, and a process changes with each call.
    pub(crate) fn measure(
        &self,
        order: [Client; 2],
    ) -> Result<(Measured, Measured), Box<dyn Error>> {
        let (mut load, mut other) = (Vec::new(), Vec::new());
        let mut add = |client, measured| match client {
            Client::Load => load.push(measured),
            Client::Other => other.push(measured),
        };
        match self.transport {
            Transport::Stdio => {
                for client in order {
                    add(client, self.measure_stdio(client)?);
                }
            }
            Transport::Http => {
                let running = self.server.start()?;
                for (index, client) in order.into_iter().chain(order.into_iter().rev()).enumerate()
                {
                    let warm_up = if index == 0 { self.warm_up } else { WARM_UP_AGAIN };
                    add(client, Self { warm_up, ..*self }.measure_http(client, &running)?);
                }
            }
        }
        Ok((Measured::mean(&load), Measured::mean(&other)))
    }

    fn measure_stdio(&self, client: Client) -> Result<Measured, Box<dyn Error>> {
        match client {
            Client::Load => self.run_load(&self.server.stdio_target(), &[]),
            Client::Other => self.run_script(&self.server.stdio_command()),
        }
    }

    fn measure_http(
        &self,
        client: Client,
        running: &HttpServer,
    ) -> Result<Measured, Box<dyn Error>> {
        match (client, self.rate) {
            (Client::Load, _) => {
                self.run_load(&running.url(), &[format!("--pid={}", running.id())])
            }
            (Client::Other, None) => self.run_wrk(running),
            (Client::Other, Some(_)) => self.run_script(&[running.url()]),
        }
    }

    fn run_load(&self, target: &str, flags: &[String]) -> Result<Measured, Box<dyn Error>> {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-servers-agreement.json");
        let call = &self.server.call;
        let mut command = Command::new(env!("CARGO_BIN_EXE_corelane-load"));
        command.args(["run", target, "--quiet", "--cores=1", "--lag-max=1s"]).args(flags);
        command.arg(format!("--tool={}", call["name"].as_str().unwrap_or_default()));
        command.arg(format!("--arguments={}", call["arguments"]));
        command.args([format!("--era={VERSION}"), format!("--warm-up={}", self.warm_up)]);
        command.arg(format!("--duration={}", self.seconds)).arg("--json").arg(&file);
        match (self.rate, self.transport) {
            (Some(rate), _) => command.args(["--connections=1", &format!("--rate={rate}")]),
            (None, Transport::Http) => {
                command.args(["--closed", &format!("--connections={CONNECTIONS}")])
            }
            (None, Transport::Stdio) => command.args(["--closed", &format!("--depth={DEPTH}")]),
        };
        let output = command.output()?;
        let result: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
        // Neighbours of a shared machine may make a run late: its figures are shown nonetheless.
        if result["totals"]["failure_ratio"] != 0.0 {
            let texts = [output.stdout, output.stderr].concat();
            return Err(String::from_utf8_lossy(&texts).into());
        }
        let number = |pointer: &str| {
            let found = result.pointer(pointer).and_then(Value::as_f64);
            found.ok_or_else(|| format!("no {pointer} in the result"))
        };
        Ok(Measured {
            rate: number("/totals/rate")?,
            p50_us: number("/response/p50_us")?,
            service_p50_us: number("/service/p50_us")?,
            cores: number("/generator/cores")? + number("/generator/spin_cores")?,
            server_cores: self.server_cores(&result).ok_or("no cores of the server")?,
        })
    }

    /// Returns the mean of the measured seconds: the total has the warm-up in it.
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    fn server_cores(&self, result: &Value) -> Option<f64> {
        let numbers = self.warm_up..self.warm_up + self.seconds;
        let each = numbers.map(|second| result.pointer(&format!("/seconds/{second}/server_cores")));
        let sum = each.map(|cores| cores?.as_f64()).sum::<Option<f64>>()?;
        Some(sum / self.seconds as f64)
    }

    fn run_script(&self, target: &[String]) -> Result<Measured, Box<dyn Error>> {
        let (kind, load) = self
            .rate
            .map_or_else(|| ("closed", DEPTH.to_string()), |rate| ("open", rate.to_string()));
        let (warm_up, seconds) = (self.warm_up.to_string(), self.seconds.to_string());
        let arguments = [kind.into(), load, warm_up, seconds, self.server.call.to_string()];
        let output = script_output(&[&arguments[..], target].concat())?;
        Ok(serde_json::from_str(&output)?)
    }

    /// Runs wrk twice, first as a warm-up, with as many sessions as connections, which the script
    /// makes and ends.
    fn run_wrk(&self, running: &HttpServer) -> Result<Measured, Box<dyn Error>> {
        let opened = script_output(&["sessions".into(), running.url(), CONNECTIONS.to_string()])?;
        let sessions: Vec<String> = opened.lines().map(ToOwned::to_owned).collect();
        let requests: Vec<Vec<u8>> =
            sessions.iter().map(|session| self.request(running, session)).collect();
        let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-servers.lua");
        let run = |seconds| {
            let settings = WrkSettings { connections: CONNECTIONS, seconds, responses: None };
            wrk::run(running.address, &requests, &script, settings)
        };
        run(self.warm_up)?;
        let before = running.cpu_time()?;
        let counts = run(self.seconds)?;
        let server_cpu = running.cpu_time()?.saturating_sub(before);
        script_output(&[&["end".into(), running.url()], &sessions[..]].concat())?;
        if counts.errors > 0 {
            return Err(format!("wrk had errors: {counts:?}").into());
        }
        #[expect(clippy::cast_precision_loss, reason = "displayed figures")]
        let (responses, p50_us) = (counts.responses as f64, counts.p50_us as f64);
        Ok(Measured {
            rate: responses / counts.seconds,
            p50_us,
            service_p50_us: p50_us,
            cores: 0.0,
            server_cores: server_cpu.as_secs_f64() / counts.seconds,
        })
    }

    /// Returns the bytes of a call in a session. The id has as many digits as those of
    /// `corelane-load`.
    fn request(&self, running: &HttpServer, session: &str) -> Vec<u8> {
        let (id, params) = (1_000_000_000, &self.server.call);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let body = body.to_string();
        let fields = [
            format!("POST /mcp HTTP/1.1\r\nHost: {}", running.address),
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream".into(),
            format!("MCP-Protocol-Version: {VERSION}\r\nMCP-Session-Id: {session}"),
            format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        ];
        fields.join("\r\n").into_bytes()
    }
}

/// Returns what the script prints.
fn script_output(arguments: &[String]) -> Result<String, Box<dyn Error>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/other_servers/independent.py");
    let output = Command::new("python3").arg(script).args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
