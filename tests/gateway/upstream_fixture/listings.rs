//! Lists, resources, prompts and completion.

use serde_json::{Value, json};

use crate::options::Fault;
use crate::server::{Answer, Request, RpcError, Server};

/// The resources.
const RESOURCES: [&str; 3] = ["fixture://one", "fixture://two", "fixture://three"];
/// The template; its `id` has the values of [`WORDS`].
const TEMPLATE: &str = "fixture://item/{id}";
/// What completion offers.
const WORDS: [&str; 4] = ["ada", "alan", "grace", "kurt"];

impl Server {
    /// Answers a list, a read, a prompt or a completion.
    pub(crate) fn list_or_read(&mut self, method: &str, request: &Request) -> Answer {
        match method {
            "tools/list" => {
                let tools = self.tools();
                self.page(request, "tools", &tools)
            }
            "resources/list" => {
                let resource = |uri: &&str| {
                    let name = uri.trim_start_matches("fixture://");
                    json!({"uri": uri, "name": name, "mimeType": "text/plain"})
                };
                self.page(request, "resources", &RESOURCES.each_ref().map(resource))
            }
            "resources/templates/list" => {
                let template = json!({"uriTemplate": TEMPLATE, "name": "item"});
                self.page(request, "resourceTemplates", &[template])
            }
            "resources/read" => read_resource(request),
            "prompts/list" => {
                let arguments = json!([{"name": "name", "required": true}]);
                let greet = json!({"name": "greet", "title": "Greeting", "arguments": arguments});
                let prompts = [greet, json!({"name": "plain"}), json!({"name": "last"})];
                self.page(request, "prompts", &prompts)
            }
            "prompts/get" => prompt(&request.params),
            "completion/complete" => Ok(complete_argument(&request.params)),
            _ => Err(RpcError::new(-32601, format!("no method {method}"))),
        }
    }

    /// Returns a page of `items`, and what a cacheable result has.
    fn page(&self, request: &Request, key: &str, items: &[Value]) -> Answer {
        let cursor = request.params.get("cursor").filter(|cursor| !cursor.is_null());
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let index = cursor.as_str().and_then(|it| it.strip_prefix("from-")?.parse().ok());
                let index = index.filter(|index| *index <= items.len());
                index.ok_or_else(|| RpcError::invalid_params("params.cursor is invalid"))?
            }
        };
        let size = if self.options.page_size == 0 { items.len() } else { self.options.page_size };
        let end = items.len().min(start + size);
        let mut result = json!({key: &items[start..end]});
        if end < items.len() {
            result["nextCursor"] = json!(format!("from-{end}"));
        }
        Ok(cacheable(request, result))
    }

    /// The tools, those that `change` has added and those of `--tools`.
    fn tools(&mut self) -> Vec<Value> {
        let mut tools: Vec<Value> = TOOLS.iter().map(tool).collect();
        self.lists += 1;
        if self.options.has(Fault::ChangesTools) {
            tools[0]["description"] = json!(format!("Returns the message ({})", self.lists));
        }
        for index in 1..=self.calls.added {
            tools.push(tool(&Tool {
                name: &format!("added_{index}"),
                description: "Added by `change`",
                arguments: &[],
            }));
        }
        if self.options.has_tasks {
            let arguments = &[("message", "string")];
            let mut job = tool(&Tool { name: "job", description: "Runs as a task", arguments });
            job["execution"] = json!({"taskSupport": "required"});
            tools.push(job);
        }
        if self.options.seed.is_some() {
            let arguments = &[("message", "string"), ("owner", "string")];
            let description = "Does what the seed decides for the message";
            tools.push(tool(&Tool { name: "random", description, arguments }));
        }
        for index in 0..self.options.tools {
            tools.push(tool(&Tool {
                name: &format!("more_{index:05}"),
                description: "One of many tools",
                arguments: &[("message", "string")],
            }));
        }
        tools
    }
}

fn cacheable(request: &Request, mut result: Value) -> Value {
    if request.is_modern {
        result["ttlMs"] = json!(60_000);
        result["cacheScope"] = json!("public");
    }
    result
}

fn read_resource(request: &Request) -> Answer {
    let uri = request.params["uri"].as_str().unwrap_or_default();
    let is_item = uri.strip_prefix("fixture://item/").is_some_and(|id| !id.is_empty());
    if !is_item && !RESOURCES.contains(&uri) {
        let code = if request.is_modern { -32602 } else { -32002 };
        return Err(RpcError { data: json!({"uri": uri}), ..RpcError::new(code, "no resource") });
    }
    let text = format!("text of {uri}");
    let contents = json!([{"uri": uri, "mimeType": "text/plain", "text": text}]);
    Ok(cacheable(request, json!({"contents": contents})))
}

fn prompt(params: &Value) -> Answer {
    let text = match params["name"].as_str().unwrap_or_default() {
        "greet" => {
            let name = params["arguments"]["name"].as_str();
            let missing = || RpcError::invalid_params("argument name is missing");
            format!("Greet {}.", name.ok_or_else(missing)?)
        }
        "plain" | "last" => "Say something.".to_owned(),
        name => return Err(RpcError::invalid_params(format!("no prompt {name}"))),
    };
    let content = json!({"type": "text", "text": text});
    Ok(json!({"messages": [{"role": "user", "content": content}]}))
}

fn complete_argument(params: &Value) -> Value {
    let typed = params["argument"]["value"].as_str().unwrap_or_default();
    let values: Vec<&str> = WORDS.into_iter().filter(|word| word.starts_with(typed)).collect();
    json!({"completion": {"values": values, "total": values.len(), "hasMore": false}})
}

/// A tool in the list.
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    /// Names and types of its arguments.
    arguments: &'a [(&'a str, &'a str)],
}

const TOOLS: [Tool<'_>; 19] = [
    Tool { name: "echo", description: "Returns the message", arguments: &[("message", "string")] },
    Tool { name: "pid", description: "The id of the process", arguments: &[] },
    Tool { name: "count", description: "Calls so far", arguments: &[] },
    Tool { name: "whoami", description: "Made at initialize", arguments: &[] },
    Tool { name: "state", description: "What the server knows of its client", arguments: &[] },
    Tool {
        name: "slow",
        description: "Waits for the release file",
        arguments: &[("release", "string")],
    },
    Tool {
        name: "ask",
        description: "Elicits; several times with `rounds`",
        arguments: &[("message", "string"), ("rounds", "integer")],
    },
    Tool { name: "sample", description: "Requests sampling", arguments: &[("rounds", "integer")] },
    Tool { name: "roots", description: "Requests the roots", arguments: &[] },
    Tool { name: "progress", description: "Sends 3 notifications", arguments: &[] },
    Tool { name: "log", description: "Logs a message", arguments: &[("level", "string")] },
    Tool { name: "change", description: "Adds a tool", arguments: &[("kind", "string")] },
    Tool { name: "end_listens", description: "Ends subscriptions/listen", arguments: &[] },
    Tool { name: "touch", description: "Updates a resource", arguments: &[("uri", "string")] },
    Tool { name: "big", description: "Returns n bytes", arguments: &[("bytes", "integer")] },
    Tool {
        name: "stderr",
        description: "Writes to standard error",
        arguments: &[("message", "string")],
    },
    Tool { name: "fail", description: "Fails as a tool", arguments: &[] },
    Tool { name: "error", description: "Answers with an error", arguments: &[] },
    Tool { name: "exit", description: "Ends the process", arguments: &[("status", "integer")] },
];

fn tool(tool: &Tool<'_>) -> Value {
    let arguments = tool.arguments.iter();
    let properties: serde_json::Map<String, Value> =
        arguments.map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {"type": "object", "properties": properties},
    })
}
