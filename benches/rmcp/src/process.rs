//! The servers as processes, and requests to them.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::RequestBuilder;
use serde_json::{Value, json};

const REVISION: &str = "2026-07-28";

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts `program` on a free port.
    pub fn start(program: &str, rates_url: &str) -> io::Result<Self> {
        let mut command = Command::new(program);
        let mut child = command.args(["127.0.0.1:0", rates_url]).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        Ok(Self { child, url: format!("http://{}/mcp", address.trim()) })
    }

    /// Returns a request with the headers and the metadata of the newest revision.
    pub fn request(
        &self,
        client: &reqwest::Client,
        method: &str,
        mut params: Value,
    ) -> RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "comparison", "version": "1"},
        });
        let request = client
            .post(&self.url)
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", REVISION)
            .header("Mcp-Method", method);
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let request = match name {
            Some(name) => request.header("Mcp-Name", name),
            None => request,
        };
        request.json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    /// Sends a request and returns the response.
    pub async fn exchange(
        &self,
        client: &reqwest::Client,
        method: &str,
        params: Value,
    ) -> reqwest::Result<Value> {
        let body = self.request(client, method, params).send().await?.text().await?;
        // The response is the last event of an event stream, or the body.
        let mut events = body.lines().filter_map(|line| line.strip_prefix("data:"));
        let text = events.rfind(|data| data.contains("jsonrpc")).unwrap_or(&body);
        Ok(serde_json::from_str(text.trim()).unwrap_or(Value::Null))
    }

    /// Returns the processor time of the process in clock ticks of 10 ms.
    pub fn cpu_ticks(&self) -> io::Result<u64> {
        cpu_ticks(self.child.id())
    }
}

/// Returns the processor time of the process `pid` in clock ticks of 10 ms.
pub fn cpu_ticks(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_ascii_whitespace().skip(11).take(2);
    Ok(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum())
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
