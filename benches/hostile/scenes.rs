//! The scenes: what hostile peers do.

use std::fs;
use std::io;
use std::iter::repeat_n;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use corelane_bench_support::frames;
use corelane_bench_support::requests::{
    self, FIRST_ID, INITIALIZED, META, RequestTemplate, modern_fields,
};

use crate::attack::Script;
use crate::conversation::{Addresses, Framing};
use crate::honest_client::Kind;

/// Large texts: below the default `message_bytes_max` of 16 MiB.
const LARGE_BYTES: usize = 15 << 20;
/// Size of the large file.
const FILE_BYTES: u64 = 8 << 20;
/// Percentage of the memory of the machine at which memory is short.
const PRESSURE_PERCENT: u64 = 1;
/// Time between two connections of a hostile peer.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after which a peer leaves that has sent its last request.
const LEAVES_AFTER: Duration = Duration::from_millis(300);
/// Connections that never end the head of a request.
const SLOW_HEADS: usize = 4_000;
/// Peers that open them.
const SLOW_PEERS: usize = 40;
/// The key set that invalid tokens name: the public key of RFC 7515, appendix A.3.
pub(crate) const KEY_SET: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1","alg":"ES256",
    "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "https://server.example";
/// Time for the response to an invalid token.
const TOKEN_TIME: Duration = Duration::from_millis(10);
/// Opens a session of 2025-11-25 with the elicitation capability.
const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
    r#""protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"#,
    r#""clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n"
);

/// A scene.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scene {
    /// No hostile peers: shows the noise of the machine.
    None,
    /// Responses of 8 MiB that are not read, over each transport.
    UnreadTcp,
    UnreadHttp,
    UnreadWebSocket,
    /// `inputResponses` whose parsed form is large, in slow calls.
    InputResponses,
    /// Open elicitation requests with large texts.
    Elicitations,
    /// Tasks with large results, whose clients have left.
    TaskResults,
    /// Slow calls with large arguments.
    Arguments,
    /// Large texts in calls that end at once.
    Echoes,
    /// Peers that send a slow call and close their connection.
    SlowAndClosed,
    /// As many sessions as possible.
    Sessions,
    /// Messages of which the end is missing, over each transport.
    HalfMessages,
    /// Long calls of a blocking tool.
    BlockingCalls,
    /// Long tasks of clients that leave.
    Tasks,
    /// Requests with tokens whose signatures are wrong, each another one.
    InvalidTokens,
    /// Thousands of connections with half of the head of a request.
    SlowHeads,
    /// Responses that are not read, until the memory guard refuses new connections and large
    /// messages; then attempts to send large messages over new connections.
    MemoryPressure,
    /// The same with large messages over open connections, which the server reads and drops.
    PressureMessages,
}

/// What scripts need of the server and its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) addresses: Addresses,
    /// URI of a file of 8 MiB.
    pub(crate) large_file: &'a str,
    pub(crate) memory_bytes_max: u64,
}

impl Scene {
    pub(crate) const ALL: [Self; 18] = [
        Self::None,
        Self::UnreadTcp,
        Self::UnreadHttp,
        Self::UnreadWebSocket,
        Self::InputResponses,
        Self::Elicitations,
        Self::TaskResults,
        Self::Arguments,
        Self::Echoes,
        Self::SlowAndClosed,
        Self::Sessions,
        Self::HalfMessages,
        Self::BlockingCalls,
        Self::Tasks,
        Self::InvalidTokens,
        Self::SlowHeads,
        Self::MemoryPressure,
        Self::PressureMessages,
    ];

    /// Returns its name on the command line and in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::UnreadTcp => "unread-tcp",
            Self::UnreadHttp => "unread-http",
            Self::UnreadWebSocket => "unread-websocket",
            Self::InputResponses => "input-responses",
            Self::Elicitations => "elicitations",
            Self::TaskResults => "task-results",
            Self::Arguments => "arguments",
            Self::Echoes => "echoes",
            Self::SlowAndClosed => "slow-and-closed",
            Self::Sessions => "sessions",
            Self::HalfMessages => "half-messages",
            Self::BlockingCalls => "blocking-calls",
            Self::Tasks => "tasks",
            Self::InvalidTokens => "invalid-tokens",
            Self::SlowHeads => "slow-heads",
            Self::MemoryPressure => "memory-pressure",
            Self::PressureMessages => "pressure-messages",
        }
    }

    /// Returns the scene of a name.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let scene = Self::ALL.into_iter().find(|scene| scene.name() == name);
        scene.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            io::Error::other(format!("no scene {name}; the scenes are {names}"))
        })
    }

    /// Returns further arguments of the server; `key_set` is the path of [`KEY_SET`]. Requests
    /// without a token are admitted, such as those of the honest clients.
    pub(crate) fn server_arguments(self, key_set: &str) -> String {
        match self {
            Self::InvalidTokens => format!(
                " --auth-key-sets {key_set} --auth-issuers {ISSUER} --auth-resource {AUDIENCE} \
                 --auth-anonymous true"
            ),
            Self::MemoryPressure | Self::PressureMessages => format!(
                " --memory-guard-refuse-connections-percent {PRESSURE_PERCENT} \
                 --memory-guard-refuse-messages-percent {PRESSURE_PERCENT} \
                 --memory-guard-end-streams-percent {PRESSURE_PERCENT} \
                 --memory-guard-interval 100ms"
            ),
            _ => String::new(),
        }
    }

    /// Returns the time until its state is reached.
    pub(crate) const fn onset(self) -> Duration {
        match self {
            Self::MemoryPressure | Self::PressureMessages => Duration::from_secs(2),
            _ => Duration::ZERO,
        }
    }

    /// Returns whether the server serves clients of this kind: the memory guard refuses new
    /// connections.
    pub(crate) fn admits(self, kind: Kind) -> bool {
        !self.has_memory_guard() || kind != Kind::NewConnection
    }

    const fn has_memory_guard(self) -> bool {
        matches!(self, Self::MemoryPressure | Self::PressureMessages)
    }

    /// Checks that memory was short, given the largest resident memory of the server.
    pub(crate) fn check_peak(self, peak: u64) -> io::Result<()> {
        if !self.has_memory_guard() {
            return Ok(());
        }
        let machine = fs::read_to_string("/proc/meminfo")?;
        let total = machine.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok());
        let total: u64 = total.ok_or_else(|| io::Error::other("no MemTotal"))?;
        let begins_at = total * 1024 / 100 * PRESSURE_PERCENT;
        if peak >= begins_at {
            return Ok(());
        }
        let (peak, begins_at) = (peak >> 20, begins_at >> 20);
        Err(io::Error::other(format!("{peak} MiB are no pressure, {begins_at} are: use --memory")))
    }

    /// Returns what its peers do.
    pub(crate) fn scripts(self, target: &Target<'_>) -> Vec<Script> {
        match self {
            Self::None => Vec::new(),
            Self::UnreadTcp => vec![unread(target, Framing::Lines)],
            Self::UnreadHttp => vec![unread(target, Framing::Http)],
            Self::UnreadWebSocket => vec![unread(target, Framing::Frames)],
            Self::InputResponses => vec![input_responses()],
            Self::Elicitations => {
                let arguments = format!(r#"{{"message":"{}"}}"#, text(LARGE_BYTES));
                let call = tool("test_elicitation", &arguments, "");
                let script = Script { connections: 2, sends: 128, ..Script::lines(call) };
                vec![Script { opening: handshake(), ..script }]
            }
            Self::TaskResults => {
                let label = text(LARGE_BYTES);
                let call = task(&format!(r#"{{"seconds":0.01,"label":"{label}"}}"#));
                let script = Script { connections: 8, sends: 8, ..Script::lines(call) };
                let leaves_after = Some(LEAVES_AFTER);
                vec![Script { opening: handshake(), leaves_after, ..script }]
            }
            Self::Arguments => {
                let arguments = format!(r#"{{"seconds":600,"label":"{}"}}"#, text(LARGE_BYTES));
                let call = tool("slow_compute", &arguments, META);
                vec![Script { connections: 8, sends: 64, ..Script::lines(call) }]
            }
            Self::Echoes => vec![echoes()],
            Self::SlowAndClosed => {
                let call = tool("slow", r#"{"steps":600,"step_ms":1000}"#, META);
                let script = Script { connections: 8, ..Script::lines(call) };
                let (leaves_after, pause) = (Some(Duration::ZERO), Duration::from_millis(4));
                vec![Script { reads: false, leaves_after, pause, ..script }]
            }
            Self::Sessions => {
                let initialize = INITIALIZE.replacen(":0,", &format!(":{FIRST_ID},"), 1);
                let post = requests::post(target.addresses.http, "", &initialize);
                let script = Script { framing: Framing::Http, ..Script::lines(post) };
                vec![Script { connections: 4, batch: 64, sends: usize::MAX, ..script }]
            }
            Self::HalfMessages => half_messages(target),
            Self::BlockingCalls => {
                let call = tool("hash", r#"{"bytes":1073741824}"#, META);
                vec![Script { connections: 8, sends: 160, ..Script::lines(call) }]
            }
            Self::Tasks => {
                let call = task(r#"{"seconds":600}"#);
                let script = Script { connections: 8, sends: 256, ..Script::lines(call) };
                let leaves_after = Some(LEAVES_AFTER);
                vec![Script { opening: handshake(), leaves_after, ..script }]
            }
            Self::InvalidTokens => vec![invalid_tokens(target.addresses.http)],
            Self::SlowHeads => vec![slow_heads()],
            Self::MemoryPressure => {
                let leaves_after = Some(Duration::ZERO);
                vec![held(target), Script { sends: 1, leaves_after, ..echoes() }]
            }
            Self::PressureMessages => vec![held(target), echoes()],
        }
    }
}

fn input_responses() -> Script {
    let items = repeat_n("[0]", 1 << 18).collect::<Vec<_>>().join(",");
    let members = format!(r#","inputResponses":{{"items":[{items}]}}"#);
    let call = tool("slow", r#"{"steps":600,"step_ms":1000}"#, &(members + META));
    Script { connections: 8, sends: 64, ..Script::lines(call) }
}

fn invalid_tokens(host: SocketAddr) -> Script {
    let script = Script { framing: Framing::Http, ..Script::lines(invalid_token_post(host)) };
    let (leaves_after, pause) = (Some(TOKEN_TIME), Duration::ZERO);
    Script { connections: 64, leaves_after, pause, ..script }
}

fn slow_heads() -> Script {
    let opening = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_vec();
    let script = Script { framing: Framing::Http, ..Script::lines(String::new()) };
    let further = SLOW_HEADS / SLOW_PEERS - 1;
    Script { connections: SLOW_PEERS, further, opening, sends: 0, ..script }
}

/// Returns a call whose token has a wrong signature, with its id in the signature.
fn invalid_token_post(host: SocketAddr) -> String {
    let (header, claims) = (
        r#"{"alg":"ES256","typ":"at+jwt","kid":"1"}"#.to_owned(),
        format!(r#"{{"iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"eve","exp":4102444800}}"#),
    );
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    // 64 bytes: two numbers of the group.
    let signature = format!("{:A<86}", format!("AAAB{FIRST_ID}{}", "AAAB".repeat(14)));
    let token = format!("Authorization: Bearer {header}.{claims}.{signature}\r\n");
    let fields = token + &modern_fields("tools/call", Some("echo"));
    requests::post(host, &fields, &tool("echo", r#"{"message":"a"}"#, META))
}

impl Script {
    /// One connection over TCP that sends `request` once, reads, and stays.
    fn lines(request: String) -> Self {
        Self {
            connections: 1,
            further: 0,
            framing: Framing::Lines,
            opening: Vec::new(),
            request: RequestTemplate::new(request),
            batch: 1,
            sends: 1,
            reads: true,
            leaves_after: None,
            pause: PAUSE,
        }
    }
}

/// Eight connections that ask 250 times each for a large file and do not read.
fn unread(target: &Target<'_>, framing: Framing) -> Script {
    let uri = target.large_file;
    let text = request("resources/read", &format!(r#""uri":"{uri}"{META}"#));
    let request = match framing {
        Framing::Lines => RequestTemplate::new(text),
        Framing::Http => {
            let fields = modern_fields("resources/read", Some(uri));
            RequestTemplate::new(requests::post(target.addresses.http, &fields, &text))
        }
        Framing::Frames => frames::request_frame(text.trim_ascii_end().to_owned()),
    };
    let script = Script { connections: 8, sends: 250, framing, ..Script::lines(String::new()) };
    Script { request, reads: false, ..script }
}

/// Eight connections that hold half of the memory limit together: each asks for large files in one
/// send and does not read.
fn held(target: &Target<'_>) -> Script {
    let script = unread(target, Framing::Lines);
    let share = target.memory_bytes_max / 2 / script.connections as u64;
    let batch = usize::try_from(share / FILE_BYTES).unwrap_or(usize::MAX).max(1);
    Script { batch, sends: 1, ..script }
}

/// Eight connections that send large messages, which are sent back.
fn echoes() -> Script {
    let arguments = format!(r#"{{"message":"{}"}}"#, text(LARGE_BYTES));
    let call = tool("echo", &arguments, META);
    Script { connections: 8, sends: usize::MAX, ..Script::lines(call) }
}

/// Half messages of 1.5 times the memory limit together.
fn half_messages(target: &Target<'_>) -> Vec<Script> {
    let total = target.memory_bytes_max * 3 / 2;
    let connections = usize::try_from(total).unwrap_or(usize::MAX).div_ceil(LARGE_BYTES);
    let arguments = format!(r#"{{"message":"{}"}}"#, text(LARGE_BYTES));
    let call = tool("echo", &arguments, META);
    let without_end = |mut message: Vec<u8>| {
        message.truncate(message.len() - META.len());
        message
    };
    let fields = modern_fields("tools/call", Some("echo"));
    let post = requests::post(target.addresses.http, &fields, &call);
    [
        (Framing::Http, without_end(post.into_bytes())),
        (Framing::Frames, without_end(frames::masked(&call))),
        (Framing::Lines, without_end(call.into_bytes())),
    ]
    .map(|(framing, opening)| {
        let connections = connections.div_ceil(3);
        Script { connections, framing, opening, sends: 0, ..Script::lines(String::new()) }
    })
    .into()
}

fn request(method: &str, params: &str) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"{method}""#);
    format!("{head},\"params\":{{{params}}}}}\n")
}

/// Returns a tool call; `members` are further members of `params`, with a leading comma.
fn tool(name: &str, arguments: &str, members: &str) -> String {
    request("tools/call", &format!(r#""name":"{name}","arguments":{arguments}{members}"#))
}

/// Returns a call of `slow_compute` as a task of 2025-11-25.
fn task(arguments: &str) -> String {
    tool("slow_compute", arguments, r#","task":{"ttl":3600000}"#)
}

fn handshake() -> Vec<u8> {
    [INITIALIZE, INITIALIZED].concat().into_bytes()
}

fn text(bytes: usize) -> String {
    requests::message(bytes)
}
