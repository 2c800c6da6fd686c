//! The tools of the fixture.

use std::io;
use std::path::PathBuf;
use std::process;

use serde_json::{Value, json};

use crate::options::Fault;
use crate::server::{Answer, Request, RpcError, Server};

/// What `requestState` begins with: characters that only an exact copy keeps.
const STATE: &str = "fixture \"é\" \\ \u{1f980} ";
/// Logging levels, the lowest first.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Calls of tools.
#[derive(Default)]
pub(crate) struct Calls {
    count: u64,
    cancelled: u64,
    /// Tools that `change` has added.
    pub(crate) added: u32,
    slow: Vec<Slow>,
    asking: Vec<Asking>,
    last_id: u64,
}

/// A call that waits for a file.
struct Slow {
    request: Request,
    release: Option<PathBuf>,
}

/// A call that waits for a response of the client.
struct Asking {
    /// The id of the request to the client.
    id: u64,
    request: Request,
    /// Requests after this one.
    rounds_left: u64,
}

impl Calls {
    /// Drops the call with this id.
    pub(crate) fn cancel(&mut self, id: &Value) {
        let before = self.slow.len() + self.asking.len();
        self.slow.retain(|slow| slow.request.id != *id);
        self.asking.retain(|asking| asking.request.id != *id);
        self.cancelled += u64::from(self.slow.len() + self.asking.len() < before);
    }
}

impl Server {
    /// `tools/call`.
    pub(crate) fn call_tool(&mut self, request: &Request) -> io::Result<()> {
        self.calls.count += 1;
        let is_tenth = self.options.has(Fault::DiesAtTenthCall) && self.calls.count == 10;
        if is_tenth || self.options.has(Fault::DiesInCall) {
            process::exit(3);
        }
        let arguments = &request.params["arguments"];
        let answer = match request.params["name"].as_str().unwrap_or_default() {
            "ask" | "sample" | "roots" => return self.ask(request),
            "random" => return self.call_random(request),
            "slow" => {
                let release = arguments["release"].as_str().map(PathBuf::from);
                let release = release.or_else(|| self.options.release.clone());
                self.calls.slow.push(Slow { request: request.clone(), release });
                return self.poll();
            }
            "progress" => self.send_progress(request)?,
            "log" => self.log(request)?,
            "change" => {
                let kind = arguments["kind"].as_str().unwrap_or("tools").to_owned();
                self.calls.added += u32::from(kind == "tools");
                self.notify_list_changed(&kind)?;
                text("changed")
            }
            "touch" => {
                let uri = arguments["uri"].as_str().unwrap_or("fixture://one").to_owned();
                self.notify_updated(&uri)?;
                text("updated")
            }
            "end_listens" => {
                self.end_listens()?;
                text("ended")
            }
            "exit" => {
                let status = arguments["status"].as_i64().and_then(|it| i32::try_from(it).ok());
                process::exit(status.unwrap_or_default());
            }
            "job" => self.create_task(request),
            name => self.simple_tool(name, arguments),
        };
        self.respond_call(request, answer)
    }

    fn simple_tool(&self, name: &str, arguments: &Value) -> Answer {
        let message = arguments["message"].as_str().unwrap_or_default();
        match name {
            "echo" => text(message),
            "pid" => text(&process::id().to_string()),
            "count" => text(&self.calls.count.to_string()),
            "whoami" => text(&self.identity),
            "state" => text(&self.state().to_string()),
            "big" => {
                let bytes = arguments["bytes"].as_u64().and_then(|it| usize::try_from(it).ok());
                text(&"x".repeat(bytes.unwrap_or(1_000)))
            }
            "stderr" => {
                eprintln!("{message}");
                text("written")
            }
            "fail" => Ok(tool_error("the tool has failed")),
            "error" => {
                let data = json!({"detail": [1, "two"]});
                Err(RpcError { data, ..RpcError::new(-32050, "the server has failed") })
            }
            _ if name.starts_with("added_") || name.starts_with("more_") => text(name),
            _ => Err(RpcError::invalid_params(format!("no tool {name}"))),
        }
    }

    fn state(&self) -> Value {
        json!({
            "calls": self.calls.count,
            "cancelled": self.calls.cancelled,
            "waiting": self.calls.slow.len() + self.calls.asking.len(),
            "lists": self.lists,
            "level": self.level,
            "subscriptions": self.subscriptions.describe(),
            "client": self.client,
            "grandchild": self.grandchild,
            "tasks": self.tasks.describe(),
        })
    }

    /// Whether a file is waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.random.is_waiting() || self.calls.slow.iter().any(|slow| slow.release.is_some())
    }

    /// Answers the calls of `slow` whose file is there.
    pub(crate) fn poll(&mut self) -> io::Result<()> {
        let is_released =
            |slow: &mut Slow| slow.release.as_ref().is_some_and(|release| release.exists());
        let released: Vec<Slow> = self.calls.slow.extract_if(.., is_released).collect();
        for slow in released {
            self.respond_call(&slow.request, text("released"))?;
        }
        Ok(())
    }

    fn send_progress(&mut self, request: &Request) -> io::Result<Answer> {
        let token = &request.params["_meta"]["progressToken"];
        for progress in 1..=3 {
            if !token.is_null() {
                let message = format!("step {progress}");
                let params = json!({
                    "progressToken": token, "progress": progress, "total": 3, "message": message,
                });
                self.notify("notifications/progress", &params)?;
            }
        }
        Ok(text("done"))
    }

    fn log(&mut self, request: &Request) -> io::Result<Answer> {
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
        let level = request.params["arguments"]["level"].as_str().unwrap_or("info");
        let minimum = if request.is_modern {
            request.params["_meta"]["io.modelcontextprotocol/logLevel"].as_str()
        } else {
            // Without `logging/setLevel` the server decides.
            Some(self.level.as_deref().unwrap_or("debug"))
        };
        let is_sent = minimum.is_some_and(|minimum| rank(level) >= rank(minimum));
        if is_sent {
            let params = json!({"level": level, "logger": "fixture", "data": self.calls.count});
            self.notify("notifications/message", &params)?;
        }
        Ok(text(if is_sent { "logged" } else { "not logged" }))
    }

    /// `ask`, `sample` and `roots`: a request to the client, or a result that asks for a retry.
    fn ask(&mut self, request: &Request) -> io::Result<()> {
        let name = request.params["name"].as_str().unwrap_or_default();
        let capability = match name {
            "ask" => "elicitation",
            "sample" => "sampling",
            _ => "roots",
        };
        let rounds = request.params["arguments"]["rounds"].as_u64().unwrap_or(1).max(1);
        if self.client_capabilities(request).get(capability).is_none() {
            let answer = if request.is_modern {
                let data = json!({"requiredCapabilities": {capability: {}}});
                Err(RpcError { data, ..RpcError::new(-32021, format!("{capability} is required")) })
            } else {
                Ok(tool_error(&format!("the client has no {capability}")))
            };
            return self.respond_call(request, answer);
        }
        if request.is_modern {
            let answer = ask_modern(&request.params, rounds);
            return self.respond_call(request, answer);
        }
        let at_once = request.params["arguments"]["at_once"].as_u64().unwrap_or(1);
        (0..at_once).try_for_each(|_| self.send_request(request.clone(), rounds - 1))
    }

    fn send_request(&mut self, request: Request, rounds_left: u64) -> io::Result<()> {
        self.calls.last_id += 1;
        let id = self.calls.last_id;
        let mut message = input_request(&request.params);
        message["jsonrpc"] = json!("2.0");
        message["id"] = json!(id);
        self.calls.asking.push(Asking { id, request, rounds_left });
        self.output.write(&message)
    }

    /// Ends the call that has sent the request, or sends its next one.
    pub(crate) fn receive_response(&mut self, message: &Value) -> io::Result<()> {
        let is_asked = |asking: &Asking| message["id"] == asking.id;
        let Some(index) = self.calls.asking.iter().position(is_asked) else { return Ok(()) };
        let Asking { request, rounds_left, .. } = self.calls.asking.remove(index);
        if let Some(error) = message.get("error") {
            return self.respond_call(&request, Ok(tool_error(&error.to_string())));
        }
        if rounds_left > 0 {
            return self.send_request(request, rounds_left - 1);
        }
        if self.calls.asking.iter().any(|asking| asking.request.id == request.id) {
            return Ok(());
        }
        self.respond_call(&request, text(&message["result"].to_string()))
    }
}

/// One round of a call: `requestState` has its number.
fn ask_modern(params: &Value, rounds: u64) -> Answer {
    let round = match params.get("requestState") {
        None => 0,
        Some(state) => {
            let round = state.as_str().and_then(|it| it.strip_prefix(STATE)?.parse::<u64>().ok());
            round.ok_or_else(|| RpcError::invalid_params("requestState is not of this server"))?
        }
    };
    let response = params["inputResponses"].get("answer");
    match response {
        Some(response) if round >= rounds => text(&response.to_string()),
        _ => {
            // Without a response the round is asked again.
            let next = if response.is_some() { round + 1 } else { round.max(1) };
            Ok(json!({
                "resultType": "input_required",
                "inputRequests": {"answer": input_request(params)},
                "requestState": format!("{STATE}{next}"),
            }))
        }
    }
}

/// The request that a call of `ask`, `sample` or `roots` makes.
fn input_request(params: &Value) -> Value {
    let arguments = &params["arguments"];
    match params["name"].as_str().unwrap_or_default() {
        "ask" => {
            let message = arguments["message"].as_str().unwrap_or("Which name?");
            let properties = json!({"name": {"type": "string"}});
            let schema = json!({"type": "object", "properties": properties, "required": ["name"]});
            let params = json!({"message": message, "requestedSchema": schema});
            json!({"method": "elicitation/create", "params": params})
        }
        "sample" => {
            let content = json!({"type": "text", "text": "What is the capital of France?"});
            let messages = json!([{"role": "user", "content": content}]);
            let params = json!({"messages": messages, "maxTokens": 100});
            json!({"method": "sampling/createMessage", "params": params})
        }
        _ => json!({"method": "roots/list", "params": {}}),
    }
}

/// A result with one text.
#[expect(clippy::unnecessary_wraps, reason = "every tool has an answer")]
fn text(text: &str) -> Answer {
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

fn tool_error(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}
