//! Flags of the requests: tools with their arguments.
//!
//! `--arguments`, `--weight`, `--expect`, `--bytes` and `--stream` belong to the `--tool` before
//! them, or without one to the tool that is chosen.

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use corelane_load::mcp::Expectation;
use corelane_load::plan::{CallPlan, Plan};
use serde_json::{Map, Value};

/// The calls that the flags name.
#[derive(Clone, Debug, Default)]
pub(super) struct CallArguments {
    calls: Vec<CallPlan>,
}

/// A flag with its value.
#[derive(Clone, Debug)]
enum CallFlag {
    Tool(String),
    Arguments(Map<String, Value>),
    Weight(u32),
    Expect(Expectation),
    Bytes(usize),
    Stream,
}

impl CallArguments {
    /// Applies the flags to `plan`: tools replace its calls, other flags change each of them.
    pub(super) fn apply(&self, plan: &mut Plan) {
        match &self.calls[..] {
            [] => {}
            [call] if call.tool.is_none() && !plan.calls.is_empty() => {
                for planned in &mut plan.calls {
                    planned.bytes = call.bytes.or(planned.bytes);
                    planned.stream |= call.stream;
                    planned.expect.extend(call.expect.iter().cloned());
                }
            }
            calls => plan.calls = calls.to_vec(),
        }
    }

    fn add(&mut self, flag: CallFlag) -> Result<(), String> {
        if let CallFlag::Tool(name) = flag {
            self.calls.push(CallPlan::tool(name));
            return Ok(());
        }
        if self.calls.is_empty() {
            if matches!(flag, CallFlag::Arguments(_) | CallFlag::Weight(_)) {
                return Err("--arguments and --weight follow the --tool that they belong to".into());
            }
            self.calls.push(CallPlan::default());
        }
        let Some(call) = self.calls.last_mut() else { return Ok(()) };
        match flag {
            CallFlag::Tool(_) => {}
            CallFlag::Arguments(arguments) => call.arguments = Some(arguments),
            CallFlag::Weight(weight) => call.weight = weight,
            CallFlag::Expect(expectation) => call.expect.push(expectation),
            CallFlag::Bytes(bytes) => call.bytes = Some(bytes),
            CallFlag::Stream => call.stream = true,
        }
        Ok(())
    }
}

impl Args for CallArguments {
    fn augment_args(command: Command) -> Command {
        let flag = |name: &'static str, value: &'static str, parser: ValueParser| {
            Arg::new(name).long(name).value_name(value).value_parser(parser)
        };
        let many = |arg: Arg| arg.action(ArgAction::Append);
        command
            .arg(many(flag("tool", "NAME", value_parser!(String))).help(
                "Tool to call; repeat it for a mix [default: an echo tool, else the first \
                 read-only one]",
            ))
            .arg(
                many(flag("arguments", "JSON", ValueParser::new(read_arguments)))
                    .alias("args")
                    .help(
                        "Arguments of the tool before it, as JSON or @FILE [default: made from \
                           its schema]",
                    ),
            )
            .arg(
                many(flag("weight", "N", value_parser!(u32).into()))
                    .help("Relative frequency of the tool before it [default: 1]"),
            )
            .arg(many(flag("expect", "WHAT", ValueParser::new(read_expectation))).help(
                "What the result has to be: TEXT, contains:TEXT, regex:PATTERN, \
                 pointer:/PATH=JSON [default: no error, valid against the output schema]",
            ))
            .arg(many(flag("bytes", "BYTES", ValueParser::new(read_bytes))).help(
                "Length of the text in arguments made from the schema, which the result then has \
                 to contain [default: 32, and any result]",
            ))
            .arg(many(Arg::new("stream").long("stream").num_args(0).default_missing_value("true"))
                .value_parser(value_parser!(bool)).hide(true).help(
                "Request the result of the tool before it as a stream, and count its chunks",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CallArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Vec::new();
        collect(matches, "tool", CallFlag::Tool, &mut flags);
        collect(matches, "arguments", CallFlag::Arguments, &mut flags);
        collect(matches, "weight", CallFlag::Weight, &mut flags);
        collect(matches, "expect", CallFlag::Expect, &mut flags);
        collect(matches, "bytes", CallFlag::Bytes, &mut flags);
        collect(matches, "stream", |_: bool| CallFlag::Stream, &mut flags);
        flags.sort_by_key(|(place, _)| *place);
        let mut calls = Self::default();
        for (_, flag) in flags {
            calls.add(flag).map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, why))?;
        }
        Ok(calls)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Collects the values of a flag, each with its place on the command line.
fn collect<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
    kind: impl Fn(T) -> CallFlag,
    flags: &mut Vec<(usize, CallFlag)>,
) {
    let places = matches.indices_of(name).into_iter().flatten();
    let values = matches.get_many::<T>(name).into_iter().flatten().cloned();
    flags.extend(places.zip(values.map(kind)));
}

fn read_arguments(text: &str) -> Result<Map<String, Value>, String> {
    let text = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {path}: {error}; name a file with JSON"))?,
        None => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("write an object such as {\"message\":\"hello\"}".into()),
        Err(error) => Err(format!("{error}; write an object such as {{\"message\":\"hello\"}}")),
    }
}

fn read_expectation(text: &str) -> Result<Expectation, String> {
    text.parse()
}

fn read_bytes(text: &str) -> Result<usize, String> {
    text.parse().map_err(|error| format!("{error}; write a number of bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(flags: &[&str]) -> Result<Vec<CallPlan>, String> {
        let command = CallArguments::augment_args(Command::new("load").no_binary_name(true));
        let matches = command.try_get_matches_from(flags).map_err(|error| error.to_string())?;
        let read = CallArguments::from_arg_matches(&matches);
        read.map(|read| read.calls).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_belong_to_tool_before_them() {
        let read = calls(&[
            "--tool=a",
            "--arguments={\"x\":1}",
            "--weight=3",
            "--stream",
            "--tool=b",
            "--expect=contains:y",
        ]);
        let read = read.unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].tool.as_deref(), read[0].weight), (Some("a"), 3));
        assert_eq!(read[0].arguments.as_ref().unwrap()["x"], 1);
        assert_eq!((read[1].tool.as_deref(), read[1].weight), (Some("b"), 1));
        assert_eq!((read[0].expect.len(), read[1].expect.len()), (0, 1));
        assert_eq!((read[0].stream, read[1].stream), (true, false));
    }

    #[test]
    fn flags_without_tool_change_the_plan() {
        let flags = CallArguments { calls: calls(&["--bytes=9", "--expect=x"]).unwrap() };
        let mut plan = Plan::new("tcp://localhost:1");
        flags.apply(&mut plan);
        assert_eq!((plan.calls.len(), plan.calls[0].bytes), (1, Some(9)));
        plan.calls = vec![CallPlan::tool("a"), CallPlan::tool("b")];
        flags.apply(&mut plan);
        assert_eq!(plan.calls[1].tool.as_deref(), Some("b"));
        assert!(plan.calls.iter().all(|call| call.bytes == Some(9) && call.expect.len() == 1));
    }

    #[test]
    fn invalid_call_flags_are_reported() {
        for (flag, part) in [
            ("--arguments={}", "follow the --tool"),
            ("--weight=2", "follow the --tool"),
            ("--arguments=[1]", "write an object"),
            ("--arguments=@/nowhere", "cannot read /nowhere"),
            ("--expect=regex:(", "invalid pattern"),
        ] {
            let error = calls(&[flag]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
