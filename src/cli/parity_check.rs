//! The command line of `corelane parity-check`: checks that a server complies with the parity
//! dialect. The checks are those of the crate `corelane-parity-check`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use corelane_client::{Target, TlsOptions, tls_client};
use corelane_parity_check::{
    Address, Duplex, Endpoint, LongTool, Report, Settings, Tls, Transport,
};
use corelane_tls::{TlsClient, TlsStream};
use serde_json::{Value, json};
use url::Url;

use super::{USAGE_EXIT_CODE, print_diagnostic};

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    if is_list(matches) {
        return exit_code(corelane_parity_check::write_list(&mut io::stdout().lock()), true);
    }
    let settings = match settings(matches) {
        Ok(settings) => settings,
        Err(error) => {
            print_diagnostic("error", &error);
            return ExitCode::from(USAGE_EXIT_CODE);
        }
    };
    let options = run_options(matches);
    let selected = corelane_parity_check::select(&options.only);
    if selected.is_empty() {
        print_diagnostic("error", &"no check has the name of --only: --list prints all");
        return ExitCode::from(USAGE_EXIT_CODE);
    }
    if let Err(error) = corelane_parity_check::check_reachable(&settings) {
        print_diagnostic("error", &error);
        return ExitCode::FAILURE;
    }
    let report = corelane_parity_check::run(&settings, options.jobs, &selected);
    exit_code(write(&report, options.is_json), report.is_compliant())
}

fn exit_code(written: io::Result<()>, is_compliant: bool) -> ExitCode {
    match written {
        // A reader that closes the pipe early, as `head` does, is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_diagnostic("error", &format!("standard output: {error}"));
            ExitCode::FAILURE
        }
        _ if is_compliant => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn write(report: &Report, is_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        report.write_table(&mut out)?;
    }
    out.flush()
}

/// The name of the command.
pub(crate) const NAME: &str = "parity-check";

const TARGET: &str = "target";
const JSON: &str = "json";
const SLOW: &str = "slow";
const COMPARE: &str = "compare";
const TOKEN: &str = "token";
const TOKEN_FILE: &str = "token-file";
const EXPIRED_TOKEN: &str = "expired-token";
const CA_FILE: &str = "ca-file";
const TIMEOUT: &str = "timeout-ms";
const QUIET: &str = "quiet-ms";
const JOBS: &str = "jobs";
const ONLY: &str = "only";
const LONG_TOOL: &str = "long-tool";
const LONG_ARGUMENTS: &str = "long-arguments";
const LIST: &str = "list";

/// How a run is reported.
#[derive(Debug)]
struct RunOptions {
    is_json: bool,
    /// Checks that run at a time.
    jobs: usize,
    /// Names or families of the checks that run; all if there is none.
    only: Vec<String>,
}

pub(crate) fn command() -> Command {
    Command::new(NAME).about("Check that a server complies with the parity dialect").defer(
        |command| {
            command.args(target_arguments()).args(run_arguments()).after_help(
                "Example: corelane parity-check tcp://127.0.0.1:8888 --json\n\
                 Exit codes: 0 the server complies, 1 a required check has failed or could not \
                 run, 2 usage error.",
            )
        },
    )
}

fn target_arguments() -> [Arg; 8] {
    [
        Arg::new(TARGET).value_name("TARGET").required_unless_present(LIST).help(
            "The server: tcp://HOST:PORT, ws://HOST:PORT/PATH, http://HOST:PORT/PATH, the same \
             with TLS as tls://, wss:// and https://, or stdio:COMMAND",
        ),
        Arg::new(COMPARE)
            .long(COMPARE)
            .value_name("TARGET")
            .help("The same server over another transport: tools and errors must be the same"),
        Arg::new(TOKEN)
            .long(TOKEN)
            .value_name("TOKEN")
            .conflicts_with(TOKEN_FILE)
            .help("Authenticate with this token; other users may see it in the process list"),
        Arg::new(TOKEN_FILE)
            .long(TOKEN_FILE)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Authenticate with the token in this file"),
        Arg::new(EXPIRED_TOKEN)
            .long(EXPIRED_TOKEN)
            .value_name("TOKEN")
            .help("A token that has expired, to check how the server rejects it"),
        Arg::new(CA_FILE)
            .long(CA_FILE)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Trusted CA certificates (PEM), instead of those of this machine"),
        Arg::new(LONG_TOOL)
            .long(LONG_TOOL)
            .value_name("TOOL")
            .default_value("slow")
            .help("A tool that takes seconds and reports progress"),
        Arg::new(LONG_ARGUMENTS)
            .long(LONG_ARGUMENTS)
            .value_name("JSON")
            .value_parser(parse_object)
            .help("Its arguments [{\"steps\":100,\"step_ms\":50}]"),
    ]
}

fn run_arguments() -> [Arg; 7] {
    let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let number = |name, value_name, max| {
        let range = value_parser!(u64).range(1..=max);
        Arg::new(name).long(name).value_name(value_name).value_parser(range)
    };
    [
        flag(JSON).help("Print the results as one JSON document"),
        flag(SLOW).help("Run checks that wait for keepalives and timeouts: minutes"),
        flag(LIST).help("Print the checks with their rules, and run none"),
        number(TIMEOUT, "MILLISECONDS", 600_000)
            .default_value("2000")
            .help("Longest time of one step of a check"),
        number(QUIET, "MILLISECONDS", 60_000)
            .default_value("300")
            .help("Time without a message that shows that none comes"),
        number(JOBS, "N", 64).default_value("4").help("Checks that run at a time"),
        Arg::new(ONLY)
            .long(ONLY)
            .value_name("NAME")
            .action(ArgAction::Append)
            .help("Run only this check or family, such as streams; repeatable"),
    ]
}

/// Returns whether the checks are only listed.
fn is_list(matches: &ArgMatches) -> bool {
    matches.get_flag(LIST)
}

/// Reads how the run is reported.
fn run_options(matches: &ArgMatches) -> RunOptions {
    let jobs = matches.get_one::<u64>(JOBS).copied().unwrap_or(1);
    RunOptions {
        is_json: matches.get_flag(JSON),
        jobs: usize::try_from(jobs).unwrap_or(1),
        only: matches.get_many(ONLY).into_iter().flatten().cloned().collect(),
    }
}

fn settings(matches: &ArgMatches) -> Result<Settings, String> {
    let text = |name| matches.get_one::<String>(name).cloned();
    let time =
        |name| Duration::from_millis(matches.get_one::<u64>(name).copied().unwrap_or_default());
    let file = |name| matches.get_one::<PathBuf>(name).cloned();
    let token = match file(TOKEN_FILE) {
        None => text(TOKEN),
        Some(path) => {
            let read = fs::read_to_string(&path);
            let read = read.map_err(|error| format!("--{TOKEN_FILE}: {}: {error}", path.display()));
            Some(read?.trim().to_owned())
        }
    };
    let arguments = matches.get_one::<Value>(LONG_ARGUMENTS).cloned();
    let other = text(COMPARE).map(|other| parse(&other, ca_file(&other, matches)));
    let server = text(TARGET).unwrap_or_default();
    Ok(Settings {
        endpoint: parse(&server, file(CA_FILE))?,
        other: other.transpose()?,
        token,
        expired_token: text(EXPIRED_TOKEN),
        timeout: time(TIMEOUT),
        quiet: time(QUIET),
        is_slow: matches.get_flag(SLOW),
        long_tool: LongTool {
            name: text(LONG_TOOL).unwrap_or_default(),
            arguments: arguments.unwrap_or_else(|| json!({"steps": 100, "step_ms": 50})),
        },
    })
}

/// Returns the authorities of a second target, which need not be one with TLS.
fn ca_file(target: &str, matches: &ArgMatches) -> Option<PathBuf> {
    let is_encrypted = ["tls://", "https://", "wss://"].iter().any(|it| target.starts_with(it));
    matches.get_one::<PathBuf>(CA_FILE).filter(|_| is_encrypted).cloned()
}

fn parse_object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("write a JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The path of a URL that names none.
const DEFAULT_PATH: &str = "/parity";

/// TLS as the client commands have it.
#[derive(Debug)]
struct ClientTls(TlsClient);

impl Tls for ClientTls {
    fn open(&self, socket: TcpStream) -> io::Result<Box<dyn Duplex>> {
        let stream = TlsStream::open(&self.0, socket, |_| Ok(())).map_err(io::Error::other)?;
        Ok(Box::new(stream))
    }
}

/// Reads a target: `tcp://`, `tls://`, `ws://`, `wss://`, `http://`, `https://` or `stdio:`.
fn parse(text: &str, ca_file: Option<PathBuf>) -> Result<Endpoint, String> {
    let transport = match text.strip_prefix("stdio:") {
        Some(command) => parse_command(command)?,
        None => parse_url(text, ca_file)?,
    };
    Ok(Endpoint { text: text.to_owned(), transport })
}

fn parse_command(command: &str) -> Result<Transport, String> {
    let words = shlex::split(command).ok_or("a quote of the command is not closed")?;
    let mut words = words.into_iter().map(OsString::from);
    let program = words.next().ok_or("the command is missing")?;
    Ok(Transport::Stdio { program, arguments: words.collect() })
}

fn parse_url(text: &str, ca_file: Option<PathBuf>) -> Result<Transport, String> {
    let target: Target = text.parse().map_err(|error| format!("{error}"))?;
    let url: Url = text.parse().map_err(|error| format!("'{text}' is not a URL: {error}"))?;
    let options = ca_file.map(|file| TlsOptions::new().ca(file));
    let tls = tls_client(&target, options.as_ref()).map_err(|error| error.to_string())?;
    let tls = tls.map(|client| Arc::new(ClientTls(client)) as Arc<dyn Tls>);
    let host = url.host_str().ok_or("the host is missing")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_or_known_default().ok_or("the port is missing")?;
    let address = Address { host, port, tls };
    let path = match (url.path(), url.query()) {
        ("/" | "", None) => DEFAULT_PATH.to_owned(),
        (path, None) => path.to_owned(),
        (path, Some(query)) => format!("{path}?{query}"),
    };
    match url.scheme() {
        "tcp" | "tls" => Ok(Transport::Tcp(address)),
        "ws" | "wss" => Ok(Transport::WebSocket { address, path }),
        "http" | "https" => Ok(Transport::Http { address, path }),
        scheme => Err(format!("'{scheme}' has no parity dialect")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn long_arguments_must_be_object() {
        assert!(parse_object("{\"a\":1}").is_ok());
        assert!(parse_object("[]").is_err());
        assert!(parse_object("{").is_err());
    }

    #[test]
    fn target_text_names_transport() {
        let parsed = |text| parse(text, None).unwrap().transport;
        assert!(matches!(parsed("tcp://[::1]:7"), Transport::Tcp(_)));
        let Transport::Stdio { arguments, .. } = parsed("stdio:server 'a b'") else {
            panic!("not a program");
        };
        assert_eq!(arguments, ["a b"]);
        assert!(matches!(parsed("ws://localhost/x"), Transport::WebSocket { .. }));
        let Transport::Http { address, path } = parsed("http://[::1]:7") else {
            panic!("not HTTP");
        };
        assert_eq!((address.host.as_str(), address.port, path.as_str()), ("::1", 7, "/parity"));
        for text in ["stdio:", "stdio:'", "unix:/a", "ftp://a", "tcp://a"] {
            assert!(parse(text, None).is_err(), "{text}");
        }
    }
}
