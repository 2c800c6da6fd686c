//! HTTP exchanges of a call whose SSE stream ends before its result.
//!
//! The SDK's transport resumes the stream with `Last-Event-ID` and deletes its session on close;
//! this module only records the exchanges. The SDK's client trait hides the status line: it shows
//! only whether a response was accepted or has a message or a stream.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::{Value, json};
use sse_stream::Sse;

use crate::host::Host;
use crate::outcomes::{EventLog, call, outcome};
use crate::server::{Failure, Server};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let exchanges = EventLog::default();
    let http = RecordingClient { http: reqwest::Client::new(), exchanges: exchanges.clone() };
    let client = server.connect_over(http, Host::default()).await?;
    let called = outcome(client.call_tool(call("test_reconnection", json!({}))).await);
    client.cancel().await?;
    Ok(json!({ "called": called, "exchanges": exchanges.take() }))
}

/// An HTTP client that records its exchanges.
#[derive(Clone, Debug)]
struct RecordingClient {
    http: reqwest::Client,
    exchanges: EventLog,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type HttpResult<T> = Result<T, StreamableHttpError<reqwest::Error>>;

impl StreamableHttpClient for RecordingClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        bearer: Option<String>,
        headers: Headers,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let response =
            self.http.post_message(url, message, session.clone(), bearer, headers).await?;
        let (status, media_type, assigned) = match &response {
            StreamableHttpPostResponse::Json(_, assigned) => {
                (200, Some("application/json"), assigned)
            }
            StreamableHttpPostResponse::Sse(_, assigned) => {
                (200, Some("text/event-stream"), assigned)
            }
            _ => (202, None, &None),
        };
        self.exchanges.add(json!({
            "method": "POST",
            "status": status,
            "content_type": media_type,
            "assigned_session": assigned,
            "session": session.as_deref(),
        }));
        Ok(response)
    }

    async fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        bearer: Option<String>,
        headers: Headers,
    ) -> HttpResult<BoxStream<'static, Result<Sse, SseError>>> {
        let (sent_session, resumed_from) = (session.clone(), last_event.clone());
        let stream = self.http.get_stream(url, session, last_event, bearer, headers).await?;
        self.exchanges.add(json!({
            "method": "GET",
            "status": 200,
            "content_type": "text/event-stream",
            "session": sent_session.as_deref(),
            "last_event_id": resumed_from,
        }));
        Ok(stream)
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        bearer: Option<String>,
        headers: Headers,
    ) -> HttpResult<()> {
        self.http.delete_session(url, session.clone(), bearer, headers).await?;
        self.exchanges.add(json!({ "method": "DELETE", "status": 204, "session": &*session }));
        Ok(())
    }
}
