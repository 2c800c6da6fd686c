//! The servers: their commands, and processes that listen for HTTP.

use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use corelane_load::target::Target;
use serde_json::{Value, json};

/// A server of others: its command for each transport, and the parameters of the call.
#[derive(Debug)]
pub(crate) struct OtherServer {
    pub(crate) name: &'static str,
    program: PathBuf,
    script: PathBuf,
    stdio_flags: &'static [&'static str],
    pub(crate) call: Value,
}

impl OtherServer {
    pub(crate) fn all() -> [Self; 2] {
        let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_servers");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/load/other_servers");
        let everything = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let message = "abcdefghijklmnopqrstuvwxyzabcdef";
        [
            Self {
                name: "server-everything",
                program: "node".into(),
                script: installed.join(everything),
                stdio_flags: &["stdio"],
                call: json!({ "name": "echo", "arguments": { "message": message } }),
            },
            Self {
                name: "FastMCP",
                program: installed.join("python/bin/python"),
                script: tests.join("fastmcp_server.py"),
                stdio_flags: &[],
                call: json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }),
            },
        ]
    }

    /// Returns the command that serves over stdio, on core 0.
    pub(crate) fn stdio_command(&self) -> Vec<String> {
        let (program, script) = (self.program.display(), self.script.display());
        let command = ["taskset".into(), "-c".into(), "0".into(), program.to_string()].into_iter();
        let flags = self.stdio_flags.iter().map(ToString::to_string);
        command.chain([script.to_string()]).chain(flags).collect()
    }

    /// Returns the target of `corelane-load` that is this command.
    pub(crate) fn stdio_target(&self) -> String {
        Target::Command(self.stdio_command()).to_string()
    }

    /// Starts it over HTTP, and waits until it accepts connections.
    pub(crate) fn start(&self) -> Result<HttpServer, Box<dyn Error>> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(&self.program).arg(&self.script).env("PORT", &port);
        command.arg(if self.stdio_flags.is_empty() { &port } else { "streamableHttp" });
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = HttpServer { child: command.spawn()?, address };
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("{} has ended: {status}", self.name).into());
            }
            std::thread::yield_now();
        }
        Ok(server)
    }
}

/// A server over HTTP, killed when dropped.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl HttpServer {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU time of its threads so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration, Box<dyn Error>> {
        let mut sum = Duration::ZERO;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let nanoseconds = text.split(' ').next().ok_or("schedstat is empty")?;
            sum += Duration::from_nanos(nanoseconds.parse()?);
        }
        Ok(sum)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
