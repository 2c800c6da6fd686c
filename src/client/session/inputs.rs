//! Input that the server requires of the client: elicitation, sampling, roots.
//!
//! A legacy server sends a request. A modern one answers a call with `input_required`: the call
//! waits here until all its inputs are there, and is then sent again with them.
//!
//! MCP 2026-07-28 `basic/patterns/mrtr`; `client/elicitation`, `client/sampling` and `client/roots`
//! of each revision.

use std::collections::HashSet;

use super::calls::Call;
use super::request::CallRequest;
use crate::error::{ClientError, ClientErrorKind};
use corelane_base::id_map::IdMap;
use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::json::{Object, Value, write};
use corelane_protocol::jsonrpc::{Id, IdBuf};

/// Rounds of one call: a server that requires input again and again is given up.
const ROUNDS_MAX: u32 = 32;
/// Most inputs that one result may require.
const INPUTS_MAX: usize = 64;
/// Most inputs that one task may require, in all of its rounds.
const TASK_INPUTS_MAX: usize = 1_024;

/// Kind of an input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InputKind {
    /// `elicitation/create`: asks the user.
    Elicitation,
    /// `sampling/createMessage`: asks the model of the client.
    Sampling,
    /// `roots/list`: directories and files that the server may use.
    Roots,
}

impl InputKind {
    /// Returns the kind that a method requires.
    pub(super) fn of_method(method: &str) -> Option<Self> {
        Some(match method {
            "elicitation/create" => Self::Elicitation,
            "sampling/createMessage" => Self::Sampling,
            "roots/list" => Self::Roots,
            _ => return None,
        })
    }

    /// Returns whether a client with these capabilities handles the kind.
    pub(super) const fn is_declared(self, declared: ClientCapabilities) -> bool {
        match self {
            Self::Elicitation => {
                declared.contains(ClientCapabilities::ELICITATION_FORM)
                    || declared.contains(ClientCapabilities::ELICITATION_URL)
            }
            Self::Sampling => declared.contains(ClientCapabilities::SAMPLING),
            Self::Roots => declared.contains(ClientCapabilities::ROOTS),
        }
    }
}

/// Names an input of a session.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InputKey(u64);

/// An input that the client must provide.
#[derive(Debug)]
pub struct RequiredInput {
    /// Names it for [`Session::provide_input`](super::Session::provide_input).
    pub key: InputKey,
    pub kind: InputKind,
    /// The params as a JSON object.
    pub params: Vec<u8>,
}

/// What an input is for.
#[derive(Debug)]
pub(super) enum InputTarget {
    /// The response to a request of the server, which the caller of `call` provides if it is known.
    Response { id: IdBuf, call: Option<u64> },
    /// A member of `inputResponses` of this call.
    Member { call: u64, name: Box<str> },
    /// A member of `inputResponses` of the task that this call waits for.
    Task { call: u64, name: Box<str> },
}

impl InputTarget {
    fn is_of_call(&self, id: u64) -> bool {
        matches!(self, Self::Member { call, .. } | Self::Task { call, .. } if *call == id)
    }
}

/// A call that waits for its inputs.
#[derive(Debug)]
struct Round<T> {
    call: Call<T>,
    request_state: Option<Box<str>>,
    /// The members of `inputResponses` so far, encoded.
    responses: Vec<u8>,
    missing: usize,
}

/// The inputs that are required, and the calls that wait for them.
#[derive(Debug)]
pub(super) struct InputTable<T> {
    targets: IdMap<InputKey, InputTarget>,
    /// By the id of the first request of the call.
    rounds: IdMap<u64, Round<T>>,
    last_key: u64,
}

impl<T> InputTable<T> {
    pub(super) fn new() -> Self {
        Self { targets: IdMap::default(), rounds: IdMap::default(), last_key: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.rounds.is_empty()
    }

    fn insert(
        &mut self,
        kind: InputKind,
        params: Option<Value<'_>>,
        target: InputTarget,
    ) -> RequiredInput {
        self.last_key += 1;
        let key = InputKey(self.last_key);
        self.targets.insert(key, target);
        let mut text = Vec::new();
        match params {
            Some(params) => params.write(&mut text),
            None => text.extend_from_slice(b"{}"),
        }
        RequiredInput { key, kind, params: text }
    }

    /// Adds a request of the server.
    pub(super) fn insert_request(
        &mut self,
        id: Id<'_>,
        kind: InputKind,
        params: Option<Value<'_>>,
    ) -> RequiredInput {
        self.insert(kind, params, InputTarget::Response { id: id.into(), call: None })
    }

    /// Returns whether a request of the server waits for its response.
    pub(super) fn has_requests(&self) -> bool {
        let is_request = |target: &InputTarget| matches!(target, InputTarget::Response { .. });
        self.targets.values().any(is_request)
    }

    /// Number of requests of the server that the caller of this call provides.
    pub(super) fn requests_of(&self, id: u64) -> usize {
        let is_of_call = |target: &&InputTarget| {
            let InputTarget::Response { call, .. } = target else { return false };
            *call == Some(id)
        };
        self.targets.values().filter(is_of_call).count()
    }

    /// Lets the caller of `call` provide a request of the server.
    pub(super) fn assign(&mut self, key: InputKey, call: u64) {
        if let Some(InputTarget::Response { call: assigned, .. }) = self.targets.get_mut(&key) {
            *assigned = Some(call);
        }
    }

    /// Adds a call whose result requires input. Returns the inputs, which may be none: the call is
    /// sent again at once then, see [`InputTable::take_complete`].
    pub(super) fn insert_round(
        &mut self,
        call: Call<T>,
        result: Value<'_>,
        declared: ClientCapabilities,
    ) -> Result<Vec<RequiredInput>, Box<(T, ClientError)>> {
        let declared = call.request.declared.unwrap_or(declared);
        let inputs = match read_inputs(&call, result, declared) {
            Ok(inputs) => inputs,
            Err(error) => return Err(Box::new((call.token, error))),
        };
        let state = result.as_object().and_then(|result| result.find("requestState"));
        let (first_id, missing) = (call.first_id, inputs.len());
        let required = inputs.into_iter().map(|(name, kind, params)| {
            let target = InputTarget::Member { call: first_id, name: name.into() };
            self.insert(kind, params, target)
        });
        let required = required.collect();
        let request_state = state.and_then(Value::as_str).map(Box::from);
        let round = Round { call, request_state, responses: Vec::new(), missing };
        self.rounds.insert(first_id, round);
        Ok(required)
    }

    /// Adds the inputs that the task of a call requires and that are not `known` yet.
    pub(super) fn insert_task_inputs(
        &mut self,
        call: u64,
        known: &mut HashSet<Box<str>>,
        requests: Option<Object<'_>>,
        declared: ClientCapabilities,
    ) -> Result<Vec<RequiredInput>, ClientError> {
        let mut inputs = read_requests(requests, declared)?;
        inputs.retain(|(name, ..)| known.insert((*name).into()));
        if known.len() > TASK_INPUTS_MAX {
            let text = "the task requires more than 1,024 inputs";
            return Err(ClientError::new(ClientErrorKind::Protocol, text));
        }
        let required = inputs.into_iter().map(|(name, kind, params)| {
            self.insert(kind, params, InputTarget::Task { call, name: name.into() })
        });
        Ok(required.collect())
    }

    /// Removes the inputs of a call or of its task.
    pub(super) fn remove_inputs(&mut self, call: u64) -> Vec<InputKey> {
        let removed = self.targets.extract_if(|_, target| target.is_of_call(call));
        let mut keys: Vec<_> = removed.map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    /// Returns what an input is for; `None` if it is not required any more.
    pub(super) fn target(&self, key: InputKey) -> Option<&InputTarget> {
        self.targets.get(&key)
    }

    /// Returns the call that waits for inputs and whose first request had this id.
    pub(super) fn round(&self, call: u64) -> Option<&Call<T>> {
        self.rounds.get(&call).map(|round| &round.call)
    }

    /// Takes what an input is for; `None` if it is not required any more.
    pub(super) fn take_target(&mut self, key: InputKey) -> Option<InputTarget> {
        self.targets.remove(&key)
    }

    /// Adds an input to its call.
    pub(super) fn add_response(&mut self, call: u64, name: &str, response: &[u8]) {
        let Some(round) = self.rounds.get_mut(&call) else { return };
        if !round.responses.is_empty() {
            round.responses.push(b',');
        }
        write::string(&mut round.responses, name);
        round.responses.push(b':');
        round.responses.extend_from_slice(response);
        round.missing -= 1;
    }

    /// Takes a call that has all its inputs, with the request to send.
    pub(super) fn take_complete(&mut self, call: u64) -> Option<(Call<T>, Box<CallRequest>)> {
        if self.rounds.get(&call)?.missing > 0 {
            return None;
        }
        let Round { mut call, request_state, responses, .. } = self.rounds.remove(&call)?;
        call.rounds += 1;
        let mut request = call.request.clone();
        extend_params(&mut request.params, request_state.as_deref(), &responses);
        Some((call, request))
    }

    /// Takes a call that waits for input; its inputs are not required any more.
    pub(super) fn remove_round(&mut self, call: u64) -> Option<(Call<T>, Vec<InputKey>)> {
        let round = self.rounds.remove(&call)?;
        Some((round.call, self.remove_inputs(call)))
    }

    /// Removes a request that the server has cancelled.
    pub(super) fn remove_request(&mut self, id: Id<'_>) -> Option<InputKey> {
        let is_wanted = |target: &InputTarget| {
            let InputTarget::Response { id: of, .. } = target else { return false };
            of.as_id() == id
        };
        let mut targets = self.targets.iter();
        let key = *targets.find(|(_, target)| is_wanted(target))?.0;
        self.targets.remove(&key);
        Some(key)
    }

    /// Takes all calls, in the order in which they were made, and all inputs.
    pub(super) fn take_all(&mut self) -> (Vec<Call<T>>, Vec<InputKey>) {
        let mut rounds: Vec<_> = self.rounds.drain().collect();
        rounds.sort_unstable_by_key(|(id, _)| *id);
        let mut keys: Vec<_> = self.targets.drain().map(|(key, _)| key).collect();
        keys.sort_unstable();
        (rounds.into_iter().map(|(_, round)| round.call).collect(), keys)
    }
}

/// An input of a result: its name, kind and params.
type NamedInput<'a> = (&'a str, InputKind, Option<Value<'a>>);

/// Reads `inputRequests` of a result.
fn read_inputs<'a, T>(
    call: &Call<T>,
    result: Value<'a>,
    declared: ClientCapabilities,
) -> Result<Vec<NamedInput<'a>>, ClientError> {
    let protocol = |text: &'static str| Err(ClientError::new(ClientErrorKind::Protocol, text));
    let method = call.request.method;
    if !matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead) {
        return protocol("the server requires input for a method that may not require any");
    }
    if call.rounds >= ROUNDS_MAX {
        return protocol("the server requires input again and again");
    }
    let member = |name| result.as_object().and_then(|result| result.find(name));
    let requests = member("inputRequests").and_then(Value::as_object);
    if requests.is_none() && member("requestState").and_then(Value::as_str).is_none() {
        return protocol("input_required with neither inputRequests nor requestState");
    }
    read_requests(requests, declared)
}

/// Reads the members of `inputRequests`.
fn read_requests(
    requests: Option<Object<'_>>,
    declared: ClientCapabilities,
) -> Result<Vec<NamedInput<'_>>, ClientError> {
    let protocol = |text: &'static str| Err(ClientError::new(ClientErrorKind::Protocol, text));
    let mut inputs = Vec::new();
    for (name, request) in requests.into_iter().flatten() {
        let request = request.as_object();
        let method = request.and_then(|request| request.find("method")).and_then(Value::as_str);
        let Some(kind) = method.and_then(InputKind::of_method) else {
            return protocol("the server requires input of an unknown kind");
        };
        if !kind.is_declared(declared) {
            let text = format!("the client has no handler for {kind:?}, which the server requires");
            return Err(ClientError::new(ClientErrorKind::Unsupported, text));
        }
        inputs.push((name, kind, request.and_then(|request| request.find("params"))));
    }
    if inputs.len() > INPUTS_MAX {
        return protocol("the server requires more than 64 inputs at once");
    }
    Ok(inputs)
}

/// Adds `inputResponses` and `requestState` to the params of a request.
fn extend_params(params: &mut Vec<u8>, request_state: Option<&str>, responses: &[u8]) {
    if params.is_empty() {
        params.extend_from_slice(b"{}");
    }
    params.truncate(params.trim_ascii_end().len() - 1);
    let mut member = |key: &[u8], write: &mut dyn FnMut(&mut Vec<u8>)| {
        if params.trim_ascii_end() != b"{" {
            params.push(b',');
        }
        params.extend_from_slice(key);
        write(params);
    };
    if !responses.is_empty() {
        member(br#""inputResponses":"#, &mut |out| {
            out.push(b'{');
            out.extend_from_slice(responses);
            out.push(b'}');
        });
    }
    if let Some(state) = request_state {
        member(br#""requestState":"#, &mut |out| write::string(out, state));
    }
    params.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_params_carry_responses_and_state() {
        let extended = |params: &str, state, responses: &str| {
            let mut params = params.as_bytes().to_vec();
            extend_params(&mut params, state, responses.as_bytes());
            String::from_utf8(params).unwrap()
        };
        assert_eq!(extended("", None, ""), "{}");
        assert_eq!(extended("{}", Some("s\"t"), ""), r#"{"requestState":"s\"t"}"#);
        assert_eq!(
            extended(r#"{"name":"a"}"#, Some("s"), r#""q":1"#),
            r#"{"name":"a","inputResponses":{"q":1},"requestState":"s"}"#
        );
    }
}
