//! The server that a command talks to.

mod parity;

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use corelane_client::{
    Client, ClientBuilder, ClientError, ClientErrorKind, EraPreference, ReconnectOptions,
    RetryEvent, RetryPolicy, ServerInfo, Skill, Subscription, SubscriptionFilter, Target, Task,
};
use corelane_protocol::eras::Method;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use self::parity::ParityServer;
use super::elicitation;
use super::failure::{Failure, print_note};
use super::flags::credentials::{Credentials, LOGIN, oauth_options};
use super::flags::{
    DIALECT, ENV, ERA, PARITY, RETRY, TARGET, TIMEOUT, VERBOSE, given_address, given_tls,
    retry_policy,
};
use super::text::{ProgressLine, one_line};
use super::time_limit::TimeLimit;

/// Time to open a connection, unless the timeout is shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The error of a method that the server does not know.
const METHOD_NOT_FOUND: ClientErrorKind = ClientErrorKind::Rpc { code: -32601 };
/// What a command does first.
const CONNECTING: &str = "connecting";
/// Time before a call is made again, unless the server names one.
const REPEAT_DELAY: Duration = Duration::from_secs(1);

/// Attempts to connect again with `--retry`.
const RECONNECTS_MAX: u32 = 3;

pub(crate) struct Connection {
    peer: Peer,
    target: String,
    limit: Arc<TimeLimit>,
    is_verbose: bool,
    /// Calls of tools that may run twice are made again.
    repeats_declared: bool,
    progress: Arc<ProgressLine>,
}

/// A connected client, by its dialect.
enum Peer {
    Mcp(McpServer),
    Parity(ParityServer),
}

struct McpServer {
    client: Client,
    server: Arc<ServerInfo>,
}

/// A list: the document to print, and its items.
pub(crate) struct List {
    pub(crate) document: Box<RawValue>,
    pub(crate) items: Vec<Value>,
    /// Why the list may be longer: the server repeats the cursor of a page.
    pub(crate) failure: Option<ClientError>,
}

impl Connection {
    /// Connects to the target of the command line.
    pub(crate) fn open(matches: &ArgMatches) -> Result<Self, Failure> {
        let limit = Arc::new(TimeLimit::start(matches.get_one::<Duration>(TIMEOUT).copied()));
        let (target, credentials) = target_and_credentials(matches)?;
        let is_parity = matches.get_one::<String>(DIALECT).is_some_and(|it| it == PARITY);
        let target = if is_parity { target.for_parity() } else { target };
        let text = target.to_string();
        let progress: Arc<ProgressLine> = Arc::default();
        let peer = if is_parity {
            Peer::Parity(ParityServer::open(matches, target, &credentials, &limit)?)
        } else {
            Peer::Mcp(McpServer::open(matches, target, credentials, &limit, &progress)?)
        };
        let is_verbose = matches.get_flag(VERBOSE);
        let is_mcp = matches!(peer, Peer::Mcp(_));
        let repeats_declared = is_mcp && retry_policy(matches) == RetryPolicy::safe();
        let connection = Self { peer, target: text, limit, is_verbose, repeats_declared, progress };
        connection.note(&format!("connected to {}", connection.describe_server()));
        Ok(connection)
    }

    /// Returns what the server declared; `None` for another dialect than MCP.
    pub(crate) fn server(&self) -> Option<&ServerInfo> {
        match &self.peer {
            Peer::Mcp(server) => Some(&server.server),
            Peer::Parity(_) => None,
        }
    }

    /// Returns what a server of another dialect than MCP declared, in the members of MCP.
    pub(crate) fn declared(&self) -> Option<Value> {
        match &self.peer {
            Peer::Mcp(_) => None,
            Peer::Parity(server) => Some(server.declared()),
        }
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Makes a request and returns its result as the server sent it.
    pub(crate) fn request(
        &self,
        method: Method,
        params: &Value,
    ) -> Result<Box<RawValue>, ClientError> {
        let result = match &self.peer {
            Peer::Mcp(server) => server.request(method, params, &self.limit, &self.progress),
            Peer::Parity(server) => server.request(method, params, &self.limit, &self.progress),
        };
        self.progress.clear();
        self.note(method.as_str());
        result
    }

    /// Calls a tool as a task, and returns the task. A server of 2025-11-25 is asked to keep it for
    /// `ttl`.
    pub(crate) fn call_as_task(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        ttl: Option<Duration>,
    ) -> Result<Task, ClientError> {
        let method = Method::ToolsCall.as_str();
        let task = self.limit.run(method, self.client()?.call_tool(name, arguments).task(ttl));
        self.note(method);
        task
    }

    /// Returns whether a call that failed with `error` is made again if the tool may run twice.
    pub(crate) fn repeats_declared(&self, error: &ClientError) -> bool {
        let is_unavailable = match error.kind() {
            ClientErrorKind::Http { status } => status == 503,
            ClientErrorKind::Rpc { code } => code == 1001 || error.is_retryable(),
            _ => false,
        };
        self.repeats_declared && is_unavailable
    }

    /// Tells that a tool is called again after `error`, and waits for as long as the server asks.
    /// Returns `false` if the command does not have that time.
    pub(crate) fn wait_to_repeat(&self, name: &str, error: &ClientError) -> bool {
        let delay = error.retry_after().unwrap_or(REPEAT_DELAY);
        if self.limit.left().is_some_and(|left| left <= delay) {
            return false;
        }
        let event = RetryEvent::new(Method::ToolsCall.as_str(), Some(name), error.clone(), delay);
        self.progress.clear();
        print_note(&describe_retry(&event));
        self.limit.wait(delay)
    }

    /// Returns the time that the command has.
    pub(crate) fn limit(&self) -> &TimeLimit {
        &self.limit
    }

    /// Returns the task with this id, without asking the server for it.
    pub(crate) fn task(&self, id: &str) -> Result<Task, ClientError> {
        Ok(self.client()?.task(id))
    }

    /// Returns the client for what only MCP has.
    fn client(&self) -> Result<&Client, ClientError> {
        match &self.peer {
            Peer::Mcp(server) => Ok(&server.client),
            Peer::Parity(_) => {
                let text = "the parity dialect has no tasks, subscriptions and skills";
                Err(ClientError::new(ClientErrorKind::Unsupported, text))
            }
        }
    }

    /// Reads all pages of a list whose items are in the member `key`. The document of more than
    /// one page is the first page with the items of all. A page that is invalid ends the list.
    pub(crate) fn list(&self, method: Method, key: &'static str) -> Result<List, ClientError> {
        let client = match &self.peer {
            Peer::Mcp(server) => &server.client,
            Peer::Parity(server) => {
                let list = server.list(method, key, &self.limit);
                self.note(method.as_str());
                return list;
            }
        };
        let mut pages = client.raw_pages(method, key);
        let (mut first, mut items, mut count) = (None, Vec::new(), 0);
        let mut failure = None;
        loop {
            let next = async { pages.next().await.transpose() };
            let page = match self.limit.run(method.as_str(), next) {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) if count > 0 && error.kind() == ClientErrorKind::Protocol => {
                    failure = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            };
            self.note(method.as_str());
            count += 1;
            let document = page.document()?;
            items.extend(page.items);
            first.get_or_insert(document);
        }
        let document = first.unwrap_or(to_document(&json!({}))?);
        if count == 1 {
            return Ok(List { document, items, failure });
        }
        let mut page: Map<String, Value> = read(&document)?;
        page.remove("nextCursor");
        page.insert(key.to_owned(), Value::Array(items.clone()));
        Ok(List { document: to_document(&Value::Object(page))?, items, failure })
    }

    /// As [`Connection::list`], for one of several lists: a server that declares their capability
    /// and does not know the method of this one has no such items.
    pub(crate) fn optional_list(
        &self,
        method: Method,
        key: &'static str,
    ) -> Result<Option<List>, ClientError> {
        match self.list(method, key) {
            Ok(list) => Ok(Some(list)),
            Err(error) if error.kind() == METHOD_NOT_FOUND => {
                self.note(&format!("the server does not know {}", method.as_str()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a ping and returns the time of its round trip.
    pub(crate) fn ping(&self) -> Result<Duration, ClientError> {
        let start = self.limit.elapsed();
        match &self.peer {
            Peer::Mcp(server) => self.limit.run(Method::Ping.as_str(), server.client.ping())?,
            Peer::Parity(server) => server.ping(&self.limit)?,
        }
        Ok(self.limit.elapsed().saturating_sub(start))
    }

    /// Subscribes to changes.
    pub(crate) fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<Subscription, ClientError> {
        self.limit.run("the subscription", self.client()?.subscribe(filter))
    }

    /// Loads and verifies the skill with this URI.
    pub(crate) fn load_skill(&self, uri: &str) -> Result<Skill, ClientError> {
        let method = Method::SkillsGet.as_str();
        let skill = self.limit.run(method, Skill::get(self.client()?, uri));
        self.note(method);
        skill
    }

    /// Reads and verifies a file of a skill.
    pub(crate) fn read_skill_file(&self, skill: &Skill, uri: &str) -> Result<Vec<u8>, ClientError> {
        let method = Method::ResourcesRead.as_str();
        let bytes = self.limit.run(method, skill.read(uri));
        self.note(method);
        bytes
    }

    /// Closes the connection. A program that was started has 5 seconds to exit.
    pub(crate) fn close(self) {
        match self.peer {
            Peer::Mcp(server) => self.limit.close(server.client.close()),
            Peer::Parity(server) => server.close(&self.limit),
        }
    }

    /// Returns name, version and revision of the server.
    pub(crate) fn describe_server(&self) -> String {
        let server = match &self.peer {
            Peer::Mcp(server) => &server.server,
            Peer::Parity(server) => return server.describe(),
        };
        let revision = server.revision.as_str();
        match &server.implementation {
            Some(info) => format!("{} {}, MCP {revision}", info.name, info.version),
            None => format!("a server without a name, MCP {revision}"),
        }
    }

    /// Notes what is done, with the time since the start, if the command is verbose.
    fn note(&self, what: &str) {
        if self.is_verbose {
            print_note(&format!("{} {what}", format_time(self.limit.elapsed())));
        }
    }
}

/// Returns the target of the command line, with the credentials for it.
pub(crate) fn target_and_credentials(
    matches: &ArgMatches,
) -> Result<(Target, Credentials), Failure> {
    let target = read_target(matches)?;
    let mut credentials = Credentials::from_matches(matches, &target)?;
    let target = credentials.pass_to_program(target);
    Ok((target, credentials))
}

/// Returns a client of `target` with the flags about addresses, credentials, TLS and revisions.
pub(crate) fn client_builder(
    matches: &ArgMatches,
    target: Target,
    credentials: Credentials,
) -> Result<ClientBuilder, Failure> {
    let address = given_address(matches, target.address())?;
    let authorization = oauth_options(matches, &target)?;
    let era = matches.get_one::<EraPreference>(ERA).copied().unwrap_or_default();
    let mut builder = Client::builder(target).era(era);
    if let Some(address) = address {
        builder = builder.connect_to(&address);
    }
    // A token that is given is used instead of an earlier login.
    let is_login = matches.get_flag(LOGIN);
    let authorization = authorization.filter(|_| is_login || !credentials.has_authorization());
    for (name, value) in &credentials.headers {
        builder = builder.header(name, value);
    }
    match (authorization, credentials.token) {
        (Some(options), _) => builder = builder.oauth(options),
        (None, Some(token)) => builder = builder.bearer(&token),
        (None, None) => {}
    }
    if let Some(tls) = given_tls(matches) {
        builder = builder.tls(tls);
    }
    Ok(builder)
}

impl McpServer {
    fn open(
        matches: &ArgMatches,
        target: Target,
        credentials: Credentials,
        limit: &Arc<TimeLimit>,
        progress: &Arc<ProgressLine>,
    ) -> Result<Self, Failure> {
        let mut builder = client_builder(matches, target, credentials)?;
        builder = builder.reconnect(reconnect_options(matches)).retry(retry_policy(matches));
        if let Some(timeout) = matches.get_one::<Duration>(TIMEOUT) {
            builder = builder.request_timeout(*timeout);
            builder = builder.connect_timeout(CONNECT_TIMEOUT.min(*timeout));
        }
        if elicitation::is_supported() {
            let (line, limit) = (Arc::clone(progress), Arc::clone(limit));
            builder = builder.on_elicitation(move |request| {
                line.clear();
                elicitation::ask_user(request, Arc::clone(&limit))
            });
        }
        let line = Arc::clone(progress);
        builder = builder.on_retry(move |retry| {
            line.clear();
            print_note(&describe_retry(&retry));
        });
        let client = builder.connect_lazy()?;
        match limit.run(CONNECTING, client.server()) {
            Ok(server) => Ok(Self { client, server }),
            Err(error) => {
                limit.close(client.close());
                Err(error.into())
            }
        }
    }

    /// Makes a request and returns its result as the server sent it.
    fn request(
        &self,
        method: Method,
        params: &Value,
        limit: &TimeLimit,
        progress: &Arc<ProgressLine>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut request = self.client.request(method.as_str(), params);
        if let Some(time) = limit.of_request() {
            request = request.timeout(time);
        }
        if ProgressLine::is_supported() {
            let line = Arc::clone(progress);
            request = request.on_progress(move |progress| line.show(&progress));
        }
        limit.run(method.as_str(), request)
    }
}

/// Returns how a command connects again. Without `--retry` it does not wait for a server that comes
/// back.
fn reconnect_options(matches: &ArgMatches) -> ReconnectOptions {
    let mut options = ReconnectOptions::default();
    if !matches.get_flag(RETRY) {
        options.attempts_max = Some(0);
        return options;
    }
    options.attempts_max = Some(RECONNECTS_MAX);
    options.delay_min = Duration::from_secs(1);
    options.retry_first = true;
    options
}

/// Returns why a request is sent again, and when.
fn describe_retry(retry: &RetryEvent) -> String {
    let RetryEvent { method, name, error, delay, .. } = retry;
    let name = name.as_deref().map(|name| format!(" {}", one_line(name))).unwrap_or_default();
    let delay = delay.as_secs_f64();
    format!("{error}; {method}{name} is sent again in {delay:.1} s")
}

/// Formats a time in milliseconds.
pub(crate) fn format_time(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Reads the target of the command line and the variables of its program.
fn read_target(matches: &ArgMatches) -> Result<Target, Failure> {
    let text = matches.get_one::<String>(TARGET).map(String::as_str).unwrap_or_default();
    let variables = matches.get_many::<(String, String)>(ENV).unwrap_or_default();
    match text.parse::<Target>()? {
        Target::Stdio(program) => {
            Ok(variables.fold(program, |program, (name, value)| program.env(name, value)).into())
        }
        _ if variables.len() > 0 => {
            Err(Failure::Usage("--env applies to a program; give a stdio: target".to_owned()))
        }
        target => Ok(target),
    }
}

/// Reads a result as a `T`.
pub(crate) fn read<T: DeserializeOwned>(result: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(result.get()).map_err(|error| invalid_result(&error))
}

/// Reads an item of a list as a `T`.
pub(crate) fn read_item<T: DeserializeOwned>(item: &Value) -> Result<T, ClientError> {
    T::deserialize(item).map_err(|error| invalid_result(&error))
}

/// Encodes a document that the client has put together.
pub(crate) fn to_document(value: &Value) -> Result<Box<RawValue>, ClientError> {
    serde_json::value::to_raw_value(value).map_err(|error| invalid_result(&error))
}

fn invalid_result(error: &serde_json::Error) -> ClientError {
    ClientError::new(ClientErrorKind::Protocol, format!("the result is invalid: {error}"))
}
