//! `gateway`: upstreams of the command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use corelane_base::variables::{ExpandError, Variable};
use corelane_client::{EraPreference, Program, ProgramStderr, Target};

use crate::cli::{
    USAGE_EXIT_CODE, load_declarations, load_options, print_diagnostic, serve_network,
};
use crate::config::CommandLine;
use crate::declared::{DeclaredUpstream, Fault, Share, UpstreamDeclaration};
use crate::gateway::{
    Gateway, Imported, ImportedUpstream, UpstreamFacts, UpstreamReport, UpstreamSettings, import,
};
use crate::server::options::GatewayOptions;

/// Name of the command.
pub(crate) const NAME: &str = "gateway";

const UPSTREAM: &str = "upstream";
const SHARE: &str = "share";
const ERA: &str = "era";
const COMMAND: &str = "command";
const HEADING: &str = "Upstreams";
const NAME_CHARACTERS_MAX: usize = 32;

/// Name of the subcommand that starts each upstream once.
pub(crate) const CHECK: &str = "check";

/// Name of the subcommand that writes manifests.
pub(crate) const MANIFEST: &str = "manifest";

/// Runs the command, or the subcommand with this name.
pub(crate) fn run(
    matches: &ArgMatches,
    subcommand: Option<&str>,
    mut command_line: CommandLine,
) -> ExitCode {
    let client_file = command_line.file.take_if(|path| is_client_file(path));
    let loaded = load_options(NAME, &command_line).and_then(|effective| {
        let declarations = load_declarations(&command_line, &effective.options)?;
        Ok((effective, declarations))
    });
    let (effective, mut declarations) = match loaded {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    match all_upstreams(matches, client_file.as_deref()) {
        Ok(upstreams) => declarations.upstreams.splice(0..0, upstreams).for_each(drop),
        Err(error) => return print_usage_error(&error),
    }
    if declarations.upstreams.is_empty() {
        return print_usage_error(
            "no upstream: name a program after `--`, an address with --upstream, or a file with \
             [[upstream]] with --config",
        );
    }
    let options = &effective.options.gateway;
    match subcommand {
        Some(CHECK) => check(declarations.upstreams, options),
        Some(MANIFEST) => write_manifests(declarations.upstreams, options),
        _ => serve_network(effective, declarations, command_line),
    }
}

fn print_usage_error(error: &str) -> ExitCode {
    print_diagnostic("error", &error);
    ExitCode::from(USAGE_EXIT_CODE)
}

/// Starts each upstream once and prints what it is, one on a line.
fn check(upstreams: Vec<UpstreamSettings>, options: &GatewayOptions) -> ExitCode {
    report(upstreams, options, Gateway::check)
}

/// Starts each upstream with a manifest once, writes its lists there, and prints what it is.
fn write_manifests(mut upstreams: Vec<UpstreamSettings>, options: &GatewayOptions) -> ExitCode {
    upstreams.retain(|it| it.manifest.is_some());
    if upstreams.is_empty() {
        return print_usage_error(
            "no upstream has a manifest: write manifest = \"NAME.json\" in its [[upstream]]",
        );
    }
    report(upstreams, options, Gateway::write_manifests)
}

/// Prints the reports of `look`, one on a line.
fn report(
    upstreams: Vec<UpstreamSettings>,
    options: &GatewayOptions,
    look: fn(&Gateway) -> Vec<UpstreamReport>,
) -> ExitCode {
    let gateway = match Gateway::new(upstreams, options) {
        Ok(gateway) => gateway,
        Err(error) => {
            print_diagnostic("error", &error);
            return ExitCode::FAILURE;
        }
    };
    let mut code = ExitCode::SUCCESS;
    let mut out = io::stdout().lock();
    for UpstreamReport { name, time, outcome } in look(&gateway) {
        let (milliseconds, text) = (time.as_millis(), describe(outcome.as_ref()));
        if outcome.is_err() {
            code = ExitCode::FAILURE;
        }
        // The reader may have closed the pipe, as `head` does.
        writeln!(out, "{name}  {text}  ({milliseconds} ms)").ok();
    }
    code
}

fn describe(outcome: Result<&UpstreamFacts, &String>) -> String {
    let UpstreamFacts { revision, tools, resources, prompts, share } = match outcome {
        Ok(facts) => facts,
        Err(error) => return format!("failed: {error}"),
    };
    let shared = match share {
        Share::Auto | Share::All => "shared by all",
        Share::Principal => "one for each principal",
        Share::Session => "one for each session",
    };
    format!("MCP {revision}  {tools} tools, {resources} resources, {prompts} prompts  {shared}")
}

/// Flags of the command beside the options.
pub(crate) fn flags() -> [Arg; 4] {
    [
        Arg::new(UPSTREAM)
            .long(UPSTREAM)
            .value_name("TARGET")
            .action(ArgAction::Append)
            .help_heading(HEADING)
            .help("A server: https://…, wss://…, tcp://…, unix:… or 'stdio:COMMAND'; repeatable"),
        Arg::new(SHARE)
            .long(SHARE)
            .value_name("MODE")
            .value_parser(PossibleValuesParser::new(["auto", "all", "principal", "session"]))
            .default_value("auto")
            .help_heading(HEADING)
            .help(
                "Who shares a program: auto (all, if it speaks 2026-07-28, else each session its \
                 own), all, principal, session",
            ),
        Arg::new(ERA)
            .long(ERA)
            .value_name("auto|modern|YYYY-MM-DD")
            .value_parser(value_parser!(EraPreference))
            .help_heading(HEADING)
            .help(
                "Revision of MCP to speak with upstreams: 2026-07-28 if they have it, only that, \
                 or this, without server/discover [auto]",
            ),
        Arg::new(COMMAND)
            .value_name("COMMAND")
            .num_args(1..)
            .last(true)
            .value_parser(clap::value_parser!(OsString))
            .help_heading(HEADING)
            .help("A program that serves MCP over its standard streams, after `--`"),
    ]
}

/// The upstreams that the command line names, and those of a file of another client.
///
/// # Errors
///
/// A target is invalid, or the file cannot be used.
fn all_upstreams(
    matches: &ArgMatches,
    client_file: Option<&Path>,
) -> Result<Vec<UpstreamSettings>, String> {
    let mut upstreams = upstreams_of(matches)?;
    if let Some(path) = client_file {
        let imported = imported_upstreams(path)?;
        let is_share_given = matches.value_source(SHARE) == Some(ValueSource::CommandLine);
        upstreams.extend(imported.into_iter().map(|it| UpstreamSettings {
            era: era_of(matches),
            share: if is_share_given { share_of(matches) } else { it.share },
            ..it
        }));
    }
    Ok(upstreams)
}

fn share_of(matches: &ArgMatches) -> Share {
    match matches.get_one::<String>(SHARE).map(String::as_str) {
        Some("all") => Share::All,
        Some("principal") => Share::Principal,
        Some("session") => Share::Session,
        _ => Share::Auto,
    }
}

fn era_of(matches: &ArgMatches) -> EraPreference {
    matches.get_one(ERA).copied().unwrap_or_default()
}

/// The upstreams that the command line names.
fn upstreams_of(matches: &ArgMatches) -> Result<Vec<UpstreamSettings>, String> {
    let share = share_of(matches);
    let mut targets = Vec::new();
    let mut words = matches.get_many::<OsString>(COMMAND).into_iter().flatten();
    if let Some(name) = words.next() {
        targets.push(Target::from(words.fold(Program::new(name), Program::arg)));
    }
    for text in matches.get_many::<String>(UPSTREAM).into_iter().flatten() {
        targets.push(Target::from_str(text).map_err(|error| error.to_string())?);
    }
    let mut upstreams: Vec<UpstreamSettings> = Vec::new();
    for target in targets {
        let target = match target {
            Target::Stdio(program) => program.stderr(ProgramStderr::Log).into(),
            other => other,
        };
        let taken = |name: &str| upstreams.iter().any(|it| *it.name == *name);
        let name = unique(&name_of(&target), taken);
        let era = era_of(matches);
        upstreams.push(UpstreamSettings { era, share, ..UpstreamSettings::new(name, target) });
    }
    Ok(upstreams)
}

/// Whether `path` is a file in which another client keeps its servers.
fn is_client_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json" || extension == "jsonc")
}

/// The upstreams of a file of another client. What cannot be used is left out and printed.
///
/// # Errors
///
/// The file cannot be read, or has no upstream that can be used.
fn imported_upstreams(path: &Path) -> Result<Vec<UpstreamSettings>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let Imported { upstreams: found, warnings, faults } = import(path, &text, &mut variable_value);
    for warning in &warnings {
        print_diagnostic("warning", warning);
    }
    for fault in &faults {
        print_diagnostic("error", fault);
    }
    let mut upstreams = Vec::new();
    for upstream in found.into_iter().filter(|upstream| upstream.is_enabled) {
        let name = upstream.name.clone();
        if upstream.is_sse {
            let text = format!(
                "upstream `{name}`: event streams of 2024-11-05 are not supported; Streamable HTTP \
                 is tried"
            );
            print_diagnostic("warning", &text);
        }
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let declaration = declaration_of(upstream);
        match UpstreamSettings::from_declaration(&declaration, folder, |_| None) {
            Ok(settings) => upstreams.push(settings),
            Err(problem) => print_diagnostic("error", &format!("upstream `{name}`: {problem}")),
        }
    }
    if upstreams.is_empty() {
        return Err(format!("{} has no server that can be used", path.display()));
    }
    Ok(upstreams)
}

fn declaration_of(imported: ImportedUpstream) -> UpstreamDeclaration {
    let ImportedUpstream { name, command, env, cwd, url, headers, .. } = imported;
    let (env, headers) = (env.into_iter().collect(), headers.into_iter().collect());
    UpstreamDeclaration { command, url, cwd, env, headers, ..UpstreamDeclaration::new(name) }
}

/// The value of a variable in such a file.
fn variable_value(variable: Variable<'_>) -> Result<String, ExpandError> {
    match variable {
        Variable::Environment(name) =>
        {
            #[expect(clippy::disallowed_methods, reason = "the file names the variable")]
            std::env::var(name).map_err(|_| ExpandError(format!("the variable {name} is not set")))
        }
        Variable::File(path) => std::fs::read_to_string(path)
            .map_err(|error| ExpandError(format!("{path} cannot be read: {error}"))),
    }
}

/// The upstreams that files declare.
///
/// # Errors
///
/// Every fault of them.
pub(crate) fn declared_upstreams(
    declared: &[DeclaredUpstream],
) -> Result<Vec<UpstreamSettings>, Vec<Fault>> {
    let (mut upstreams, mut faults) = (Vec::new(), Vec::new());
    for upstream in declared {
        #[expect(clippy::disallowed_methods, reason = "env_pass names what is passed on")]
        let variable = |name: &str| std::env::var_os(name);
        match UpstreamSettings::from_declaration(&upstream.declaration, &upstream.folder, variable)
        {
            Ok(settings) => upstreams.push(settings),
            Err(problem) => faults.push(upstream.fault(problem)),
        }
    }
    if faults.is_empty() { Ok(upstreams) } else { Err(faults) }
}

/// Programs that run another one, which their first argument without a dash names.
const RUNNERS: [&str; 12] = [
    "npx", "uvx", "bunx", "pnpx", "node", "deno", "bun", "uv", "python", "python3", "sh", "docker",
];

/// The name of an upstream that has none: that of its program, package or host.
fn name_of(target: &Target) -> String {
    let text = target.to_string();
    let named = if let Target::Stdio(_) = target {
        program_name(text.trim_start_matches("stdio:"))
    } else {
        let rest = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or(rest).to_owned()
    };
    let stem =
        named.rsplit_once('.').filter(|(_, end)| ["js", "mjs", "py", "ts", "sh"].contains(end));
    let named = stem.map_or(named.as_str(), |(stem, _)| stem);
    let allowed = |character: char| match character.to_ascii_lowercase() {
        lower if lower.is_ascii_alphanumeric() => lower,
        _ => '-',
    };
    let name: String = named.chars().map(allowed).take(NAME_CHARACTERS_MAX).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "upstream".to_owned() } else { name.to_owned() }
}

/// The name of a program, or of the package that it runs.
fn program_name(command: &str) -> String {
    let words: Vec<&str> = command.split_ascii_whitespace().collect();
    let is_name = |word: &&str| !word.starts_with('-') && !["run", "x"].contains(word);
    let file = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let Some((program, arguments)) = words.split_first() else { return String::new() };
    if !RUNNERS.contains(&file(program).as_str()) {
        return file(program);
    }
    let package = arguments.iter().copied().find(|word| is_name(word)).unwrap_or(program);
    // A version follows the name, and a scope precedes it.
    file(package).split('@').find(|part| !part.is_empty()).unwrap_or_default().to_owned()
}

/// `name`, or with the first number behind it that is not taken.
fn unique(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number: u32| {
        let end = format!("-{number}");
        let room = NAME_CHARACTERS_MAX - end.len();
        format!("{}{end}", &name[..name.len().min(room)])
    });
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| !is_taken(name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_is_named_by_program_or_host() {
        for (target, name) in [
            ("stdio:npx -y @modelcontextprotocol/server-everything", "server-everything"),
            ("stdio:npx -y mcp-remote@0.15", "mcp-remote"),
            ("stdio:uvx mcp-server-time", "mcp-server-time"),
            ("stdio:/usr/bin/python3 -u ./tools/my_server.py", "my-server"),
            ("stdio:/opt/Server", "server"),
            ("stdio:npx", "npx"),
            ("https://example.com/mcp", "example-com"),
            ("tcp://127.0.0.1:8888", "127-0-0-1-8888"),
        ] {
            assert_eq!(name_of(&target.parse().unwrap()), name, "{target}");
        }
        assert_eq!(unique("a", |name| ["a", "a-2"].contains(&name)), "a-3");
    }
}
