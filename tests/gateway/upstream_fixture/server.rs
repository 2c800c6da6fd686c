//! Messages of both eras, and what the server knows of its client.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::process;

use serde_json::{Value, json};

use crate::options::{Fault, Options};
use crate::output::Output;
use crate::random::RandomCalls;
use crate::subscriptions::Subscriptions;
use crate::tasks::Tasks;
use crate::tools::Calls;

/// Keys of `_meta`.
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The extension with tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The revision of the modern era.
const MODERN: &str = "2026-07-28";

/// A request of the client.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) is_modern: bool,
    pub(crate) params: Value,
}

/// An error response.
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) data: Value,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }
}

/// A result, or an error.
pub(crate) type Answer = Result<Value, RpcError>;

/// The server.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) output: Output,
    pub(crate) calls: Calls,
    pub(crate) random: RandomCalls,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) tasks: Tasks,
    /// Made by the last `initialize`, or at the start.
    pub(crate) identity: String,
    /// What the client has declared in `initialize`.
    pub(crate) client: Value,
    /// The level of `logging/setLevel`.
    pub(crate) level: Option<String>,
    /// Process that [`Fault::Grandchild`] has started.
    pub(crate) grandchild: Option<u32>,
    /// Number of lists of tools.
    pub(crate) lists: u32,
    record: Option<File>,
}

impl Server {
    pub(crate) fn new(options: Options, grandchild: Option<u32>) -> io::Result<Self> {
        let record = options.record.as_ref();
        let record = record.map(|path| File::options().create(true).append(true).open(path));
        let mut server = Self {
            output: Output::new(&options),
            options,
            calls: Calls::default(),
            random: RandomCalls::default(),
            subscriptions: Subscriptions::default(),
            tasks: Tasks::default(),
            identity: new_identity(),
            client: Value::Null,
            level: None,
            grandchild,
            lists: 0,
            record: record.transpose()?,
        };
        server.record(format!("started {}", process::id()).as_bytes())?;
        Ok(server)
    }

    /// Handles one line of the client.
    pub(crate) fn receive(&mut self, line: &[u8]) -> io::Result<()> {
        self.record(line)?;
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
            let error = RpcError::new(-32700, "the line is not JSON");
            return self.output.write(&response(&Value::Null, Err(error)));
        };
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (method, message.get("id").cloned()) {
            (Some(method), Some(id)) => self.receive_request(&method, id, params),
            (Some(method), None) => {
                self.receive_notification(&method, &params);
                Ok(())
            }
            (None, _) => self.receive_response(&message),
        }
    }

    fn record(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.record {
            Some(record) => record.write_all(&[line, b"\n"].concat()),
            None => Ok(()),
        }
    }

    fn receive_request(&mut self, method: &str, id: Value, params: Value) -> io::Result<()> {
        let is_modern = self.options.is_modern && params["_meta"].get(REVISION).is_some();
        let request = Request { id, is_modern, params };
        let is_handshake = ["initialize", "server/discover"].contains(&method);
        if is_handshake && self.options.has(Fault::HangsAtInitialize) {
            return Ok(());
        }
        let checked = self.check_era(method, &request);
        let answer = match (checked, method) {
            (Err(error), _) => Err(error),
            (Ok(()), "tools/call") => return self.call_tool(&request),
            (Ok(()), "subscriptions/listen") if request.is_modern => return self.listen(&request),
            (Ok(()), _) => self.answer(method, &request),
        };
        self.respond(&request, answer)
    }

    /// Checks that the request belongs to an era that is served.
    fn check_era(&self, method: &str, request: &Request) -> Result<(), RpcError> {
        if request.is_modern {
            let meta = &request.params["_meta"];
            if meta[REVISION] != MODERN {
                let data = json!({"supported": [MODERN], "requested": meta[REVISION]});
                return Err(RpcError { data, ..RpcError::new(-32022, "unsupported revision") });
            }
            let has_capabilities = meta.get(CAPABILITIES).is_some_and(Value::is_object);
            let error = || RpcError::invalid_params(format!("_meta has no {CAPABILITIES}"));
            return if has_capabilities { Ok(()) } else { Err(error()) };
        }
        if self.options.is_legacy {
            return Ok(());
        }
        if method == "initialize" {
            let data =
                json!({"supported": [MODERN], "requested": request.params["protocolVersion"]});
            return Err(RpcError { data, ..RpcError::new(-32022, "unsupported revision") });
        }
        Err(RpcError::invalid_params(format!("_meta has no {REVISION}")))
    }

    fn answer(&mut self, method: &str, request: &Request) -> Answer {
        match method {
            "server/discover" if request.is_modern => Ok(json!({
                "supportedVersions": [MODERN],
                "capabilities": self.capabilities(),
                "instructions": "An upstream of tests.",
                "ttlMs": 60_000,
                "cacheScope": "public",
            })),
            "initialize" if !request.is_modern => Ok(self.initialize(request)),
            "ping" if !request.is_modern => Ok(json!({})),
            "logging/setLevel" if !request.is_modern => {
                self.level = request.params["level"].as_str().map(str::to_owned);
                Ok(json!({}))
            }
            "resources/subscribe" | "resources/unsubscribe" if !request.is_modern => {
                let uri = request.params["uri"].as_str().unwrap_or_default();
                self.subscriptions.set(uri, method == "resources/subscribe");
                Ok(json!({}))
            }
            "tasks/get" | "tasks/result" | "tasks/cancel" if self.options.has_tasks => {
                self.answer_about_task(method, request)
            }
            _ => self.list_or_read(method, request),
        }
    }

    fn initialize(&mut self, request: &Request) -> Value {
        self.identity = new_identity();
        self.client = request.params.clone();
        self.level = None;
        self.subscriptions = Subscriptions::default();
        let requested = request.params["protocolVersion"].as_str().unwrap_or_default();
        let known = self.options.revisions.iter().find(|revision| **revision == requested);
        json!({
            "protocolVersion": known.unwrap_or(&self.options.revisions[0]),
            "capabilities": self.capabilities(),
            "serverInfo": server_info(),
            "instructions": "An upstream of tests.",
        })
    }

    fn capabilities(&self) -> Value {
        let mut capabilities = json!({
            "tools": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "prompts": {"listChanged": true},
            "completions": {},
            "logging": {},
        });
        if self.options.has_tasks {
            capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
            capabilities["extensions"] = json!({TASKS: {}});
        }
        capabilities
    }

    /// What the client can do, as far as this request states it.
    pub(crate) fn client_capabilities<'s>(&'s self, request: &'s Request) -> &'s Value {
        if request.is_modern {
            &request.params["_meta"][CAPABILITIES]
        } else {
            &self.client["capabilities"]
        }
    }

    fn receive_notification(&mut self, method: &str, params: &Value) {
        if method == "notifications/cancelled" {
            let id = &params["requestId"];
            self.subscriptions.end(id);
            self.calls.cancel(id);
            self.random.cancel(id);
        }
    }

    /// Writes the response of a request that is no call.
    pub(crate) fn respond(&mut self, request: &Request, answer: Answer) -> io::Result<()> {
        self.output.write(&response(&request.id, complete(request, answer)))
    }

    /// Writes the response of a call.
    pub(crate) fn respond_call(&mut self, request: &Request, answer: Answer) -> io::Result<()> {
        self.output.write_call_response(response(&request.id, complete(request, answer)))
    }

    /// Writes a notification.
    pub(crate) fn notify(&mut self, method: &str, params: &Value) -> io::Result<()> {
        self.output.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }
}

/// Adds to a result what every result of its era has.
fn complete(request: &Request, answer: Answer) -> Answer {
    let mut result = answer?;
    if request.is_modern {
        if result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result["_meta"][SERVER_INFO] = server_info();
    }
    Ok(result)
}

fn response(id: &Value, answer: Answer) -> Value {
    match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcError { code, message, data }) => {
            let mut error = json!({"code": code, "message": message});
            if !data.is_null() {
                error["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

fn server_info() -> Value {
    json!({"name": "upstream_fixture", "version": "1.0.0", "title": "Upstream of tests"})
}

/// A text that no other `initialize` of any process makes.
fn new_identity() -> String {
    format!("{}-{:x}", process::id(), RandomState::new().build_hasher().finish())
}
