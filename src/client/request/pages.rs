//! Lists of the server, page by page.

use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::call::{CallFuture, read_result};
use crate::error::{ClientError, ClientErrorKind};
use crate::io::{CallCallbacks, PeerRef};
use crate::known_tools::KnownTools;
use crate::results::{
    ListResult, PromptInfo, ResourceInfo, ResourceTemplateInfo, TaskInfo, ToolInfo,
};
use crate::session::{CallRequest, ReceivedMessage};
use corelane_protocol::eras::Method;

/// Pages of one list, so that a server whose list does not end is not read forever.
const PAGES_MAX: usize = 1_000;

/// An item of a list that servers have.
pub trait ListItem: Listed {}

impl<T: Listed> ListItem for T {}

/// Where items of a type are listed.
pub trait Listed: DeserializeOwned {
    /// The method that lists them.
    const METHOD: Method;
    /// The member of the result that holds them.
    const KEY: &'static str;

    /// Returns whether the client may use the item.
    #[doc(hidden)]
    fn is_usable(&self, _known: &KnownTools) -> bool {
        true
    }
}

impl Listed for ToolInfo {
    const METHOD: Method = Method::ToolsList;
    const KEY: &'static str = "tools";

    fn is_usable(&self, known: &KnownTools) -> bool {
        known.is_usable(self)
    }
}

impl Listed for PromptInfo {
    const METHOD: Method = Method::PromptsList;
    const KEY: &'static str = "prompts";
}

impl Listed for ResourceInfo {
    const METHOD: Method = Method::ResourcesList;
    const KEY: &'static str = "resources";
}

impl Listed for ResourceTemplateInfo {
    const METHOD: Method = Method::ResourcesTemplatesList;
    const KEY: &'static str = "resourceTemplates";
}

/// Tasks that the client has created (2025-11-25).
impl Listed for TaskInfo {
    const METHOD: Method = Method::TasksList;
    const KEY: &'static str = "tasks";
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// Its items. Over HTTP, tools with an invalid `x-mcp-header` are left out (2026-07-28).
    pub items: Vec<T>,
    message: ReceivedMessage,
}

impl<T> Page<T> {
    /// Returns the result as the server sent it.
    ///
    /// # Errors
    ///
    /// None for a page that was read.
    pub fn document(&self) -> Result<Box<RawValue>, ClientError> {
        read_result(&self.message)
    }
}

/// The pages of a list, read one after the other, also as a [`Stream`]. A page whose future was
/// dropped is still requested; one that has failed is requested again. Dropping this cancels the
/// request.
#[must_use = "a page is requested when it is awaited"]
pub struct Pages<T> {
    peer: Arc<PeerRef>,
    /// The request for the next page; `None` after the last one.
    request: Option<Box<CallRequest>>,
    /// The request in flight.
    call: Option<CallFuture>,
    key: &'static str,
    /// Pages that may still be read.
    pages_left: usize,
    /// The cursors that pages have named.
    cursors: BTreeSet<Box<str>>,
    /// Why the list ends after the page that was read last.
    failure: Option<ClientError>,
    is_usable: fn(&T, &KnownTools) -> bool,
}

impl<T: ListItem> Pages<T> {
    pub(crate) fn new(peer: Arc<PeerRef>) -> Self {
        Self { is_usable: T::is_usable, ..Self::raw(peer, T::METHOD, T::KEY) }
    }
}

impl<T: DeserializeOwned> Pages<T> {
    /// The list of `method`, whose pages have their items in the member `key`.
    pub(crate) fn raw(peer: Arc<PeerRef>, method: Method, key: &'static str) -> Self {
        let request = Some(Box::new(CallRequest::new(method)));
        Self {
            peer,
            request,
            call: None,
            key,
            pages_left: PAGES_MAX,
            cursors: BTreeSet::new(),
            failure: None,
            is_usable: |_, _| true,
        }
    }

    /// Sets how many pages may be read; a longer list ends with [`ClientErrorKind::Protocol`].
    /// Default 1,000.
    pub fn pages_max(self, pages_max: usize) -> Self {
        Self { pages_left: pages_max, ..self }
    }

    /// Requests the pages even if the client has fresh ones
    /// ([`CachePolicy`](crate::CachePolicy)).
    pub fn fresh(mut self) -> Self {
        if let Some(request) = &mut self.request {
            request.is_fresh = true;
        }
        self
    }

    /// Returns the next page, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// Those of a request; [`ClientErrorKind::Protocol`] for more pages than allowed, and after a
    /// page whose cursor an earlier page has named.
    pub async fn next(&mut self) -> Option<Result<Page<T>, ClientError>> {
        poll_fn(|context| self.poll_page(context)).await
    }

    fn poll_page(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Page<T>, ClientError>>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(request) = &self.request else { return Poll::Ready(None) };
        let (method, is_fresh) = (request.method, request.is_fresh);
        if self.pages_left == 0 {
            self.request = None;
            let text = format!("{} has more pages than allowed", method.as_str());
            return Poll::Ready(Some(Err(ClientError::new(ClientErrorKind::Protocol, text))));
        }
        let send =
            || CallFuture::send(Arc::clone(&self.peer), request.clone(), CallCallbacks::default());
        let call = self.call.get_or_insert_with(send);
        let outcome = ready!(Pin::new(call).poll(context));
        self.call = None;
        let read = outcome.and_then(|message| read_page(message, method, self.key));
        let (mut page, next_cursor) = match read {
            Ok(page) => page,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        self.pages_left -= 1;
        let next_cursor = next_cursor.filter(|cursor| self.check_cursor(cursor, method));
        self.request = next_cursor.map(|cursor| {
            let params = json!({ "cursor": cursor }).to_string().into_bytes();
            Box::new(CallRequest { params, is_fresh, ..CallRequest::new(method) })
        });
        if page.message.revision().is_modern() {
            page.items.retain(|item| (self.is_usable)(item, &self.peer.shared.tools));
        }
        Poll::Ready(Some(Ok(page)))
    }

    /// Returns whether `cursor` is new; a list whose page names one that an earlier page has named
    /// does not end.
    fn check_cursor(&mut self, cursor: &str, method: Method) -> bool {
        let is_new = self.cursors.insert(cursor.into());
        if !is_new {
            let text = format!(
                "{} does not end: the server has named the cursor {cursor:?} twice",
                method.as_str()
            );
            self.failure = Some(ClientError::new(ClientErrorKind::Protocol, text));
        }
        is_new
    }

    /// [`Pages::next`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Pages::next`], and those of [`Request::wait`](super::Request::wait).
    pub fn wait_next(&mut self) -> Option<Result<Page<T>, ClientError>> {
        let peer = Arc::clone(&self.peer);
        peer.wait(async { self.next().await.transpose() }).transpose()
    }

    /// Reads the rest of the list and returns its items.
    ///
    /// # Errors
    ///
    /// As [`Pages::next`].
    pub async fn collect(mut self) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        while let Some(page) = self.next().await {
            items.extend(page?.items);
        }
        Ok(items)
    }
}

impl<T: DeserializeOwned> Stream for Pages<T> {
    type Item = Result<Page<T>, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_page(context)
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pages").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Reads a page and the cursor of the next one.
fn read_page<T: DeserializeOwned>(
    message: ReceivedMessage,
    method: Method,
    key: &str,
) -> Result<(Page<T>, Option<String>), ClientError> {
    let result: Map<String, Value> = read_result(&message)?;
    let ListResult { items, next_cursor } = ListResult::read(result, key).map_err(|error| {
        let text = format!("the result of {} is invalid: {error}", method.as_str());
        ClientError::with_source(ClientErrorKind::Protocol, text, error)
    })?;
    Ok((Page { items, message }, next_cursor))
}
