//! Tool calls that run as tasks.
//!
//! MCP 2025-11-25 `basic/utilities/tasks`; the extension `io.modelcontextprotocol/tasks`,
//! 2026-07-28.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::call::read_result;
use super::{Request, SentRequest};
use crate::error::{ClientError, ClientErrorKind};
use crate::io::PeerRef;
use crate::results::{CallToolResult, TaskInfo};
use crate::session::{CallRequest, ReceivedMessage, TaskMode};
use crate::sync::block_on;
use corelane_protocol::eras::Method;

/// A tool call that is to run as a task. It is sent when it is awaited; [`TaskRequest::wait`] sends
/// it and blocks the thread instead.
#[must_use = "a request is sent when it is awaited"]
#[derive(Debug)]
pub struct TaskRequest(Request<CallToolResult>);

impl Request<CallToolResult> {
    /// Runs the tool call as a task, which goes on when the connection is lost. `ttl` asks a server
    /// of 2025-11-25 to keep the task for this time from its creation; since 2026-07-28 the server
    /// decides that, and also whether the call becomes a task at all.
    ///
    /// Without this, a call that a server of 2026-07-28 turns into a task waits for its result.
    pub fn task(mut self, ttl: impl Into<Option<Duration>>) -> TaskRequest {
        self.set_task_mode(TaskMode::Create { ttl: ttl.into() });
        TaskRequest(self)
    }
}

impl<R: DeserializeOwned + 'static> Request<R> {
    /// Receives the states of the task that the request waits for, whenever the client has asked
    /// for them: the task of a [`Task::result`], or one that a tool call became (2026-07-28).
    /// Consecutive states may be equal. `on_status` is called on the I/O thread and must not block.
    pub fn on_task_status(mut self, on_status: impl Fn(TaskInfo) + Send + Sync + 'static) -> Self {
        if let Ok(request) = &mut self.request {
            request.wants_task_status = true;
        }
        self.on_message(move |message| match read_result(&message) {
            Ok(status) => on_status(status),
            Err(error) => tracing::debug!(%error, "a state of a task cannot be read"),
        })
    }
}

impl TaskRequest {
    /// Sends the request and blocks the thread until the task is created.
    ///
    /// # Errors
    ///
    /// Those of the future, and of [`Request::wait`].
    pub fn wait(self) -> Result<Task, ClientError> {
        match self.0.peer.clone() {
            Some(peer) => peer.wait(self),
            None => block_on(self),
        }
    }
}

/// Errors: those of a request; [`ClientErrorKind::Unsupported`] if the server offers no tasks, or
/// the tool is listed as one whose calls are none.
impl IntoFuture for TaskRequest {
    type Output = Result<Task, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let peer = self.0.peer.clone();
        let attempt = SentRequest::of_request(self.0);
        Box::pin(async move {
            let message = attempt.await?;
            let peer = peer.ok_or_else(|| {
                ClientError::new(ClientErrorKind::InvalidInput, "the request has no server")
            })?;
            Task::read(peer, message)
        })
    }
}

/// A task of the server. Dropping it does not end the task.
///
/// ```no_run
/// use std::time::Duration;
///
/// use corelane::Client;
/// use serde_json::json;
///
/// # async fn run(client: Client) -> Result<(), corelane::client::ClientError> {
/// let report = client.call_tool("report", &json!({ "year": 2026 }));
/// let task = report.task(Duration::from_secs(3600)).await?;
/// println!("{:?}", task.status().await?.status);
/// println!("{}", task.result().await?.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Task {
    peer: Arc<PeerRef>,
    state: TaskState,
}

#[derive(Clone, Debug)]
enum TaskState {
    /// The server has a task.
    Created { id: Box<str>, info: Option<TaskInfo> },
    /// The server has answered the call at once.
    Answered(ReceivedMessage),
}

impl Task {
    /// Names a task of an earlier client.
    pub(crate) fn of_id(peer: Arc<PeerRef>, id: &str) -> Self {
        Self { peer, state: TaskState::Created { id: id.into(), info: None } }
    }

    /// Reads the result of a call that may be a task.
    fn read(peer: Arc<PeerRef>, message: ReceivedMessage) -> Result<Self, ClientError> {
        let mut result: Map<String, Value> = read_result(&message)?;
        let is_task =
            |result: &Map<String, Value>| result.get("resultType") == Some(&"task".into());
        let task = if message.revision().is_modern() {
            Some(result).filter(is_task).map(Value::Object)
        } else {
            result.remove("task")
        };
        let Some(task) = task else {
            return Ok(Self { peer, state: TaskState::Answered(message) });
        };
        let info: TaskInfo = serde_json::from_value(task).map_err(|error| {
            let text = format!("the task is invalid: {error}");
            ClientError::with_source(ClientErrorKind::Protocol, text, error)
        })?;
        let id = info.task_id.as_str().into();
        Ok(Self { peer, state: TaskState::Created { id, info: Some(info) } })
    }

    /// Returns the id for [`Client::task`](crate::Client::task); `None` if the server has
    /// answered the call at once.
    pub fn id(&self) -> Option<&str> {
        match &self.state {
            TaskState::Created { id, .. } => Some(id),
            TaskState::Answered(_) => None,
        }
    }

    /// Returns the task as it was created, unless it is named by its id or was answered at once.
    pub const fn info(&self) -> Option<&TaskInfo> {
        match &self.state {
            TaskState::Created { info, .. } => info.as_ref(),
            TaskState::Answered(_) => None,
        }
    }

    /// Asks for the task as it is now (`tasks/get`). A call that was answered at once is a task
    /// that is completed and has no id.
    pub fn status(&self) -> Request<TaskInfo> {
        match &self.state {
            TaskState::Created { id, .. } => self.request(Method::TasksGet, id, TaskMode::Follow),
            TaskState::Answered(message) => {
                let completed = br#"{"result":{"taskId":"","status":"completed"}}"#.to_vec();
                Request::answered(message.with_text(completed))
            }
        }
    }

    /// Waits for the end of the task and returns the result of the call. Asks for the status as
    /// often as the server allows; input that the task requires comes from the handlers of the
    /// client. The timeout of the client applies to each of its messages, an own one to all of it.
    /// Dropping the future does not cancel the task.
    ///
    /// Fails with [`ClientErrorKind::TaskCancelled`] for a task that was cancelled, with the error
    /// of the call, and with those of a request.
    pub fn result(&self) -> Request<CallToolResult> {
        self.await_result()
    }

    /// As [`Task::result`], with the result as it was sent.
    #[doc(hidden)]
    pub fn raw_result(&self) -> Request<Box<serde_json::value::RawValue>> {
        self.await_result()
    }

    fn await_result<R: DeserializeOwned + 'static>(&self) -> Request<R> {
        match &self.state {
            TaskState::Created { id, .. } => self.request(Method::TasksGet, id, TaskMode::Await),
            TaskState::Answered(message) => Request::answered(message.clone()),
        }
    }

    /// Cancels the task. The server may complete it all the same.
    ///
    /// # Errors
    ///
    /// Those of a request; up to 2025-11-25 [`ClientErrorKind::Rpc`] with -32602 for a task that
    /// has ended.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        if let TaskState::Created { id, .. } = &self.state {
            let request = self.request(Method::TasksCancel, id, TaskMode::Follow);
            let _: Map<String, Value> = request.await?;
        }
        Ok(())
    }

    fn request<R: DeserializeOwned + 'static>(
        &self,
        method: Method,
        id: &str,
        task: TaskMode,
    ) -> Request<R> {
        let request = CallRequest { task, ..CallRequest::of_task(method, id) };
        Request::new(Arc::clone(&self.peer), Ok(request))
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").field("state", &self.state).finish_non_exhaustive()
    }
}
