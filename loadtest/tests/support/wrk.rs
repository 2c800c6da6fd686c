//! wrk, the load generator of others: it sends the same bytes as ours and says what it has counted.
//!
//! Source: `SCRIPTING` of wrk 4: `wrk.format` makes the request, `response` sees each answer, and
//! `done` gets the sums.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use corelane_load::dialogue::call::{Call, ID_FIRST, Speech};
use corelane_load::target::{Era, Transport};

/// Bytes of the message that is said back.
pub(crate) const MESSAGE_BYTES: usize = 32;

/// What wrk is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Connections, all on one thread, one request in flight on each.
    pub(crate) connections: usize,
    /// How long; also where it has nothing more to do.
    pub(crate) seconds: u64,
    /// After how many answers it stops, looking at each of them; none for as fast as it can.
    pub(crate) answers: Option<u64>,
}

/// What it says that it has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Answers.
    pub(crate) answers: u64,
    /// Answers that said what they should, where it looked at them.
    pub(crate) right: u64,
    /// Errors of any kind.
    pub(crate) errors: u64,
    /// Seconds that it took.
    pub(crate) seconds: f64,
}

/// A call of this tool as our own generator posts it: by default `echo`.
pub(crate) fn request(address: SocketAddr, tool: Option<&str>) -> Vec<u8> {
    let speech = Speech {
        transport: Transport::Http,
        era: Era::Modern,
        authority: address.to_string(),
        path: "/mcp".into(),
        fields: Vec::new(),
    };
    let call = tool.map_or_else(
        || Call::echo(&speech, MESSAGE_BYTES),
        |tool| {
            let params = serde_json::json!({ "name": tool, "arguments": {} });
            Call::new(&speech, ("tools/call", params.as_object().cloned()), None)
        },
    );
    let mut bytes = Vec::new();
    call.write(&mut bytes, ID_FIRST, None);
    bytes
}

/// Has wrk send `request` to `address`; `script` is a file of its own for what it is told.
///
/// # Errors
///
/// Where it is not there, or says nothing that can be understood.
pub(crate) fn run(
    address: SocketAddr,
    request: &[u8],
    script: &Path,
    order: Order,
) -> io::Result<Told> {
    std::fs::write(script, self::script(request, order.answers))?;
    let output = Command::new("wrk")
        .args(["--threads=1", &format!("--connections={}", order.connections)])
        .args([&format!("--duration={}", order.seconds), "--timeout=30", "--script"])
        .arg(script)
        .arg(format!("http://{address}/mcp"))
        .output()
        .map_err(|error| {
            io::Error::other(format!(
                "wrk: {error}; loadtest/tests/install.sh installs it (./test.sh does)"
            ))
        })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.strip_prefix("TOLD "));
    let numbers = line.map(|line| line.split(' ').map(str::parse::<u64>));
    let numbers = numbers.and_then(|numbers| numbers.collect::<Result<Vec<u64>, _>>().ok());
    match numbers.as_deref() {
        Some(&[answers, right, errors, microseconds]) => {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let seconds = microseconds as f64 / 1e6;
            Ok(Told { answers, right, errors, seconds })
        }
        _ => Err(io::Error::other(format!(
            "wrk said nothing of use: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// What tells wrk to send these bytes, to stop after so many answers, and to say what it counted.
fn script(request: &[u8], answers: Option<u64>) -> String {
    let message: String = ('a'..='z').cycle().take(MESSAGE_BYTES).collect();
    let mut text = String::from("local raw = \"");
    for byte in request {
        // Writing to a string does not fail.
        write!(text, "\\{byte:03}").unwrap_or(());
    }
    text.push_str("\"\nwrk.format = function() return raw end\n");
    text.push_str("local threads = {}\nfunction setup(thread) table.insert(threads, thread) end\n");
    if let Some(answers) = answers {
        write!(
            text,
            "seen, right = 0, 0\n\
             function response(status, headers, body)\n\
             \x20 seen = seen + 1\n\
             \x20 if status == 200 and body:find('\"{message}\"', 1, true) then \
             right = right + 1 end\n\
             \x20 if seen == {answers} then wrk.thread:stop() end\n\
             end\n"
        )
        .unwrap_or(());
    }
    text.push_str(
        "function done(summary, latency, requests)\n\
         \x20 local right, errors = 0, 0\n\
         \x20 for _, thread in ipairs(threads) do right = right + (thread:get('right') or 0) end\n\
         \x20 for _, count in pairs(summary.errors) do errors = errors + count end\n\
         \x20 local format = 'TOLD %d %d %d %d\\n'\n\
         \x20 io.write(format:format(summary.requests, right, errors, summary.duration))\n\
         end\n",
    );
    text
}
