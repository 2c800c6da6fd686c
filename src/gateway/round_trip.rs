//! Round trips of a request to an upstream of 2026-07-28: its result requires input of the client,
//! and the request is sent again with the responses.
//!
//! Invariants: nothing is held between two round trips of a client of 2026-07-28. It gets the input
//! requests under the keys of the upstream, and the `requestState` of the upstream is in the
//! encrypted one of the server, with the name of the upstream. A client of an older revision gets
//! requests, while the call of the client lasts.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use corelane_protocol::error::Error;
use corelane_protocol::json::write;
use corelane_protocol::model::{ForwardedKind, ForwardedRequest};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::service::{ClientRequestError, HandlerError, PastRoundTrips, RequestContext};

/// Input that one result may require, as in the client.
const INPUTS_MAX: usize = 64;

/// What a request has besides the params of its first round trip.
#[derive(Debug, Default)]
pub struct RoundTrip {
    responses: Vec<(Box<str>, Box<RawValue>)>,
    state: Option<Box<str>>,
}

/// What the server keeps for the next round trip, as JSON.
#[derive(Deserialize, Serialize)]
struct Kept<'a> {
    upstream: Cow<'a, str>,
    state: Option<Cow<'a, str>>,
}

/// The input that a result requires.
#[derive(Debug)]
pub struct RequiredInput {
    requests: Vec<(String, ForwardedRequest)>,
    state: Option<String>,
}

impl RoundTrip {
    /// The round trip that a client begins: with the responses that it gives, for `upstream`.
    ///
    /// # Errors
    ///
    /// The input was required by another upstream.
    pub fn of_client(past: PastRoundTrips, upstream: &str) -> Result<Self, HandlerError> {
        let PastRoundTrips { responses, kept, .. } = past;
        let Some(kept) = kept else { return Ok(Self { responses, state: None }) };
        match serde_json::from_str::<Kept<'_>>(&kept) {
            Ok(kept) if kept.upstream == upstream => {
                Ok(Self { responses, state: kept.state.map(Into::into) })
            }
            _ => Err(Error::invalid_params(
                "the input was required by another upstream, which had this name before; repeat \
                 the request without inputResponses and requestState",
            )
            .into()),
        }
    }

    /// Adds `inputResponses` and `requestState` to the params of a request, a JSON object.
    pub fn extend(&self, params: &mut Vec<u8>) {
        if self.responses.is_empty() && self.state.is_none() {
            return;
        }
        params.truncate(params.trim_ascii_end().len());
        params.pop();
        let mut separator: &[u8] = if params.ends_with(b"{") { b"" } else { b"," };
        if !self.responses.is_empty() {
            params.extend_from_slice(separator);
            params.extend_from_slice(b"\"inputResponses\":{");
            for (index, (key, response)) in self.responses.iter().enumerate() {
                if index > 0 {
                    params.push(b',');
                }
                write::string(params, key);
                params.push(b':');
                params.extend_from_slice(response.get().as_bytes());
            }
            params.push(b'}');
            separator = b",";
        }
        if let Some(state) = &self.state {
            params.extend_from_slice(separator);
            params.extend_from_slice(b"\"requestState\":");
            write::string(params, state);
        }
        params.push(b'}');
    }
}

impl RequiredInput {
    /// Reads a response whose result requires input; `None` if it does not.
    ///
    /// # Errors
    ///
    /// What it requires is invalid.
    pub fn read(response: &[u8]) -> Result<Option<Self>, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Response<'a> {
            #[serde(borrow)]
            result: ResultType<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ResultType<'a> {
            #[serde(borrow, default)]
            result_type: Cow<'a, str>,
        }
        // Most results do not have the word.
        if memchr::memmem::find(response, b"input_required").is_none() {
            return Ok(None);
        }
        let is_required = serde_json::from_slice::<Response<'_>>(response)
            .is_ok_and(|it| it.result.result_type == "input_required");
        if is_required { Self::read_required(response).map(Some) } else { Ok(None) }
    }

    fn read_required(response: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Response {
            result: Required,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Required {
            input_requests: Option<Map<String, Value>>,
            request_state: Option<String>,
        }
        #[derive(Deserialize)]
        struct Request {
            method: String,
            #[serde(default)]
            params: Map<String, Value>,
        }
        let invalid = |error: serde_json::Error| format!("invalid input requests: {error}");
        let Response { result } = serde_json::from_slice(response).map_err(invalid)?;
        let Required { input_requests, request_state: state } = result;
        if input_requests.is_none() && state.is_none() {
            return Err("input_required with neither inputRequests nor requestState".to_owned());
        }
        let input_requests = input_requests.unwrap_or_default();
        if input_requests.len() > INPUTS_MAX {
            return Err(format!("more than {INPUTS_MAX} input requests"));
        }
        let kinds = [ForwardedKind::Elicit, ForwardedKind::CreateMessage, ForwardedKind::ListRoots];
        let requests = input_requests.into_iter().map(|(key, request)| {
            let Request { method, params } = serde_json::from_value(request).map_err(invalid)?;
            let kind = kinds.into_iter().find(|kind| kind.method() == method);
            let kind = kind.ok_or_else(|| "an input request of an unknown kind".to_owned())?;
            Ok((key, ForwardedRequest::new(kind, params)))
        });
        Ok(Self { requests: requests.collect::<Result<_, String>>()?, state })
    }

    /// Requires the input of the client for `upstream`. Returns the next round trip when it has
    /// responded, within `time`. To a client whose responses come with another request this does
    /// not return: the handler ends with its round trip.
    ///
    /// # Errors
    ///
    /// The client has not given the input, or has cancelled its request.
    pub async fn collect(
        self,
        upstream: &str,
        ctx: &RequestContext,
        time: Duration,
    ) -> Result<RoundTrip, HandlerError> {
        let Self { requests, state } = self;
        if requests.is_empty() {
            return Ok(RoundTrip { responses: Vec::new(), state: state.map(Into::into) });
        }
        let kept = Kept { upstream: upstream.into(), state: state.as_deref().map(Into::into) };
        let kept = serde_json::to_string(&kept).map_err(|it| Error::internal(it.to_string()))?;
        ctx.keep_for_round_trip(kept);
        let mut pending: Vec<RequestedInput> = Vec::with_capacity(requests.len());
        for (key, request) in requests {
            let response = Box::pin(ctx.forward_input(&key, request));
            pending.push(RequestedInput { key: key.into(), response });
        }
        let mut responses = Vec::with_capacity(pending.len());
        let (mut cancelled, mut over) = (ctx.cancelled(), Box::pin(ctx.sleep(time)));
        poll_fn(|context| {
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(HandlerError::Cancelled));
            }
            if over.as_mut().poll(context).is_ready() {
                let text = format!("the call of upstream `{upstream}` took longer than call_max");
                return Poll::Ready(Err(Error::internal(text).into()));
            }
            let mut open = Vec::with_capacity(pending.len());
            for mut input in pending.drain(..) {
                match input.response.as_mut().poll(context) {
                    Poll::Ready(Ok(response)) => {
                        let response = to_raw_value(&response);
                        let response = response.map_err(|it| Error::internal(it.to_string()))?;
                        responses.push((input.key, response));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                    Poll::Pending => open.push(input),
                }
            }
            pending = open;
            if pending.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(RoundTrip { responses, state: state.map(Into::into) })
    }
}

/// An input request that the client has, and the future of its response.
struct RequestedInput {
    key: Box<str>,
    response: Pin<Box<dyn Future<Output = Result<Value, ClientRequestError>>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_extends_params_of_request() {
        let response = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let responses = vec![("a".into(), response("{}")), ("b\"".into(), response("[1]"))];
        for (round_trip, params, expected) in [
            (RoundTrip::default(), "{}", "{}"),
            (
                RoundTrip { responses, state: None },
                r#"{"name":"x"} "#,
                r#"{"name":"x","inputResponses":{"a":{},"b\"":[1]}}"#,
            ),
            (
                RoundTrip { responses: Vec::new(), state: Some("s\"".into()) },
                "{}",
                r#"{"requestState":"s\""}"#,
            ),
        ] {
            let mut extended = params.as_bytes().to_vec();
            round_trip.extend(&mut extended);
            assert_eq!(String::from_utf8(extended).unwrap(), expected);
        }
    }

    #[test]
    fn input_required_is_read_from_response() {
        let read = |result: &str| {
            RequiredInput::read(format!(r#"{{"id":1,"result":{result}}}"#).as_bytes())
        };
        assert!(read(r#"{"content":[{"text":"input_required"}]}"#).unwrap().is_none());
        assert!(read(r#"{"resultType":"complete","x":"input_required"}"#).unwrap().is_none());
        let required = read(
            r#"{"resultType":"input_required","requestState":"s","inputRequests":
                {"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{}}}}"#,
        );
        let RequiredInput { requests, state } = required.unwrap().unwrap();
        let keys: Vec<&str> = requests.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!((keys, state.as_deref()), (vec!["a", "b"], Some("s")));
        for invalid in [
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"ping"}}}"#,
            r#"{"resultType":"input_required","inputRequests":7}"#,
        ] {
            assert!(read(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn request_state_of_other_upstream_is_rejected() {
        let kept = serde_json::to_string(&Kept {
            upstream: "one".into(),
            state: Some("state \" of \u{1f980}".into()),
        });
        let past = PastRoundTrips { kept: Some(kept.unwrap().into()), ..Default::default() };
        let round_trip = RoundTrip::of_client(past.clone(), "one").unwrap();
        assert_eq!(round_trip.state.as_deref(), Some("state \" of \u{1f980}"));
        assert!(RoundTrip::of_client(past, "two").is_err());
    }
}
