//! Runs wrk with the same request bytes as `corelane-load`, and parses its counts.
//!
//! Source: `SCRIPTING` of wrk 4: `wrk.format` returns the request, `response` receives each
//! response, and `done` the totals.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Length of the echoed message, in bytes.
pub const MESSAGE_BYTES: usize = 32;

/// Settings of a wrk run.
#[derive(Clone, Copy, Debug)]
pub struct WrkSettings {
    /// Connections, one request in flight on each.
    pub connections: usize,
    /// Run time, also after the last response.
    pub seconds: u64,
    /// Checked responses after which a thread stops; `None` for no limit and no checks.
    pub responses: Option<u64>,
}

/// Counts of a wrk run.
#[derive(Clone, Copy, Debug)]
pub struct WrkCounts {
    /// Responses.
    pub responses: u64,
    /// Correct responses, if they were checked.
    pub correct: u64,
    /// Errors of any kind.
    pub errors: u64,
    /// Run time in seconds.
    pub seconds: f64,
    /// Median response time in microseconds.
    pub p50_us: u64,
}

/// Runs wrk against `address` with one thread, which sends `requests` in turn; `script` is the path
/// of its Lua script. Of several requests each has an id of ten digits, which is replaced by those
/// that follow it.
///
/// # Errors
///
/// If wrk is missing or its output cannot be parsed.
pub fn run(
    address: SocketAddr,
    requests: &[Vec<u8>],
    script: &Path,
    order: WrkSettings,
) -> io::Result<WrkCounts> {
    std::fs::write(script, self::script(requests, order.responses))?;
    let output = Command::new("wrk")
        .args(["--threads=1"])
        .arg(format!("--connections={}", order.connections))
        .arg(format!("--duration={}", order.seconds))
        .args(["--timeout=30", "--script"])
        .arg(script)
        .arg(format!("http://{address}/mcp"))
        .output()
        .map_err(|error| {
            io::Error::other(format!(
                "wrk: {error}; loadtest/tests/install.sh installs it (./test.sh does)"
            ))
        })?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let line = stdout.lines().find_map(|line| line.strip_prefix("COUNTS "));
    let numbers = line.map(|line| line.split(' ').map(str::parse::<u64>));
    let numbers = numbers.and_then(|numbers| numbers.collect::<Result<Vec<u64>, _>>().ok());
    match numbers.as_deref() {
        Some(&[answers, right, errors, microseconds, p50_us]) => {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let seconds = microseconds as f64 / 1e6;
            Ok(WrkCounts { responses: answers, correct: right, errors, seconds, p50_us })
        }
        _ => Err(io::Error::other(format!(
            "cannot parse the output of wrk: {stdout}{}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// Returns the Lua script that sends these bytes, stops after `answers`, and prints the counts.
///
/// wrk asks for a single request once, by `wrk.format`, and for each of several by `request`.
fn script(requests: &[Vec<u8>], answers: Option<u64>) -> String {
    let message: String = ('a'..='z').cycle().take(MESSAGE_BYTES).collect();
    let mut text = String::from("local threads, requests = {}, {}\n");
    for request in requests {
        text.push_str("table.insert(requests, \"");
        for byte in request {
            // Writing to a string does not fail.
            write!(text, "\\{byte:03}").unwrap_or(());
        }
        text.push_str("\")\n");
    }
    text.push_str(
        "wrk.format = function() return requests[1] end\n\
         function setup(thread) table.insert(threads, thread) end\n",
    );
    if requests.len() > 1 {
        text.push_str(
            "local parts, last, id = {}, 0, 1000000000\n\
             for _, text in ipairs(requests) do\n\
             \x20 table.insert(parts, { text:match('^(.*\"id\":)%d+(.*)$') })\n\
             end\n\
             function request()\n\
             \x20 last, id = last % #parts + 1, id + 1\n\
             \x20 return parts[last][1] .. id .. parts[last][2]\n\
             end\n",
        );
    }
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
         \x20 local format = 'COUNTS %d %d %d %d %d\\n'\n\
         \x20 local duration, p50 = summary.duration, latency:percentile(50)\n\
         \x20 io.write(format:format(summary.requests, right, errors, duration, p50))\n\
         end\n",
    );
    text
}
