//! A declared HTTP request that can be called.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderValue, USER_AGENT};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::addresses::{AddressRefused, AllowedAddresses};
use super::client::{ClientSettings, HttpClient, root_cause};
use super::compile::{compile, fixed_request};
use super::declaration::{HttpDeclaration, ResultFormat, RetryDeclaration};
use super::pages::{PageRule, check_pointer};
use super::request::{PreparedRequest, RequestTemplate};
use super::response::{self, ResultRule};
use super::retry::{RetryPolicy, is_temporary};
use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::{CallLimits, Quantity};
use crate::declared::problem::Problem;
use crate::declared::room::{CallRoom, NO_ROOM, OutputRoom};
use crate::server::options::unit::Unit;

const CONNECT_TIMEOUT: Unit = Unit::Milliseconds { min: 1, max: 600_000 };
const AGENT: &str = concat!("corelane/", env!("CARGO_PKG_VERSION"));
const ACCEPT_JSON: HeaderValue = HeaderValue::from_static("application/json");
const ACCEPT_ALL: HeaderValue =
    HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.5");

/// What a tool has beside its request.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// Its connections.
    pub client: ClientSettings,
    /// When the request is sent again.
    pub retry: RetryDeclaration,
    /// Value of the header `User-Agent`.
    pub user_agent: Option<String>,
    /// Its limits.
    pub limits: CallLimits,
}

/// A declared HTTP request.
#[derive(Clone)]
pub struct HttpTool {
    request: RequestTemplate,
    client: Client,
    result: ResultRule,
    pages: Option<PageRule>,
    retry: RetryPolicy,
    limits: CallLimits,
    names: BTreeSet<String>,
}

impl HttpTool {
    /// Checks the declaration and prepares its request.
    ///
    /// # Errors
    ///
    /// All problems of the declaration.
    pub fn new(
        declaration: &HttpDeclaration,
        client: &mut HttpClient,
        limits: CallLimits,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let compiled = compile(declaration).map_err(|found| problems.extend(found)).ok();
        let settings = ConnectionDeclaration::from(declaration).settings(limits);
        let settings = settings.map_err(|problem| problems.push(problem)).ok();
        let pages = declaration.pages.as_ref().map(PageRule::new).transpose();
        let pages = pages.map_err(|problem| problems.push(problem)).ok();
        if let Some(Err(problem)) =
            declaration.result.as_ref().map(|pointer| check_pointer("result", pointer))
        {
            problems.push(problem);
        }
        let (Some(compiled), Some(settings), Some(pages), true) =
            (compiled, settings, pages, problems.is_empty())
        else {
            return Err(problems);
        };
        let format = declaration.format;
        let mut tool = Self::from_request(compiled.request, &settings, client)
            .map_err(|problem| vec![problem])?;
        tool.names = compiled.names;
        tool.result = ResultRule { format, pointer: declaration.result.clone() };
        tool.pages = pages;
        Ok(tool)
    }

    /// A tool of a request that is not declared.
    ///
    /// # Errors
    ///
    /// The settings are out of range, or the origin is an address that is not allowed.
    pub fn from_request(
        mut request: RequestTemplate,
        settings: &ToolSettings,
        client: &mut HttpClient,
    ) -> Result<Self, Problem> {
        let retry = RetryPolicy::new(&settings.retry)?;
        let origin = Url::parse(&request.origin)
            .map_err(|error| Problem::new("url", error.to_string(), "correct the URL"))?;
        let client = client.get(&settings.client, &origin)?;
        if !request.headers.contains_key(USER_AGENT) {
            let agent = settings.user_agent.as_deref().unwrap_or(AGENT);
            let agent = HeaderValue::from_str(agent).map_err(|_| {
                let message = "has a line feed or a control character";
                Problem::new("user_agent", message, "write such as \"my-server/1.0\"")
            })?;
            request.headers.insert(USER_AGENT, agent);
        }
        let (result, limits) = (ResultRule::default(), settings.limits);
        Ok(Self { request, client, result, pages: None, retry, limits, names: BTreeSet::new() })
    }

    /// Sets what the response must be; by default its `Content-Type` says it.
    pub(crate) fn set_format(&mut self, format: ResultFormat) {
        self.result.format = Some(format);
    }

    /// Names of the arguments that the declaration uses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Method of the request.
    pub fn method(&self) -> &Method {
        &self.request.method
    }

    /// Sends the request. Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// The arguments make no valid request, or the server does not answer as declared.
    pub async fn call(&self, call: Call, room: &CallRoom<'_>) -> Result<Output, Failure> {
        let deadline = sleep(self.limits.timeout).deadline();
        let request = self.prepare(&call)?;
        let result = timeout_at(deadline, self.send_all(request, deadline, room)).await;
        let result = result.unwrap_or_else(|_| {
            if room.is_waiting() {
                return Err(Failure::failed(NO_ROOM));
            }
            let seconds = self.limits.timeout.as_secs_f64();
            Err(Failure::failed(format_args!("no complete response within {seconds} s")))
        });
        result.map_err(|failure| match failure {
            Failure::Failed(text) => {
                let host = self.request.origin.split_once("://").map_or("", |(_, host)| host);
                Failure::Failed(format!("{} {host}: {text}", self.request.method))
            }
            invalid @ Failure::InvalidArgument(_) => invalid,
        })
    }

    fn prepare(&self, call: &Call) -> Result<PreparedRequest, Failure> {
        let mut request = self.request.build(call)?;
        if !request.headers.contains_key(ACCEPT) {
            let is_json = self.result.pointer.is_some() || self.pages.is_some();
            request.headers.insert(ACCEPT, if is_json { ACCEPT_JSON } else { ACCEPT_ALL });
        }
        Ok(request)
    }

    async fn send_all(
        &self,
        request: PreparedRequest,
        deadline: Instant,
        room: &CallRoom<'_>,
    ) -> Result<Output, Failure> {
        let Some(rule) = &self.pages else {
            let response = self.send(request, deadline).await?;
            let response = response::read(response, 0, room).await?;
            return response::output(response, &self.result);
        };
        self.send_pages(request, rule, deadline, room).await
    }

    async fn send_pages(
        &self,
        mut request: PreparedRequest,
        rule: &PageRule,
        deadline: Instant,
        room: &CallRoom<'_>,
    ) -> Result<Output, Failure> {
        let mut items = Vec::new();
        let mut bytes = 0;
        let mut pages = 0;
        let is_complete = loop {
            let response = self.send(request.clone(), deadline).await?;
            let url = response.url().clone();
            let response = match response::read(response, bytes, room).await {
                // What was read until here is a result, too.
                Err(_) if pages > 0 => break false,
                other => other?,
            };
            bytes += response.body.len();
            pages += 1;
            let body = response::json(&response)?;
            let next = rule.next_url(&url, &response.headers, &body)?;
            items.extend(self.page_items(body)?);
            match next {
                None => break true,
                Some(_) if pages == rule.pages_max => break false,
                Some(next) => request.url = next,
            }
        };
        Ok(Output::Json(json!({ "items": items, "complete": is_complete })))
    }

    fn page_items(&self, body: Value) -> Result<Vec<Value>, Failure> {
        let pointer = self.result.pointer.as_deref().unwrap_or_default();
        match response::take_pointer(body, pointer)? {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            _ => Err(Failure::failed(format_args!("the response has no list at {pointer:?}"))),
        }
    }

    /// Sends a request, again if it is allowed, and returns a response with a status of success.
    async fn send(&self, request: PreparedRequest, deadline: Instant) -> Result<Response, Failure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let result = self.send_once(&request).await;
            let is_last = !self.retry.allows(&request.method, attempt);
            let wait = match &result {
                Ok(response) if response.status().is_success() => {
                    return result.map_err(|error| describe(&error));
                }
                Ok(response) if is_temporary(response.status()) && !is_last => {
                    self.retry.wait(attempt, Some(response.headers()))
                }
                Err(error) if is_temporary_error(error) && !is_last => {
                    self.retry.wait(attempt, None)
                }
                _ => None,
            };
            match wait.map(sleep).filter(|wait| wait.deadline() < deadline) {
                Some(wait) => {
                    drop(result);
                    wait.await;
                }
                None => return Err(describe_result(result, attempt).await),
            }
        }
    }

    async fn send_once(&self, request: &PreparedRequest) -> reqwest::Result<Response> {
        let PreparedRequest { method, url, headers, body } = request;
        let mut built = reqwest::Request::new(method.clone(), url.clone());
        *built.headers_mut() = headers.clone();
        *built.body_mut() = body.clone().map(Into::into);
        self.client.execute(built).await
    }
}

/// What declarations of requests say about their connections.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionDeclaration<'a> {
    pub(crate) retry: &'a RetryDeclaration,
    pub(crate) connect_timeout: Option<&'a Quantity>,
    pub(crate) private_addresses: &'a [String],
    pub(crate) user_agent: Option<&'a str>,
    pub(crate) proxy: Option<&'a str>,
    pub(crate) root_certificates: Option<&'a str>,
}

impl ConnectionDeclaration<'_> {
    /// The settings of tools.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub(crate) fn settings(&self, limits: CallLimits) -> Result<ToolSettings, Problem> {
        let allowed = AllowedAddresses::parse("private_addresses", self.private_addresses)?;
        let proxy = self.proxy.map(str::to_owned);
        let root_certificates = self.root_certificates.map(str::to_owned);
        let mut client =
            ClientSettings { allowed, proxy, root_certificates, ..ClientSettings::default() };
        if let Some(timeout) = self.connect_timeout {
            let timeout = timeout.parse("connect_timeout", &CONNECT_TIMEOUT)?;
            client.connect_timeout = Duration::from_millis(timeout);
        }
        RetryPolicy::new(self.retry)?;
        let user_agent = self.user_agent.map(str::to_owned);
        Ok(ToolSettings { client, retry: self.retry.clone(), user_agent, limits })
    }
}

impl<'a> From<&'a HttpDeclaration> for ConnectionDeclaration<'a> {
    fn from(declaration: &'a HttpDeclaration) -> Self {
        Self {
            retry: &declaration.retry,
            connect_timeout: declaration.connect_timeout.as_ref(),
            private_addresses: &declaration.private_addresses,
            user_agent: declaration.user_agent.as_deref(),
            proxy: declaration.proxy.as_deref(),
            root_certificates: declaration.root_certificates.as_deref(),
        }
    }
}

/// Fetches the body at `url`, of at most `bytes_max` bytes.
///
/// # Errors
///
/// The URL is invalid or not allowed, or the server does not answer with success.
pub(crate) async fn fetch(
    url: &str,
    settings: &ToolSettings,
    client: &mut HttpClient,
    bytes_max: usize,
) -> Result<Bytes, Failure> {
    let request = fixed_request(url).map_err(|found| Failure::failed(&found[0]))?;
    let mut tool = HttpTool::from_request(request, settings, client).map_err(Failure::failed)?;
    tool.result.format = Some(ResultFormat::Media);
    let room = OutputRoom::default();
    match tool.call(Call::default(), &CallRoom::new(&room, bytes_max)).await? {
        Output::Media { data, .. } => Ok(data),
        Output::Text(_) | Output::Json(_) | Output::JsonText(_) => Ok(Bytes::new()),
    }
}

async fn describe_result(result: reqwest::Result<Response>, attempts: u32) -> Failure {
    let failure = match result {
        Ok(response) => response::describe_error(response).await,
        Err(error) => describe(&error),
    };
    match failure {
        Failure::Failed(text) if attempts > 1 => {
            Failure::Failed(format!("{text} (after {attempts} requests)"))
        }
        other => other,
    }
}

/// The sentence of an error without a response.
fn describe(error: &reqwest::Error) -> Failure {
    if let Some(refused) = refused(error) {
        return Failure::failed(refused);
    }
    let cause = root_cause(error);
    Failure::failed(if error.is_timeout() {
        "no connection within the time that is allowed".to_owned()
    } else if error.is_connect() {
        format!("no connection: {cause}")
    } else {
        format!("the connection failed: {cause}")
    })
}

/// The address that the resolver has refused.
fn refused(error: &reqwest::Error) -> Option<&AddressRefused> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Whether a connection may succeed later: a refused address and a wrong certificate stay.
fn is_temporary_error(error: &reqwest::Error) -> bool {
    // Errors of TLS have no kind of their own.
    let is_tls =
        |it: &io::Error| matches!(it.kind(), io::ErrorKind::InvalidData | io::ErrorKind::Other);
    let is_invalid = causes(error).filter_map(|cause| cause.downcast_ref()).any(is_tls);
    error.is_connect() && refused(error).is_none() && !is_invalid
}

/// The causes of an error, the outermost first.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}
