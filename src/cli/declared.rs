//! `new`, `try` and `schema`: declarations without a server.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::cli::print_diagnostic;
use crate::config::schema::option_schemas;
use crate::declared::{file_schema, write_example};

/// Commands about declarations.
pub(crate) fn commands() -> [Command; 3] {
    let folder = Arg::new(FOLDER)
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .default_value(".")
        .help("Folder, which is made if it does not exist");
    let config = Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .default_value("corelane.toml")
        .help("The file that declares the tool");
    let tools = Arg::new(TOOLS).long(TOOLS).value_name("DIR").help("A folder of tools");
    let call = Arg::new(CALL)
        .value_name("TOOL")
        .num_args(1..)
        .required(true)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .help("Name of the tool, then key=value for each argument and flags of `corelane call`");
    [
        Command::new(NEW)
            .about("Write an example of each kind of declaration, which works at once")
            .arg(folder),
        Command::new(TRY)
            .about("Run one declared tool without a server and print its result")
            .args([config, tools, call]),
        Command::new(SCHEMA).about("Print the JSON Schema of the configuration file, for editors"),
    ]
}

const NEW: &str = "new";
const TRY: &str = "try";
const SCHEMA: &str = "schema";
const FOLDER: &str = "folder";
const CONFIG: &str = "config";
const TOOLS: &str = "tools";
const CALL: &str = "call";

/// Returns whether `command` is one of these.
pub(crate) fn is_declared_command(command: &str) -> bool {
    [NEW, TRY, SCHEMA].contains(&command)
}

/// Runs the command `name`; `run` runs another command of the program.
pub(crate) fn run(
    name: &str,
    matches: &ArgMatches,
    run: impl FnOnce(Vec<OsString>) -> ExitCode,
) -> ExitCode {
    match name {
        TRY => match call_of(matches) {
            Ok(call) => run(call),
            Err(error) => {
                print_diagnostic("error", &error);
                ExitCode::FAILURE
            }
        },
        NEW => {
            let folder =
                matches.get_one::<PathBuf>(FOLDER).map_or_else(|| Path::new("."), PathBuf::as_path);
            finish(write_new(folder))
        }
        _ => finish(write_schema()),
    }
}

fn finish(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_diagnostic("error", &error);
            ExitCode::FAILURE
        }
    }
}

fn write_new(folder: &Path) -> io::Result<()> {
    let paths = write_example(folder, &file_schema(option_schemas()))?;
    let mut out = io::stdout().lock();
    for path in paths {
        writeln!(out, "{}", path.display())?;
    }
    let config = folder.join("corelane.toml");
    let config = config.display();
    writeln!(out, "next: corelane check --config {config}")?;
    writeln!(out, "      corelane try --config {config} disk_space path=/")?;
    writeln!(out, "      corelane serve --config {config}")
}

fn write_schema() -> io::Result<()> {
    let text = serde_json::to_string_pretty(&file_schema(option_schemas()))?;
    writeln!(io::stdout().lock(), "{text}")
}

/// The command that calls the tool: a server over standard input and output, whose one client is
/// `corelane call`, so that the call passes every check that it would pass over the network.
fn call_of(matches: &ArgMatches) -> Result<Vec<OsString>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.to_string_lossy();
    let config = matches.get_one::<String>(CONFIG).map_or("", String::as_str);
    let mut server = vec![&*program, "stdio", "--log-level", "warn", "--config", config];
    if let Some(folder) = matches.get_one::<String>(TOOLS) {
        server.extend(["--tools", folder]);
    }
    let server = shlex::try_join(server).map_err(|error| error.to_string())?;
    let mut words = vec![OsString::from("corelane"), CALL.into()];
    for (name, value) in environment() {
        let mut variable = name;
        variable.extend([OsStr::new("="), &value]);
        words.extend(["--env".into(), variable]);
    }
    words.push(format!("stdio:{server}").into());
    let call = matches.get_many::<String>(CALL).into_iter().flatten();
    words.extend(call.map(OsString::from));
    Ok(words)
}

/// The variables of this process, which declarations may name: a target has no others by itself.
#[expect(clippy::disallowed_methods, reason = "a declaration may name any variable")]
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    // The flag takes text.
    std::env::vars_os().filter(|(name, value)| name.to_str().is_some() && value.to_str().is_some())
}
