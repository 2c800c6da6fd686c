//! What a check is, what it needs, and what it may return.

use std::cell::RefCell;
use std::time::Duration;

use serde_json::Value;

use super::deadline::Deadline;
use super::endpoint::Endpoint;
use super::rules::Violation;

/// How strong the rule of a check is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// A rule that every server keeps.
    Must,
    /// A recommendation.
    Should,
    /// A line of the table of transitions, which every server has.
    Transition,
}

/// What a check applies to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// Lines or WebSocket: a connection that the server can close.
    Connection,
    WebSocket,
    Http,
    /// A server that outlives its connections.
    Server,
    /// The server announces this capability.
    Flag(&'static str),
    /// A tool that runs for long and reports progress.
    LongTool,
    /// `--token`.
    Token,
    /// `--expired-token`.
    ExpiredToken,
    /// `--slow`.
    Slow,
    /// `--compare`.
    OtherTarget,
}

/// Why a check has not passed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CheckError {
    /// The server has broken the rule.
    Failed(String),
    /// A step before the rule has failed, which is the rule of another check.
    Blocked(String),
    /// The rule does not apply.
    Skipped(String),
}

/// The result of a check.
pub type CheckResult = Result<(), CheckError>;

/// A check: one rule, and the steps that find whether the server keeps it.
#[derive(Clone, Copy)]
pub struct Check {
    /// `family.rule`.
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) needs: &'static [Need],
    /// The rule.
    pub(crate) rule: &'static str,
    pub(crate) run: fn(&Context<'_>) -> CheckResult,
}

/// A tool call that takes seconds and reports progress.
#[derive(Clone, Debug)]
pub struct LongTool {
    /// Its name.
    pub name: String,
    /// Its arguments: a JSON object.
    pub arguments: Value,
}

/// What is checked, and how long its steps may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server.
    pub endpoint: Endpoint,
    /// The same server over another transport; checks that compare both are skipped without it.
    pub other: Option<Endpoint>,
    /// The bearer token of HTTP and WebSocket, and `auth_token` of handshakes; checks of
    /// authentication are skipped without it.
    pub token: Option<String>,
    /// A token that has expired; the check of one is skipped without it.
    pub expired_token: Option<String>,
    /// Longest time of one step of a check.
    pub timeout: Duration,
    /// Time without a message that shows that none comes.
    pub quiet: Duration,
    /// Whether checks run that wait for keepalives and timeouts: minutes.
    pub is_slow: bool,
    /// The tool for checks of streams, cancellation and limits; what needs it is skipped if the
    /// server has no such tool.
    pub long_tool: LongTool,
}

/// What the server has announced, if a connection became Ready.
#[derive(Clone, Debug, Default)]
pub struct Features {
    pub capabilities: Value,
    pub has_long_tool: bool,
}

/// What a check runs with.
pub struct Context<'a> {
    pub settings: &'a Settings,
    /// `None` while they are asked for, or if no connection became Ready.
    pub features: Option<&'a Features>,
    violations: RefCell<Vec<Violation>>,
}

impl Level {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::Transition => "transition",
        }
    }

    /// Returns whether a server that breaks the rule does not comply.
    pub const fn is_required(self) -> bool {
        !matches!(self, Self::Should)
    }
}

impl CheckError {
    /// Creates the failure of a rule.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// Returns the same error, of what `subject` names.
    pub fn prefixed(self, subject: &str) -> Self {
        let prefixed = |reason: String| format!("{subject}: {reason}");
        match self {
            Self::Failed(reason) => Self::Failed(prefixed(reason)),
            Self::Blocked(reason) => Self::Blocked(prefixed(reason)),
            Self::Skipped(reason) => Self::Skipped(prefixed(reason)),
        }
    }

    /// Returns the same reason for a check whose rule it is not.
    pub fn blocked(self) -> Self {
        match self {
            Self::Failed(reason) | Self::Blocked(reason) => Self::Blocked(reason),
            Self::Skipped(reason) => Self::Skipped(reason),
        }
    }
}

impl Settings {
    /// Returns the settings for the other target.
    pub(crate) fn for_other(&self) -> Option<Self> {
        let other = self.other.clone()?;
        Some(Self { endpoint: other, other: None, ..self.clone() })
    }

    /// Returns the end of one step.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.timeout)
    }
}

impl<'a> Context<'a> {
    pub const fn new(settings: &'a Settings, features: Option<&'a Features>) -> Self {
        Self { settings, features, violations: RefCell::new(Vec::new()) }
    }

    /// Records rules that a message has broken.
    pub fn record(&self, violations: Vec<Violation>) {
        self.violations.borrow_mut().extend(violations);
    }

    /// Returns the broken rules.
    pub fn into_violations(self) -> Vec<Violation> {
        self.violations.into_inner()
    }

    /// Returns whether the server announces a capability.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.features.is_some_and(|features| features.capabilities[flag] == true)
    }

    /// Returns why a check does not apply or cannot run.
    pub fn check_needs(&self, needs: &[Need]) -> CheckResult {
        for need in needs {
            if let Some(reason) = self.missing(*need) {
                return Err(CheckError::Skipped(reason));
            }
        }
        let asks_features = |need: &Need| matches!(need, Need::Flag(_) | Need::LongTool);
        if self.features.is_none() && needs.iter().any(asks_features) {
            let reason = "the capabilities are not known: no connection became Ready";
            return Err(CheckError::Blocked(reason.to_owned()));
        }
        Ok(())
    }

    fn missing(&self, need: Need) -> Option<String> {
        let Settings { endpoint, token, is_slow, long_tool, .. } = self.settings;
        let is_known = self.features.is_some();
        match need {
            Need::Connection if endpoint.is_http() => {
                Some("requests of HTTP have no connection of their own".to_owned())
            }
            Need::WebSocket if !endpoint.is_websocket() => Some("only for WebSocket".to_owned()),
            Need::Http if !endpoint.is_http() => Some("only for HTTP".to_owned()),
            Need::Server if endpoint.is_program() => {
                Some("the program ends with its connection".to_owned())
            }
            Need::Flag(flag) if is_known && !self.has_flag(flag) => {
                Some(format!("the server does not announce `{flag}`"))
            }
            Need::LongTool if self.features.is_some_and(|features| !features.has_long_tool) => {
                let name = &long_tool.name;
                Some(format!("no tool `{name}`: name one that takes seconds with --long-tool"))
            }
            Need::Token if token.is_none() => Some("needs --token".to_owned()),
            Need::ExpiredToken if self.settings.expired_token.is_none() => {
                Some("needs --expired-token".to_owned())
            }
            Need::OtherTarget if self.settings.other.is_none() => {
                Some("needs --compare".to_owned())
            }
            Need::Slow if !is_slow => Some("takes long: needs --slow".to_owned()),
            _ => None,
        }
    }
}
