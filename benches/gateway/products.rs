//! The products under test: how they are started, and how clients speak to them.

use std::path::Path;

use corelane_bench_support::requests::Era;

use crate::caller::Transport;

/// The program of Corelane.
pub(crate) const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
/// The name of the gateway of Corelane over TCP, to which the first goals apply.
pub(crate) const TCP: &str = "corelane gateway, TCP";
/// The same over HTTP.
pub(crate) const HTTP: &str = "corelane gateway, HTTP";
/// The server without a gateway over TCP.
pub(crate) const DIRECT_TCP: &str = "none, TCP";
/// Where the port goes in a command line.
const PORT: &str = "{port}";
const MCP: Transport = Transport::Http("/mcp");
const REST: Transport = Transport::Rest("/echo");

/// A product under test.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
    pub(crate) transport: Transport,
    pub(crate) era: Era,
    /// Name of the echo tool.
    pub(crate) tool: &'static str,
}

impl Product {
    fn new(name: &'static str, transport: Transport, command: &[&str]) -> Self {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Self { name, command, transport, era: Era::Legacy, tool: "echo" }
    }

    const fn modern(mut self) -> Self {
        self.era = Era::Modern;
        self
    }

    const fn over(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Its command line for this port.
    pub(crate) fn command(&self, port: u16) -> Vec<String> {
        self.command.iter().map(|word| word.replace(PORT, &port.to_string())).collect()
    }
}

/// Returns `corelane gateway` over TCP or HTTP in front of `child`.
pub(crate) fn gateway(transport: Transport, share: &str, child: &[&str]) -> Product {
    let address = "127.0.0.1:{port}";
    let (name, listeners) = match transport {
        Transport::Lines => (TCP, ["--tcp", address, "--http", "off"]),
        _ => (HTTP, ["--http", address, "--tcp", "off"]),
    };
    let mut command = vec![CORELANE, "gateway", "--share", share, "--shards", "1"];
    command.extend(listeners);
    command.extend(["--tcp-connections-max", "60000", "--http-connections-max", "60000"]);
    command.extend(["--http-sessions-max", "60000", "--"]);
    command.extend(child);
    Product::new(name, transport, &command)
}

/// Returns what is measured without rivals: the server itself, and the gateway in front of one
/// child that all share.
pub(crate) fn own() -> Vec<Product> {
    let (lines, http) = (Transport::Lines, MCP);
    let serve = [CORELANE, "serve", "--shards", "1"];
    let over_tcp = [&serve[..], &["--tcp", "127.0.0.1:{port}", "--http", "off"]].concat();
    let over_http = [&serve[..], &["--http", "127.0.0.1:{port}", "--tcp", "off"]].concat();
    let child = [CORELANE, "stdio"];
    let mut modern = gateway(http, "all", &child).modern();
    modern.name = "corelane gateway, HTTP, 2026-07-28";
    vec![
        Product::new(DIRECT_TCP, lines, &over_tcp),
        gateway(lines, "all", &child),
        Product::new("none, HTTP", http, &over_http),
        gateway(http, "all", &child),
        modern,
    ]
}

/// Returns the rivals below `folder`, each in front of `child`, and the names of those that are not
/// there.
pub(crate) fn rivals(folder: &Path, child: &[&str]) -> (Vec<Product>, Vec<&'static str>) {
    let at = |path: &str| folder.join(path).to_string_lossy().into_owned();
    let npm = |program: &str| at(&format!("node/node_modules/.bin/{program}"));
    let rivals = [
        crate_mcp_proxy(&at("cargo/bin/mcp-proxy"), &at("cargo/{port}.toml"), child),
        npm_mcp_proxy(&npm("mcp-proxy"), child),
        supergateway(&npm("supergateway"), child),
        python_proxy("PyPI mcp-proxy 0.13.0", &at("python/bin/mcp-proxy"), child),
        python_proxy("PyPI mcpo 0.0.20, OpenAPI", &at("mcpo/bin/mcpo"), child).over(REST),
        contextforge(&at("contextforge/bin/python"), child),
    ];
    let is_there = |product: &Product| {
        let program = product.command.iter().find(|word| Path::new(word).starts_with(folder));
        program.is_some_and(|program| Path::new(program).exists())
    };
    let (there, missing): (Vec<_>, Vec<_>) = rivals.into_iter().partition(is_there);
    (there, missing.into_iter().map(|product| product.name).collect())
}

/// It reads a file, which the shell writes before.
fn crate_mcp_proxy(program: &str, file: &str, child: &[&str]) -> Product {
    let script = "printf %s \"$2\" > \"$1\" && exec \"$0\" --config \"$1\"";
    let config = format!(
        "[proxy]\nname = \"bench\"\nseparator = \"_\"\n\n[proxy.listen]\nhost = \"127.0.0.1\"\n\
         port = {PORT}\n\n[[backends]]\nname = \"s\"\ntransport = \"stdio\"\ncommand = {:?}\n\
         args = {:?}\n",
        child[0],
        &child[1..]
    );
    let command = ["sh", "-c", script, program, file, &config];
    let mut product = Product::new("crate mcp-proxy 0.6.0", Transport::Http("/"), &command);
    product.tool = "s_echo";
    product
}

fn npm_mcp_proxy(program: &str, child: &[&str]) -> Product {
    let flags = [program, "--host", "127.0.0.1", "--port", PORT, "--server", "stream", "--"];
    Product::new("npm mcp-proxy 6.7.19", MCP, &[&flags, child].concat())
}

fn supergateway(program: &str, child: &[&str]) -> Product {
    let line = shell_line(child);
    let command = [program, "--stdio", &line, "--outputTransport", "streamableHttp", "--stateful"];
    let flags = ["--port", PORT, "--logLevel", "none"];
    Product::new("npm supergateway 4.0.0 --stateful", MCP, &[&command[..], &flags].concat())
}

fn python_proxy(name: &'static str, program: &str, child: &[&str]) -> Product {
    let flags = [program, "--host", "127.0.0.1", "--port", PORT, "--"];
    Product::new(name, MCP, &[&flags, child].concat())
}

/// Its part for programs; it does not start without secrets.
fn contextforge(python: &str, child: &[&str]) -> Product {
    let line = shell_line(child);
    let secrets = [
        "env",
        "JWT_SECRET_KEY=Bench-0123456789-abcdefghijklmnop-QRSTUV",
        "AUTH_ENCRYPTION_SECRET=Bench-9876543210-abcdefghijklmnop-QRSTUV",
    ];
    let command = [python, "-m", "mcpgateway.translate", "--stdio", &line];
    let flags = ["--expose-streamable-http", "--host", "127.0.0.1", "--port", PORT];
    let command = [&secrets[..], &command, &flags].concat();
    Product::new("ContextForge 1.1.0, translate", MCP, &command)
}

/// Returns a command line for programs that take it as one word.
fn shell_line(command: &[&str]) -> String {
    shlex::try_join(command.iter().copied()).unwrap_or_default()
}
