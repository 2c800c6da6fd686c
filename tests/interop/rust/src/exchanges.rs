//! What passes over HTTP while a client calls a tool whose stream ends before its result.
//!
//! The transport finds out by itself that the answer is still to come, and asks for it again by the
//! id of the last event; it ends its session when it is closed. Here every exchange is only noted,
//! as far as the SDK lets its HTTP client see it: an answer that is accepted or that carries a
//! message or a stream, but not its status line.

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
use crate::server::{Failure, Server};
use crate::told::{Heard, call, outcome};

pub(crate) async fn summary(server: &Server) -> Result<Value, Failure> {
    let exchanges = Heard::default();
    let http = Noting { http: reqwest::Client::new(), exchanges: exchanges.clone() };
    let client = server.connect_over(http, Host::default()).await?;
    let called = outcome(client.call_tool(call("test_reconnection", json!({}))).await);
    client.cancel().await?;
    Ok(json!({ "called": called, "exchanges": exchanges.take() }))
}

/// An HTTP client that notes what it does.
#[derive(Clone, Debug)]
struct Noting {
    http: reqwest::Client,
    exchanges: Heard,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Answer<T> = Result<T, StreamableHttpError<reqwest::Error>>;

impl StreamableHttpClient for Noting {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        bearer: Option<String>,
        headers: Headers,
    ) -> Answer<StreamableHttpPostResponse> {
        let answer = self.http.post_message(url, message, session.clone(), bearer, headers).await?;
        let (status, media, given) = match &answer {
            StreamableHttpPostResponse::Json(_, given) => (200, Some("application/json"), given),
            StreamableHttpPostResponse::Sse(_, given) => (200, Some("text/event-stream"), given),
            _ => (202, None, &None),
        };
        self.exchanges.add(json!({
            "verb": "POST",
            "status": status,
            "media": media,
            "given_session": given,
            "session": session.as_deref(),
        }));
        Ok(answer)
    }

    async fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        bearer: Option<String>,
        headers: Headers,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        let (asked, resumes) = (session.clone(), last_event.clone());
        let stream = self.http.get_stream(url, session, last_event, bearer, headers).await?;
        self.exchanges.add(json!({
            "verb": "GET",
            "status": 200,
            "media": "text/event-stream",
            "session": asked.as_deref(),
            "resumes": resumes,
        }));
        Ok(stream)
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        bearer: Option<String>,
        headers: Headers,
    ) -> Answer<()> {
        self.http.delete_session(url, session.clone(), bearer, headers).await?;
        self.exchanges.add(json!({ "verb": "DELETE", "status": 204, "session": &*session }));
        Ok(())
    }
}
