//! First events of the streams of requests that ask for progress or for a stream.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ReceiveEvent, ResponseMatcher};
use crate::mcp::in_flight::InFlightState;
use crate::mcp::request_template::RequestTemplate;
use crate::mcp::request_templates::RequestTemplates;

/// The members of a message that are examined.
#[derive(Deserialize)]
struct MessageView<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<ParamsView<'a>>,
}

#[derive(Deserialize)]
struct ParamsView<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    token: Option<&'a RawValue>,
}

impl ResponseMatcher {
    /// Records a notification or request of the server: progress for the request of its token,
    /// another message over HTTP for the request that is being answered, else for the only one in
    /// flight.
    #[cold]
    pub(super) fn record_message(
        &mut self,
        calls: &RequestTemplates,
        text: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let Ok(MessageView { method, params }) = serde_json::from_slice(text) else { return };
        let is_progress = method == "notifications/progress";
        let place = if is_progress {
            let token = params.and_then(|params| params.token?.get().parse().ok());
            token.and_then(|token| self.position(token))
        } else {
            (self.is_http || self.in_flight() == 1).then_some(0)
        };
        let call = place.and_then(|place| calls.call(self.requests.get(place)?.call));
        if let Some(place) = place
            && call.is_some_and(RequestTemplate::has_progress_token)
        {
            self.record_stream_event(place, is_progress, on_event);
        }
    }

    /// Reports the first event of the stream of a request, and its first progress.
    pub(super) fn record_stream_event(
        &mut self,
        place: usize,
        is_progress: bool,
        on_event: &mut impl FnMut(ReceiveEvent),
    ) {
        let Some(request) = self.requests.request_mut(place) else { return };
        if request.state != InFlightState::Waiting {
            return;
        }
        let (call, intended) = (request.call, request.intended);
        if !std::mem::replace(&mut request.has_event, true) {
            on_event(ReceiveEvent::FirstEvent { call, intended });
        }
        if is_progress && !std::mem::replace(&mut request.has_progress, true) {
            on_event(ReceiveEvent::FirstProgress { call, intended });
        }
    }
}
