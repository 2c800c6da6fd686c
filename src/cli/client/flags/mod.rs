//! The client commands and their flags.

pub(crate) mod credentials;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use corelane_client::{EraPreference, RetryPolicy, TlsOptions};

use super::arguments::{GivenArguments, Pair};
use super::failure::Failure;
use crate::config::unit::Unit;

pub(crate) const TARGET: &str = "target";
pub(crate) const NAME: &str = "name";
pub(crate) const PAIRS: &str = "pairs";
pub(crate) const PROMPT: &str = "prompt";
pub(crate) const RESOURCE: &str = "resource";
pub(crate) const URIS: &str = "uris";
pub(crate) const FILE: &str = "file";
pub(crate) const COUNT: &str = "count";
pub(crate) const TASK: &str = "task";
pub(crate) const TTL: &str = "ttl";
pub(crate) const REPEAT: &str = "repeat";
pub(crate) const ACTION: &str = "action";
pub(crate) const TASK_ID: &str = "id";
pub(crate) const JSON: &str = "json";
pub(crate) const OUTPUT: &str = "output";
pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const ERA: &str = "era";
pub(crate) const DIALECT: &str = "dialect";
/// The value of [`DIALECT`] for the parity dialect.
pub(crate) const PARITY: &str = "parity";
pub(crate) const ENV: &str = "env";
pub(crate) const CONNECT_TO: &str = "connect-to";
pub(crate) const VERBOSE: &str = "verbose";
pub(crate) const RETRY: &str = "retry";
pub(crate) const NO_RETRY: &str = "no-retry";
/// What is done with tasks; the first is the default.
pub(crate) const TASK_ACTIONS: [&str; 4] = ["list", "get", "result", "cancel"];
const CA: &str = "ca";
const CERT: &str = "cert";
const KEY: &str = "key";
const PIN: &str = "pin";
const SERVER_NAME: &str = "server-name";
const ARGUMENTS: &str = "arguments";

/// Longest time that `--timeout` takes.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// What a command is called, what it does, its own arguments, and an example.
struct Row {
    name: &'static str,
    about: &'static str,
    arguments: fn(Command) -> Command,
    example: &'static str,
}

const ROWS: [Row; 13] = [
    Row {
        name: "tools",
        about: "List the tools of a server, with their arguments",
        arguments: |command| command,
        example: "corelane tools http://127.0.0.1:8080",
    },
    Row {
        name: "call",
        about: "Call a tool of a server and print its result",
        arguments: |command| {
            with_arguments(command.arg(name("TOOL", "Name of the tool")))
                .args(task())
                .arg(repeat())
                .arg(output())
        },
        example: "corelane call http://127.0.0.1:8080 echo message=hi",
    },
    Row {
        name: "tasks",
        about: "List, look at, wait for or cancel the tasks of a server",
        arguments: |command| command.args(task_action()).arg(output()),
        example: "corelane tasks http://127.0.0.1:8080 result 5f1d",
    },
    Row {
        name: "resources",
        about: "List the resources and resource templates of a server",
        arguments: |command| command,
        example: "corelane resources http://127.0.0.1:8080",
    },
    Row {
        name: "read",
        about: "Read a resource of a server and print its contents",
        arguments: |command| command.arg(name("URI", "URI of the resource")).arg(output()),
        example: "corelane read http://127.0.0.1:8080 file:///notes.txt --output notes.txt",
    },
    Row {
        name: "prompts",
        about: "List the prompts of a server, with their arguments",
        arguments: |command| command,
        example: "corelane prompts http://127.0.0.1:8080",
    },
    Row {
        name: "prompt",
        about: "Get a prompt of a server and print its messages",
        arguments: |command| with_arguments(command.arg(name("PROMPT", "Name of the prompt"))),
        example: "corelane prompt http://127.0.0.1:8080 review language=Rust",
    },
    Row {
        name: "skills",
        about: "List the skills of a server",
        arguments: |command| command,
        example: "corelane skills http://127.0.0.1:8080",
    },
    Row {
        name: "skill",
        about: "Read a skill of a server, verify it and print its instructions or one of its files",
        arguments: |command| {
            let name = name("URI", "URI of the skill's SKILL.md");
            command.arg(name).arg(skill_file()).arg(output())
        },
        example: "corelane skill http://127.0.0.1:8080 skill://pdf/SKILL.md scripts/fill.py",
    },
    Row {
        name: "complete",
        about: "Complete an argument of a prompt or a variable of a resource template",
        arguments: with_reference,
        example: "corelane complete http://127.0.0.1:8080 --prompt review language=Ru",
    },
    Row {
        name: "ping",
        about: "Check that a server answers and print the time of the round trip",
        arguments: |command| command.arg(count()),
        example: "corelane ping http://127.0.0.1:8080 -n 5",
    },
    Row {
        name: "listen",
        about: "Print the changes of lists and resources until the server ends",
        arguments: |command| command.arg(uris()),
        example: "corelane listen http://127.0.0.1:8080 file:///notes.txt",
    },
    Row {
        name: "inspect",
        about: "Print what a server declares and offers: identity, capabilities, all lists",
        arguments: |command| command,
        example: "corelane inspect 'stdio:corelane stdio'",
    },
];

pub(crate) fn commands() -> impl Iterator<Item = Command> {
    ROWS.iter().map(|row| Command::new(row.name).about(row.about).defer(with_flags))
}

/// Returns whether `name` is a client command.
pub(crate) fn is_client_command(name: &str) -> bool {
    ROWS.iter().any(|row| row.name == name)
}

/// Adds the flags to the command that runs; those of the others are not needed.
fn with_flags(command: Command) -> Command {
    let row = ROWS.iter().find(|row| row.name == command.get_name());
    let command = command.arg(target_argument());
    let command = match row {
        Some(row) => (row.arguments)(command).after_help(format!(
            "Example: {}\n\
             Exit codes: 0 success, 1 the connection or the call failed, 2 usage error.",
            row.example
        )),
        None => command,
    };
    command.args(connection_flags()).args(retry_flags()).args([
        Arg::new(JSON)
            .long(JSON)
            .action(ArgAction::SetTrue)
            .help("Print the result as the server sent it, as one JSON document"),
        Arg::new(TIMEOUT).long(TIMEOUT).value_name("SECONDS").value_parser(parse_timeout).help(
            "Longest time of the whole command, such as 5, 0.5 or 2min: connecting, login, all \
                 requests and their repeats; of listen, until it listens. Without it, each request \
                 has 30 s",
        ),
        Arg::new(DIALECT)
            .long(DIALECT)
            .value_name("mcp|parity")
            .value_parser(["mcp", PARITY])
            .hide_possible_values(true)
            .conflicts_with(ERA)
            .help("Protocol to speak: MCP, or the parity dialect (docs/parity) [mcp]"),
        Arg::new(VERBOSE)
            .short('v')
            .long(VERBOSE)
            .action(ArgAction::SetTrue)
            .help("Print the revision, the name of the server and the times to standard error"),
    ])
}

/// The server that a command talks to.
pub(crate) fn target_argument() -> Arg {
    Arg::new(TARGET).value_name("TARGET").required(true).help(
        "The server: http://HOST:PORT/PATH, ws://HOST:PORT/PATH, tcp://HOST:PORT, the same with \
         TLS as https://, wss:// and tls://, unix:PATH or stdio:COMMAND",
    )
}

/// How the server is reached, and with what credentials.
pub(crate) fn connection_flags() -> Vec<Arg> {
    let mut flags = Vec::from(tls_flags());
    flags.extend(credentials::login_arguments());
    flags.extend(credentials::arguments());
    flags.extend([
        Arg::new(ERA)
            .long(ERA)
            .value_name("auto|modern|YYYY-MM-DD")
            .value_parser(value_parser!(EraPreference))
            .help("Revision of MCP: the newest that both know, only 2026-07-28, or this [auto]"),
        Arg::new(ENV)
            .long(ENV)
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .value_parser(parse_variable)
            .help("Set an environment variable of the program of a stdio: target; repeatable"),
        Arg::new(CONNECT_TO)
            .long(CONNECT_TO)
            .value_name("HOST:PORT")
            .action(ArgAction::Append)
            .help(
                "Connect to this address instead of that of the target, whose name stays in Host \
                 and in the check of its certificate; also as curl has it, \
                 HOST1:PORT1:HOST2:PORT2",
            ),
    ]);
    flags
}

/// Which requests are sent again.
fn retry_flags() -> [Arg; 2] {
    [
        Arg::new(RETRY).long(RETRY).action(ArgAction::SetTrue).conflicts_with(NO_RETRY).help(
            "Send a request again that may have run: up to three times after status 5xx, a timeout \
             or a lost connection. A call may run several times",
        ),
        Arg::new(NO_RETRY).long(NO_RETRY).action(ArgAction::SetTrue).help(
            "Send no request again, not even one that did not start or that may run twice without \
             harm",
        ),
    ]
}

/// Returns which requests are sent again.
pub(crate) fn retry_policy(matches: &ArgMatches) -> RetryPolicy {
    match () {
        () if matches.get_flag(RETRY) => RetryPolicy::all(),
        () if matches.get_flag(NO_RETRY) => RetryPolicy::never(),
        () => RetryPolicy::safe(),
    }
}

/// Flags of a target that begins with `https://` or `tls://`.
fn tls_flags() -> [Arg; 5] {
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    [
        file(CA).help("Trusted CA certificates (PEM), instead of those of this machine"),
        file(CERT).requires(KEY).help("Client certificate chain (PEM)"),
        file(KEY).requires(CERT).help("Private key of the client certificate (PEM)"),
        Arg::new(PIN).long(PIN).value_name("SHA256").action(ArgAction::Append).help(
            "Accept only a server with this public key: the SHA-256 of its SubjectPublicKeyInfo \
             in base64 (RFC 7469); repeatable",
        ),
        Arg::new(SERVER_NAME)
            .long(SERVER_NAME)
            .value_name("NAME")
            .help("Name expected in the server's certificate, instead of the host"),
    ]
}

/// Reads the flags of TLS; `None` without any.
pub(crate) fn given_tls(matches: &ArgMatches) -> Option<TlsOptions> {
    let given = [CA, CERT, KEY, PIN, SERVER_NAME];
    if !given.iter().any(|flag| matches.contains_id(flag)) {
        return None;
    }
    let file = |flag| matches.get_one::<PathBuf>(flag).cloned();
    let mut tls = TlsOptions::new();
    if let Some(ca) = file(CA) {
        tls = tls.ca(ca);
    }
    if let (Some(cert), Some(key)) = (file(CERT), file(KEY)) {
        tls = tls.client_certificate(cert, key);
    }
    for pin in matches.get_many::<String>(PIN).into_iter().flatten() {
        tls = tls.pin(pin);
    }
    match matches.get_one::<String>(SERVER_NAME) {
        Some(name) => Some(tls.server_name(name)),
        None => Some(tls),
    }
}

fn name(value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(NAME).value_name(value_name).required(true).help(help)
}

/// Adds the arguments of a tool or prompt.
fn with_arguments(command: Command) -> Command {
    let pairs = pairs()
        .help("An argument: key=value, where the value is JSON if the tool takes it, or key:=JSON");
    command.arg(pairs.conflicts_with(ARGUMENTS)).arg(
        Arg::new(ARGUMENTS)
            .long(ARGUMENTS)
            .value_name("JSON|@FILE|-")
            .help("All arguments as one JSON object, from a file or from standard input"),
    )
}

fn with_reference(command: Command) -> Command {
    let pairs = pairs()
        .required(true)
        .help("The argument and what is typed so far; arguments whose values are known may follow");
    command
        .arg(pairs)
        .arg(
            Arg::new(PROMPT)
                .long(PROMPT)
                .value_name("NAME")
                .required_unless_present(RESOURCE)
                .conflicts_with(RESOURCE)
                .help("The prompt whose argument is completed"),
        )
        .arg(
            Arg::new(RESOURCE)
                .long(RESOURCE)
                .value_name("TEMPLATE")
                .help("The resource template whose variable is completed"),
        )
}

fn pairs() -> Arg {
    Arg::new(PAIRS)
        .value_name("KEY=VALUE")
        .num_args(0..)
        .action(ArgAction::Append)
        .value_parser(Pair::parse)
}

fn output() -> Arg {
    Arg::new(OUTPUT)
        .long(OUTPUT)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .conflicts_with(JSON)
        .help("Write the image, audio, blob or text of the result to a file")
}

fn repeat() -> Arg {
    Arg::new(REPEAT)
        .long(REPEAT)
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..))
        .conflicts_with_all([TASK, OUTPUT])
        .help("Make the call N times, one after the other, and print what the calls took")
}

/// Flags of a call that runs as a task.
fn task() -> [Arg; 2] {
    [
        Arg::new(TASK).long(TASK).action(ArgAction::SetTrue).help(
            "Run the call as a task: print its id and status to standard error, and wait for its \
             result. It goes on if this command is interrupted",
        ),
        Arg::new(TTL)
            .long(TTL)
            .value_name("SECONDS")
            .requires(TASK)
            .value_parser(parse_timeout)
            .help("Ask a server of MCP 2025-11-25 to keep the task for so long"),
    ]
}

fn task_action() -> [Arg; 2] {
    [
        Arg::new(ACTION)
            .value_name("ACTION")
            .value_parser(TASK_ACTIONS)
            .help("list (MCP 2025-11-25), get, result, which waits for it, or cancel [list]"),
        Arg::new(TASK_ID).value_name("ID").help("Id of the task, for all actions but list"),
    ]
}

fn skill_file() -> Arg {
    Arg::new(FILE).value_name("FILE").help("A file of the skill: its URI, or its path in the skill")
}

fn uris() -> Arg {
    Arg::new(URIS)
        .value_name("URI")
        .action(ArgAction::Append)
        .help("A resource whose changes are printed, besides those of the lists; repeatable")
}

fn count() -> Arg {
    Arg::new(COUNT)
        .short('n')
        .long(COUNT)
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=1_000_000))
        .help("Number of round trips [1]")
}

/// Reads the arguments of a tool or prompt.
pub(crate) fn given_arguments(matches: &ArgMatches) -> Result<GivenArguments, Failure> {
    let given = match matches.get_one::<String>(ARGUMENTS) {
        Some(text) => {
            GivenArguments::read_object(text).map_err(|error| format!("--{ARGUMENTS}: {error}"))
        }
        None => GivenArguments::from_pairs(given_pairs(matches)),
    };
    given.map_err(Failure::Usage)
}

/// Returns the pairs of the command line.
pub(crate) fn given_pairs(matches: &ArgMatches) -> Vec<Pair> {
    matches.get_many(PAIRS).into_iter().flatten().cloned().collect()
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // A number without a suffix would mean milliseconds.
        Err(_) if text.ends_with(|last: char| last.is_ascii_digit()) => None,
        Err(_) => {
            let unit = Unit::Milliseconds { min: 1, max: u64::MAX };
            unit.parse(text).ok().map(Duration::from_millis)
        }
    };
    timeout.filter(|timeout| !timeout.is_zero() && *timeout <= TIMEOUT_MAX).ok_or_else(|| {
        "write seconds, or a time such as 500ms, 30s, 5min or 1h; 24h at most".to_owned()
    })
}

/// Returns the address to connect to instead of that of the target, whose host and port are
/// `target`.
pub(crate) fn given_address(
    matches: &ArgMatches,
    target: Option<(&str, u16)>,
) -> Result<Option<String>, Failure> {
    let mut given = matches.get_many::<String>(CONNECT_TO).into_iter().flatten().peekable();
    if given.peek().is_none() {
        return Ok(None);
    }
    let Some((host, port)) = target else {
        return Err(Failure::Usage(format!("--{CONNECT_TO} needs a target with a host")));
    };
    for text in given {
        let parts = split_addresses(text);
        let is_of = |given_host: &str, given_port: &str| {
            let given_host = given_host.trim_matches(['[', ']']);
            (given_host.is_empty() || given_host.eq_ignore_ascii_case(host))
                && (given_port.is_empty() || given_port.parse() == Ok(port))
        };
        let or_target = |given: &str, own: String| match given {
            "" => own,
            given => given.to_owned(),
        };
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        match parts[..] {
            [_, _] => return Ok(Some(text.clone())),
            [host1, port1, host2, port2] if is_of(host1, port1) => {
                let host = or_target(host2, bracketed);
                return Ok(Some(format!("{host}:{}", or_target(port2, port.to_string()))));
            }
            [_, _, _, _] => {}
            _ => {
                let text = format!(
                    "--{CONNECT_TO}: '{text}' is neither HOST:PORT nor HOST1:PORT1:HOST2:PORT2"
                );
                return Err(Failure::Usage(text));
            }
        }
    }
    Ok(None)
}

/// Splits at the colons that are not in brackets.
fn split_addresses(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let is_end = |character: char| {
        is_inside = character == '[' || is_inside && character != ']';
        character == ':' && !is_inside
    };
    text.split(is_end).collect()
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definitions_are_valid() {
        for row in &ROWS {
            with_flags(Command::new(row.name)).debug_assert();
            assert!(row.example.contains(row.name), "{}", row.name);
        }
    }

    #[test]
    fn timeout_without_suffix_is_in_seconds() {
        for (text, milliseconds) in [("5", 5_000), ("0.5", 500), ("250ms", 250), ("2min", 120_000)]
        {
            assert_eq!(parse_timeout(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["0", "-1", "nan", "inf", "1_000", "25h", "soon", ""] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn address_to_connect_to_is_that_of_target() {
        let command = with_flags(Command::new("tools"));
        let given = |flags: &[&str]| {
            let flags = flags.iter().flat_map(|flag| ["--connect-to", *flag]);
            let arguments = ["tools", "http://a:1"].into_iter().chain(flags);
            let matches = command.clone().try_get_matches_from(arguments).unwrap();
            given_address(&matches, Some(("a", 1))).ok().flatten()
        };
        for (flags, expected) in [
            (&[][..], None),
            (&["b:2"], Some("b:2")),
            (&["[::1]:2"], Some("[::1]:2")),
            (&["A:1:b:2"], Some("b:2")),
            (&["::b:2"], Some("b:2")),
            (&["::[::1]:2"], Some("[::1]:2")),
            (&["a:1:b:"], Some("b:1")),
            (&["a:1::2"], Some("a:2")),
            (&["a:2:b:2"], None),
            (&["c:1:b:2", "a:1:d:2"], Some("d:2")),
            (&["b"], None),
        ] {
            assert_eq!(given(flags).as_deref(), expected, "{flags:?}");
        }
    }
}
