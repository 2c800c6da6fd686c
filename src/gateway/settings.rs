//! What the user has said about an upstream, checked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corelane_client::{
    ClientBuilder, ClientError, EraPreference, OAuthOptions, Program, ProgramStderr, Request,
    Target, check_header,
};
use serde_json::Value;

use crate::declared::{OnChange, Problem, Quantity, Share, UpstreamDeclaration};
use crate::gateway::access_tokens::oauth_options;
use crate::gateway::lists::{Definition, Lists};
use crate::gateway::recycling::RecycleLimits;
use crate::guard::pattern::Pattern;
use crate::server::options::unit::Unit;
use crate::service::RequestInfo;

/// One upstream.
#[derive(Clone)]
pub struct UpstreamSettings {
    /// Its name, unique in the gateway.
    pub name: Box<str>,
    /// How it is reached.
    pub target: Target,
    /// Headers of each HTTP request.
    pub headers: Vec<(String, String)>,
    /// Headers of callers that its requests have, too.
    pub headers_pass: Vec<Box<str>>,
    /// How its access tokens are obtained.
    pub oauth: Option<OAuthOptions>,
    /// Which revisions its clients speak.
    pub era: EraPreference,
    /// Who shares a program or a session.
    pub share: Share,
    /// Whether the call of a client that can only be asked for roots has a program of its own.
    pub roots: bool,
    /// Programs or sessions at once.
    pub children_max: usize,
    /// Time of a handshake.
    pub init_timeout: Duration,
    /// Time of a call without progress.
    pub call_timeout: Duration,
    /// Time of a call in all.
    pub call_max: Duration,
    /// Time without a call after which a program is ended, or a connection closed.
    pub idle_stop: Duration,
    /// When a program that all callers share is replaced.
    pub recycle: RecycleLimits,
    /// File of its lists, which are offered before it has been started.
    pub manifest: Option<PathBuf>,
    /// What happens to tools that have changed; `None` if that was not said.
    pub on_change: Option<OnChange>,
    /// What of it is offered, and how.
    pub selection: Selection,
    /// Makes its clients, in place of one with the default options.
    pub client: Option<MakeClient>,
}

/// Makes a client of an upstream, without the options that the gateway sets.
pub type MakeClient = Arc<dyn Fn() -> Result<ClientBuilder, ClientError> + Send + Sync>;

/// What is offered of an upstream, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    only: Vec<Pattern>,
    hide: Vec<Pattern>,
    pinned: Vec<Pattern>,
    /// Names at the upstream, and the offered ones.
    pub renames: BTreeMap<String, String>,
    /// Names at the upstream, and the offered descriptions.
    descriptions: BTreeMap<String, String>,
    /// Scopes that callers of tools need.
    pub scopes: Vec<String>,
}

impl Selection {
    /// Whether the entry with this name or URI is offered.
    pub fn offers(&self, name: &str) -> bool {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|it| it.matches(name));
        (self.only.is_empty() || matches(&self.only)) && !matches(&self.hide)
    }

    /// Whether `uri`, which a template stands for, is not left out.
    pub fn hides(&self, uri: &str) -> bool {
        self.hide.iter().any(|it| it.matches(uri))
    }

    /// Whether a tool is listed although tools are searched.
    pub fn is_pinned(&self, tool: &str) -> bool {
        self.pinned.iter().any(|it| it.matches(tool))
    }

    /// Leaves out of `lists` what is not offered, and sets the declared descriptions.
    pub fn apply(&self, lists: &mut Lists) {
        let is_offered = |key: &str, definition: &Definition| {
            self.offers(definition.get(key).and_then(Value::as_str).unwrap_or_default())
        };
        lists.tools.retain(|it| is_offered("name", it));
        lists.prompts.retain(|it| is_offered("name", it));
        lists.resources.retain(|it| is_offered("uri", it));
        lists.templates.retain(|it| is_offered("uriTemplate", it));
        for tool in &mut lists.tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(description) = self.descriptions.get(name) {
                tool.insert("description".to_owned(), description.as_str().into());
            }
        }
    }
}

const TIME: Unit = Unit::Milliseconds { min: 1, max: 24 * 3600 * 1000 };
const AGE: Unit = Unit::Milliseconds { min: 1, max: 365 * 24 * 3600 * 1000 };
const NAME_CHARACTERS_MAX: usize = 32;
const CHILDREN_MAX: usize = 64;

impl UpstreamSettings {
    /// Settings of `target` with the defaults.
    pub fn new(name: impl Into<Box<str>>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            headers: Vec::new(),
            headers_pass: Vec::new(),
            oauth: None,
            era: EraPreference::Auto,
            share: Share::Auto,
            roots: false,
            children_max: CHILDREN_MAX,
            init_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(1),
            call_max: Duration::from_mins(10),
            idle_stop: Duration::from_mins(10),
            recycle: RecycleLimits::default(),
            manifest: None,
            on_change: None,
            selection: Selection::default(),
            client: None,
        }
    }

    /// Checks a declaration. `folder` is that of its file, and `variable` returns a variable of the
    /// environment.
    ///
    /// # Errors
    ///
    /// A value is invalid.
    pub fn from_declaration(
        declaration: &UpstreamDeclaration,
        folder: &Path,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        check_name(&declaration.name)?;
        let target = target_of(declaration, folder, variable)?;
        if !declaration.headers.is_empty()
            && !matches!(target, Target::Http(_) | Target::WebSocket(_))
        {
            return Err(Problem::new("headers", "need a url of HTTP", "remove them"));
        }
        let oauth = match &declaration.oauth {
            Some(oauth) => Some(oauth_options(oauth, &target)?),
            None => None,
        };
        let mut names = declaration.headers.keys();
        if oauth.is_some() && names.any(|name| name.eq_ignore_ascii_case("authorization")) {
            let message = "is given besides a header Authorization";
            return Err(Problem::new("oauth", message, "an upstream has one of them"));
        }
        let defaults = Self::new(declaration.name.as_str(), target);
        let time = |key, given: &Option<Quantity>, default| match given {
            Some(given) => given.parse(key, &TIME).map(Duration::from_millis),
            None => Ok(default),
        };
        let children_max = match declaration.max_children {
            Some(0) => return Err(Problem::new("max_children", "is 0", "write 1 or more")),
            Some(most) => usize::try_from(most).unwrap_or(usize::MAX),
            None => CHILDREN_MAX,
        };
        let headers = declaration.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        Ok(Self {
            headers: headers.collect(),
            headers_pass: headers_pass_of(declaration, &defaults.target)?,
            oauth,
            selection: Selection {
                only: patterns(&declaration.only),
                hide: patterns(&declaration.hide),
                pinned: patterns(&declaration.pinned),
                renames: declaration.rename.clone(),
                descriptions: declaration.describe.clone(),
                scopes: declaration.scopes.clone(),
            },
            era: era_of(declaration)?,
            on_change: declaration.on_change,
            share: declaration.share,
            roots: declaration.roots,
            children_max,
            init_timeout: time("init_timeout", &declaration.init_timeout, defaults.init_timeout)?,
            call_timeout: time("call_timeout", &declaration.call_timeout, defaults.call_timeout)?,
            call_max: time("call_max", &declaration.call_max, defaults.call_max)?,
            idle_stop: time("idle_stop", &declaration.idle_stop, defaults.idle_stop)?,
            recycle: recycle_of(declaration)?,
            manifest: declaration.manifest.as_ref().map(|path| folder.join(path)),
            ..defaults
        })
    }
}

impl UpstreamSettings {
    /// Adds the headers of the caller that are passed on.
    pub fn pass_headers(&self, caller: &RequestInfo, request: Request<Value>) -> Request<Value> {
        self.headers_pass.iter().fold(request, |request, name| match caller.header(name) {
            Some(value) => request.header(name, value),
            None => request,
        })
    }
}

/// The debug format omits headers, which may be secret.
impl std::fmt::Debug for UpstreamSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = formatter.debug_struct("UpstreamSettings");
        text.field("name", &self.name).field("share", &self.share).finish_non_exhaustive()
    }
}

/// Headers of callers that are never passed on: what authorizes a caller here.
const KEPT_HEADERS: [&str; 4] = ["authorization", "cookie", "dpop", "proxy-authorization"];

/// Checks the names of headers that are passed on.
fn headers_pass_of(
    declaration: &UpstreamDeclaration,
    target: &Target,
) -> Result<Vec<Box<str>>, Problem> {
    let names = &declaration.headers_pass;
    let key = "headers_pass";
    if !names.is_empty() && !matches!(target, Target::Http(_)) {
        return Err(Problem::new(key, "needs a url of HTTP", "remove it"));
    }
    for (index, name) in names.iter().enumerate() {
        let is_same = |other: &str| other.eq_ignore_ascii_case(name);
        if KEPT_HEADERS.into_iter().any(is_same) {
            let hint = "headers and oauth say how the gateway authorizes itself";
            return Err(Problem::new(key, format!("{name} of callers is never passed on"), hint));
        }
        let mut others = declaration.headers.keys().chain(&names[..index]);
        if others.any(|other| is_same(other)) {
            return Err(Problem::new(key, format!("{name} is given twice"), "remove one"));
        }
        let checked = check_header(name, "");
        checked.map_err(|error| Problem::new(key, error.message(), "remove it"))?;
    }
    Ok(names.iter().map(|name| name.as_str().into()).collect())
}

/// When a program is replaced. Those of a session or a principal keep state, which would be lost.
fn recycle_of(declaration: &UpstreamDeclaration) -> Result<RecycleLimits, Problem> {
    let UpstreamDeclaration { max_calls, max_age, share, .. } = declaration;
    let keys = [("max_calls", max_calls.is_some()), ("max_age", max_age.is_some())];
    let given = keys.into_iter().find(|(_, is_given)| *is_given);
    if let Some((key, _)) = given
        && matches!(share, Share::Principal | Share::Session)
    {
        let message = "is for programs that all callers share";
        return Err(Problem::new(key, message, "remove it, or write share = \"all\""));
    }
    if *max_calls == Some(0) {
        return Err(Problem::new("max_calls", "is 0", "write 1 or more"));
    }
    let max_age = max_age.as_ref().map(|it| it.parse("max_age", &AGE)).transpose()?;
    let max_age = max_age.map(Duration::from_millis);
    Ok(RecycleLimits { max_calls: *max_calls, max_age })
}

fn era_of(declaration: &UpstreamDeclaration) -> Result<EraPreference, Problem> {
    let Some(text) = &declaration.era else { return Ok(EraPreference::Auto) };
    text.parse().map_err(|error: ClientError| {
        Problem::new("era", format!("{text:?} is no revision"), error.message().to_owned())
    })
}

fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

fn check_name(name: &str) -> Result<(), Problem> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > NAME_CHARACTERS_MAX || !name.bytes().all(is_allowed) {
        let message = format!("{name:?} is no name of an upstream");
        return Err(Problem::new("name", message, "use 1 to 32 characters of a-z 0-9 -"));
    }
    Ok(())
}

fn target_of(
    declaration: &UpstreamDeclaration,
    folder: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Target, Problem> {
    let UpstreamDeclaration { command, url, cwd, env, env_pass, .. } = declaration;
    match (command, url) {
        (Some(command), None) => {
            let Some((name, arguments)) =
                command.split_first().filter(|(name, _)| !name.is_empty())
            else {
                return Err(Problem::new("command", "is empty", "name a program"));
            };
            let mut program = Program::new(name).stderr(ProgramStderr::Log);
            program = arguments.iter().fold(program, Program::arg);
            program = env.iter().fold(program, |program, (name, value)| program.env(name, value));
            for name in env_pass {
                if let Some(value) = variable(name) {
                    program = program.env(name, value);
                }
            }
            let directory = match cwd {
                Some(directory) => folder.join(directory),
                None => folder.to_owned(),
            };
            if !directory.as_os_str().is_empty() {
                program = program.current_dir(directory);
            }
            Ok(program.into())
        }
        (None, Some(url)) => {
            if cwd.is_some() || !env.is_empty() || !env_pass.is_empty() {
                let message = "cwd, env and env_pass belong to a command";
                return Err(Problem::new("url", message, "remove them"));
            }
            url.parse().map_err(|error: ClientError| {
                Problem::new("url", error.message().to_owned(), "write https://host/mcp")
            })
        }
        (Some(_), Some(_)) => {
            Err(Problem::new("url", "is given besides command", "an upstream has one of them"))
        }
        (None, None) => {
            let hint =
                "an upstream has command = [\"program\", \"argument\"] or url = \"https://…\"";
            Err(Problem::new("", "has neither command nor url", hint))
        }
    }
}
