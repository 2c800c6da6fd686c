//! Arguments of the fixture.

use std::path::PathBuf;
use std::time::Duration;

/// How the program talks and what it does wrong.
pub(crate) struct Options {
    /// Whether requests of 2025-11-25 and before are served.
    pub(crate) is_legacy: bool,
    /// Whether requests of 2026-07-28 are served.
    pub(crate) is_modern: bool,
    /// The legacy revisions, the newest first.
    pub(crate) revisions: Vec<&'static str>,
    /// Entries of a page; 0 for all.
    pub(crate) page_size: usize,
    /// Number of further tools.
    pub(crate) tools: usize,
    /// Whether there is a tool whose calls must be tasks: `--tools-of-tasks 1`.
    pub(crate) has_tasks: bool,
    /// A file whose presence ends calls of `slow`.
    pub(crate) release: Option<PathBuf>,
    /// A file that gets a line for the start and for each message that is received.
    pub(crate) record: Option<PathBuf>,
    /// Decides what calls of the tool `random` do, which there is only with it.
    pub(crate) seed: Option<u64>,
    /// How long the program lives without input.
    pub(crate) life: Duration,
    pub(crate) faults: Vec<Fault>,
}

/// What the program does wrong: `--fault NAME`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Exits with status 3 before it reads.
    DiesAtStart,
    /// Exits with status 3 in each call.
    DiesInCall,
    /// Exits with status 3 in the tenth call.
    DiesAtTenthCall,
    /// Answers neither `initialize` nor `server/discover`.
    HangsAtInitialize,
    /// Answers no call.
    NeverAnswers,
    /// Answers each call two times.
    AnswersTwice,
    /// Answers each call with another id.
    WrongId,
    /// Answers each call with `null` as id.
    NullId,
    /// Writes a byte order mark first, and color codes before each line.
    MarkAndColors,
    /// Writes lines that are no messages before each line.
    Noise,
    /// Writes a line of 20 MB before the response of a call.
    HugeLine,
    /// Writes 8 MB of lines that are no messages before the response of a call.
    FloodsStdout,
    /// Writes 8 MB to standard error before the response of a call.
    FloodsStderr,
    /// Closes standard output in the first call, and lives.
    ClosesStdout,
    /// Starts a process that ignores SIGTERM and keeps standard output and error.
    Grandchild,
    /// Ignores SIGTERM and the end of standard input.
    IgnoresTerm,
    /// Ignores the end of standard input.
    SurvivesStdin,
    /// Each list of tools has another description.
    ChangesTools,
}

const FAULTS: [(&str, Fault); 18] = [
    ("dies-at-start", Fault::DiesAtStart),
    ("dies-in-call", Fault::DiesInCall),
    ("dies-at-tenth-call", Fault::DiesAtTenthCall),
    ("hangs-at-initialize", Fault::HangsAtInitialize),
    ("never-answers", Fault::NeverAnswers),
    ("answers-twice", Fault::AnswersTwice),
    ("wrong-id", Fault::WrongId),
    ("null-id", Fault::NullId),
    ("mark-and-colors", Fault::MarkAndColors),
    ("noise", Fault::Noise),
    ("huge-line", Fault::HugeLine),
    ("floods-stdout", Fault::FloodsStdout),
    ("floods-stderr", Fault::FloodsStderr),
    ("closes-stdout", Fault::ClosesStdout),
    ("grandchild", Fault::Grandchild),
    ("ignores-term", Fault::IgnoresTerm),
    ("survives-stdin", Fault::SurvivesStdin),
    ("changes-tools", Fault::ChangesTools),
];

/// How to call the program.
pub(crate) const USAGE: &str = "usage: upstream_fixture [--era legacy|2025-06-18|2025-11-25|modern|\
                                both] [--page-size N] [--tools N] [--tools-of-tasks 0|1] \
                                [--release FILE] [--record FILE] \
                                [--seed N] [--life SECONDS] [--fault NAME]...";

impl Options {
    /// Reads the arguments after the name of the program.
    pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            is_legacy: true,
            is_modern: false,
            revisions: vec!["2025-11-25", "2025-06-18"],
            page_size: 0,
            tools: 0,
            has_tasks: false,
            release: None,
            record: None,
            seed: None,
            life: Duration::from_mins(1),
            faults: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
            let number = || value.parse::<u32>().map_err(|error| format!("{name}: {error}"));
            match name.as_str() {
                "--era" => options.set_era(&value)?,
                "--page-size" => options.page_size = number()? as usize,
                "--tools" => options.tools = number()? as usize,
                "--tools-of-tasks" => options.has_tasks = number()? > 0,
                "--release" => options.release = Some(value.into()),
                "--record" => options.record = Some(value.into()),
                "--seed" => options.seed = Some(number()?.into()),
                "--life" => options.life = Duration::from_secs(number()?.into()),
                "--fault" => {
                    let known = FAULTS.iter().find(|fault| fault.0 == value);
                    options.faults.push(known.ok_or_else(|| format!("no fault {value}"))?.1);
                }
                _ => return Err(format!("no option {name}")),
            }
        }
        Ok(options)
    }

    /// Whether the program does this wrong.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn set_era(&mut self, era: &str) -> Result<(), String> {
        (self.is_legacy, self.is_modern) = match era {
            "legacy" | "2025-06-18" | "2025-11-25" => (true, false),
            "modern" => (false, true),
            "both" => (true, true),
            _ => return Err(format!("no era {era}")),
        };
        if era.starts_with("2025") {
            self.revisions.retain(|revision| *revision == era);
        }
        Ok(())
    }
}
