//! A client whose messages cross no socket and no thread.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{ClientError, ClientErrorKind};
use super::inputs::{
    CreateMessageRequestParams, ElicitRequestParams, InputFuture, InputHandlers, InputResult,
};
use super::request::{put_request, take_request, take_result};
use super::results::CallToolResult;
use super::session::{
    CallId, CallRequest, EraPreference, InputKey, MessageSink, OutgoingMessage, ReceivedMessage,
    ServerInfo, Session, SessionBuffers, SessionConfig, SessionContext, SessionEvent,
    SessionOptions,
};
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};
use corelane_protocol::model::{CreateMessageResult, ElicitResult, Root};
use corelane_protocol::revision::Revision;

/// Calls that may be in progress.
const CALLS_MAX: usize = 1 << 20;

/// JSON-RPC messages to and from a server in this thread, such as those of an
/// `corelane::InProcessConnection`.
pub trait MessageChannel {
    /// Sends one message.
    fn send(&mut self, message: &[u8]);

    /// Receives the next message, or `None` after the end of the server.
    fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<&[u8]>>;
}

/// A client of a server in the same thread.
///
/// The server runs while a request of the client is polled, so a call of an inline handler is
/// complete when its future is polled for the first time. Clones share the channel. Requests have
/// no timeout; dropping one cancels it.
///
/// ```
/// use corelane::client::LocalClient;
/// use corelane::model::Implementation;
/// use corelane::testing::block_on;
/// use corelane::{Catalog, NoArguments, Server, Tool};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet = Tool::new("greet").inline(|_: NoArguments, _| "hello");
/// let catalog = Catalog::builder(Implementation::new("greeter", "1.0.0")).tool(greet).build()?;
/// let client = LocalClient::new(Server::builder(catalog).connect()?);
/// let result = block_on(client.call_tool("greet", &json!({})))?;
/// assert_eq!(result.text(), "hello");
/// # Ok(())
/// # }
/// ```
pub struct LocalClient<C>(Rc<RefCell<LocalState<C>>>);

impl<C: MessageChannel> LocalClient<C> {
    /// Creates a client with the default options. It begins the handshake now.
    pub fn new(channel: C) -> Self {
        Self::builder(channel).build()
    }

    /// Begins to configure a client.
    pub fn builder(channel: C) -> LocalClientBuilder<C> {
        let (options, handlers) = (SessionOptions::default(), InputHandlers::default());
        LocalClientBuilder { channel, options, handlers }
    }

    fn start(channel: C, options: SessionOptions, handlers: InputHandlers) -> Self {
        let config = SessionConfig::new(options, handlers.capabilities());
        let mut state = LocalState {
            channel,
            session: Session::new(Arc::new(config)),
            parser: Parser::new(ParseLimits::default()),
            buffers: SessionBuffers::default(),
            events: Vec::new(),
            received: Vec::new(),
            calls: Slab::new(CALLS_MAX),
            handlers,
            inputs: Vec::new(),
        };
        state.act(|session, ctx| session.start(false, ctx));
        Self(Rc::new(RefCell::new(state)))
    }

    /// Returns what the server declared, once the handshake is complete.
    pub fn server(&self) -> Option<Arc<ServerInfo>> {
        self.0.borrow().session.server().cloned()
    }

    /// Calls a tool. `arguments` must serialize to a JSON object.
    pub fn call_tool(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> LocalRequest<C, CallToolResult> {
        self.send(take_request().with_arguments(Method::ToolsCall, name, arguments))
    }

    /// Makes a request by the name of its method, see
    /// [`Client::request`](super::Client::request).
    pub fn request<R: DeserializeOwned + 'static>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> LocalRequest<C, R> {
        self.send(CallRequest::with_params(method, params))
    }

    fn send<R>(
        &self,
        request: Result<impl Into<Box<CallRequest>>, ClientError>,
    ) -> LocalRequest<C, R> {
        let call = request.and_then(|request| self.0.borrow_mut().call(request.into()));
        LocalRequest { state: Rc::clone(&self.0), call: Some(call), result: PhantomData }
    }
}

impl<C> Clone for LocalClient<C> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<C> fmt::Debug for LocalClient<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalClient").finish_non_exhaustive()
    }
}

/// Options of a [`LocalClient`].
#[derive(Debug)]
#[must_use = "a builder connects nothing by itself"]
pub struct LocalClientBuilder<C> {
    channel: C,
    options: SessionOptions,
    handlers: InputHandlers,
}

impl<C: MessageChannel> LocalClientBuilder<C> {
    /// Sets which revisions to use. Default [`EraPreference::Auto`].
    pub fn era(mut self, era: EraPreference) -> Self {
        self.options.era = era;
        self
    }

    /// Answers questions of the server to the user. `handler` runs while a request of the client is
    /// polled. Without it the client does not declare elicitation.
    pub fn on_elicitation<F, O>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<ElicitResult>> + 'static,
    {
        self.handlers.set_elicitation(handler);
        self
    }

    /// Lets the server use the model of the client. As [`LocalClientBuilder::on_elicitation`].
    pub fn on_sampling<F, O>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<CreateMessageResult>> + 'static,
    {
        self.handlers.set_sampling(handler);
        self
    }

    /// Lists the directories and files that the server may use. As
    /// [`LocalClientBuilder::on_elicitation`].
    pub fn on_roots<F, O>(mut self, handler: F) -> Self
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<Vec<Root>>> + 'static,
    {
        self.handlers.set_roots(handler);
        self
    }

    /// Creates the client, which begins the handshake.
    pub fn build(self) -> LocalClient<C> {
        LocalClient::start(self.channel, self.options, self.handlers)
    }
}

/// A request of a [`LocalClient`], which was sent.
#[must_use = "dropping it cancels the request"]
pub struct LocalRequest<C: MessageChannel, R> {
    state: Rc<RefCell<LocalState<C>>>,
    /// `None` once its outcome is taken.
    call: Option<Result<Key, ClientError>>,
    result: PhantomData<fn() -> R>,
}

impl<C: MessageChannel, R: DeserializeOwned + 'static> Future for LocalRequest<C, R> {
    type Output = Result<R, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &self.call {
            Some(Ok(call)) => {
                let polled = self.state.borrow_mut().poll(*call, context);
                let Poll::Ready(outcome) = polled else { return Poll::Pending };
                outcome
            }
            Some(Err(error)) => Err(error.clone()),
            None => return Poll::Pending,
        };
        self.call = None;
        Poll::Ready(outcome.and_then(take_result))
    }
}

impl<C: MessageChannel, R> Drop for LocalRequest<C, R> {
    fn drop(&mut self) {
        if let Some(Ok(call)) = self.call.take() {
            self.state.borrow_mut().cancel(call);
        }
    }
}

impl<C: MessageChannel, R> fmt::Debug for LocalRequest<C, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalRequest").finish_non_exhaustive()
    }
}

struct LocalState<C> {
    channel: C,
    session: Session<Key>,
    parser: Parser,
    buffers: SessionBuffers,
    events: Vec<SessionEvent<Key>>,
    /// The message being read.
    received: Vec<u8>,
    calls: Slab<LocalCall>,
    handlers: InputHandlers,
    /// Inputs that handlers provide.
    inputs: Vec<(InputKey, InputFuture)>,
}

#[derive(Default)]
struct LocalCall {
    id: Option<CallId>,
    outcome: Option<Result<ReceivedMessage, ClientError>>,
    waker: Option<Waker>,
}

struct ChannelSink<'a, C>(&'a mut C);

impl<C: MessageChannel> MessageSink for ChannelSink<'_, C> {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        self.0.send(message.text);
    }
}

impl<C: MessageChannel> LocalState<C> {
    fn call(&mut self, request: Box<CallRequest>) -> Result<Key, ClientError> {
        let call = self.calls.insert(LocalCall::default()).map_err(|_| {
            ClientError::new(ClientErrorKind::Busy, format!("{CALLS_MAX} calls are in progress"))
        })?;
        let mut id = None;
        self.act(|session, ctx| id = Some(session.call(request, call, ctx)));
        if let Some(state) = self.calls.get_mut(call) {
            state.id = id;
        }
        Ok(call)
    }

    /// Runs the server until the call has ended.
    fn poll(
        &mut self,
        call: Key,
        context: &mut Context<'_>,
    ) -> Poll<Result<ReceivedMessage, ClientError>> {
        loop {
            let state = self.calls.get_mut(call);
            if let Some(outcome) = state.and_then(|state| state.outcome.take()) {
                self.calls.remove(call);
                self.buffers.take_spare().into_iter().for_each(put_request);
                self.wake_others();
                return Poll::Ready(outcome);
            }
            self.poll_inputs(context);
            match self.channel.poll_receive(context) {
                Poll::Ready(Some(text)) => {
                    self.received.clear();
                    self.received.extend_from_slice(text);
                    self.receive();
                }
                Poll::Ready(None) => {
                    let error = ClientError::new(ClientErrorKind::Closed, "the server has ended");
                    self.act(|session, ctx| session.disconnect(error, ctx.events));
                }
                Poll::Pending => {
                    if let Some(state) = self.calls.get_mut(call) {
                        state.waker = Some(context.waker().clone());
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn receive(&mut self) {
        let mut text = PaddedBuffer::new(std::mem::take(&mut self.received));
        let mut sink = ChannelSink(&mut self.channel);
        let mut ctx = SessionContext {
            now: Instant::ORIGIN,
            sink: &mut sink,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        self.session.receive(text.text(), &mut self.parser, &mut ctx);
        self.received = text.into_buffer();
        self.handle_events();
    }

    fn poll_inputs(&mut self, context: &mut Context<'_>) {
        let mut index = 0;
        while let Some((key, input)) = self.inputs.get_mut(index) {
            let key = *key;
            let Poll::Ready(result) = input.as_mut().poll(context) else {
                index += 1;
                continue;
            };
            drop(self.inputs.swap_remove(index));
            self.act(|session, ctx| {
                session.provide_input(key, result.as_deref().map_err(Clone::clone), ctx);
            });
        }
    }

    fn cancel(&mut self, call: Key) {
        if let Some(LocalCall { id: Some(id), outcome: None, .. }) = self.calls.remove(call) {
            self.act(|session, ctx| _ = session.cancel(id, None, ctx));
        }
        self.wake_others();
    }

    fn act(
        &mut self,
        act: impl FnOnce(&mut Session<Key>, &mut SessionContext<'_, Key, ChannelSink<'_, C>>),
    ) {
        let mut sink = ChannelSink(&mut self.channel);
        let mut ctx = SessionContext {
            now: Instant::ORIGIN,
            sink: &mut sink,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        act(&mut self.session, &mut ctx);
        self.handle_events();
    }

    fn handle_events(&mut self) {
        for event in self.events.drain(..) {
            match event {
                SessionEvent::Completed { token, result } => {
                    if let Some(call) = self.calls.get_mut(token) {
                        call.outcome = Some(result);
                        call.waker.take().inspect(Waker::wake_by_ref);
                    }
                }
                SessionEvent::InputRequired(input) => {
                    let revision = self.session.server().map(|server| server.revision);
                    let revision = revision.unwrap_or(Revision::LATEST);
                    let future = self.handlers.provide(input.kind, &input.params, revision);
                    self.inputs.push((input.key, future));
                }
                SessionEvent::InputCancelled(key) => self.inputs.retain(|(other, _)| *other != key),
                _ => {}
            }
        }
    }

    /// Wakes the tasks of all calls: the channel wakes only the one that polled it last, which may
    /// end here.
    fn wake_others(&mut self) {
        for (_, call) in self.calls.iter_mut() {
            call.waker.take().inspect(Waker::wake_by_ref);
        }
    }
}
