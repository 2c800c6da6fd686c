//! Answers to what a server asks of its client: elicitation, sampling, roots.
//!
//! Up to MCP 2025-11-25 the server sends requests; from 2026-07-28 on its result requires input,
//! and the request is sent again with the answers (basic/patterns/mrtr).

use corelane_protocol::eras::ClientCapabilities;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The result for each request of a server that is answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// Result of `elicitation/create`.
    pub elicitation: Option<Value>,
    /// Result of `sampling/createMessage`.
    pub sampling: Option<Value>,
    /// Result of `roots/list`.
    pub roots: Option<Value>,
}

/// The members of a result that requires input.
#[derive(Deserialize)]
struct InputRequired {
    #[serde(default, rename = "inputRequests")]
    requests: Map<String, Value>,
    #[serde(default, rename = "requestState")]
    state: Option<Value>,
}

impl Answers {
    /// Returns the capabilities that they need.
    pub fn capabilities(&self) -> ClientCapabilities {
        let of = |answer: &Option<Value>, capability| match answer {
            Some(_) => capability,
            None => ClientCapabilities::NONE,
        };
        of(&self.elicitation, ClientCapabilities::ELICITATION_FORM)
            .union(of(&self.sampling, ClientCapabilities::SAMPLING))
            .union(of(&self.roots, ClientCapabilities::ROOTS))
    }

    /// Returns the result for a request of the server.
    fn result(&self, method: &str) -> Option<&Value> {
        match method {
            "elicitation/create" => self.elicitation.as_ref(),
            "sampling/createMessage" => self.sampling.as_ref(),
            "roots/list" => self.roots.as_ref(),
            _ => None,
        }
    }

    /// Returns whether a request of the server has an answer.
    pub fn has_result(&self, method: &str) -> bool {
        self.result(method).is_some()
    }

    /// Returns the response to a request of the server: its answer, an empty result for `ping`,
    /// else "method not found". `id` is JSON text.
    pub fn response(&self, id: &str, method: &str) -> String {
        let empty = json!({});
        let result = if method == "ping" { Some(&empty) } else { self.result(method) };
        if let Some(result) = result {
            return format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        }
        let error = r#"{"code":-32601,"message":"method not supported by the load generator"}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }

    /// Returns the members that the params of a request get after a result, a JSON text, that
    /// requires input.
    ///
    /// # Errors
    ///
    /// Why it cannot be answered, in one line.
    pub fn members(&self, result: &str) -> Result<String, String> {
        let required = serde_json::from_str::<InputRequired>(result)
            .map_err(|error| format!("the required input is invalid: {error}"))?;
        let mut responses = Map::new();
        for (key, request) in required.requests {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let answer = self.result(method).ok_or_else(|| {
                format!("the server requires {method}: add its result to [answers] of the plan")
            })?;
            responses.insert(key, answer.clone());
        }
        let responses = Value::from(responses);
        let state = required.state.map(|state| format!(",\"requestState\":{state}"));
        Ok(format!("\"inputResponses\":{responses}{}", state.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Answers {
        let elicitation = Some(json!({ "action": "accept", "content": { "name": "Ada" } }));
        Answers { elicitation, ..Answers::default() }
    }

    #[test]
    fn required_input_is_answered_with_state() {
        let result = json!({
            "resultType": "input_required", "requestState": "s\"1",
            "inputRequests": { "who": { "method": "elicitation/create", "params": {} } },
        });
        let members = answers().members(&result.to_string()).unwrap();
        let members: Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
        let expected =
            json!({ "inputResponses": { "who": answers().elicitation }, "requestState": "s\"1" });
        assert_eq!(members, expected);
        let unknown = result.to_string().replace("elicitation/create", "sampling/createMessage");
        let why = answers().members(&unknown).unwrap_err();
        assert!(why.contains("requires sampling/createMessage") && why.contains("[answers]"));
    }

    #[test]
    fn server_request_gets_matching_response() {
        let response = |method| answers().response("\"p\"", method);
        assert_eq!(response("ping"), r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
        assert!(response("elicitation/create").contains(r#""name":"Ada""#));
        assert!(response("sampling/createMessage").contains("-32601"));
        assert_eq!(answers().capabilities(), ClientCapabilities::ELICITATION_FORM);
    }
}
