//! How a resource is read: what it holds, or who knows.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::protocol::error::Error;
use crate::protocol::message::{CacheHint, ContentsWriter};
use crate::service::call::{BlockingWork, LocalWork, Reply};
use crate::service::handler::{blocking_work, local_work, wall};
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, ResourceContents, Yield};
use crate::service::resource::read::Read;
use crate::service::worker::Worker;

/// Where the contents come from.
pub(super) enum Handler {
    /// Bytes that do not change.
    Blob(Bytes),
    /// A closure on the thread pool.
    Blocking(Box<dyn Fn(Read<'static>, CacheHint) -> BlockingWork + Send + Sync>),
    /// A function, to completion on the shard.
    Inline(InlineHandler),
    /// A future on the shard.
    Local(Box<dyn Fn(Read<'static>, CacheHint) -> LocalWork + Send + Sync>),
    /// A text that does not change.
    Text(Cow<'static, str>),
}

type InlineHandler =
    Box<dyn Fn(&Read<'_>, &mut ContentsWriter<'_>) -> Result<(), HandlerError> + Send + Sync>;

impl Handler {
    pub(super) fn local<F, R, C>(handler: F) -> Self
    where
        F: Fn(Read<'static>, Live) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, HandlerError>> + 'static,
        C: Into<ResourceContents> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Local(Box::new(move |read, cache| {
            let (handler, is_modern) = (Arc::clone(&handler), read.revision().is_modern());
            local_work(move |live| handler(read, live), move |end| finish(end, cache, is_modern))
        }))
    }

    pub(super) fn blocking<F, C>(handler: F) -> Self
    where
        F: Fn(Read<'static>, Worker) -> Result<C, HandlerError> + Send + Sync + 'static,
        C: Into<ResourceContents> + 'static,
    {
        let handler = Arc::new(handler);
        Self::Blocking(Box::new(move |read, cache| {
            let (handler, is_modern) = (Arc::clone(&handler), read.revision().is_modern());
            blocking_work(
                move |worker| handler(read, worker),
                move |end| finish(end, cache, is_modern),
            )
        }))
    }

    /// Writes the contents, or hands out the work.
    pub(super) fn start(
        &self,
        read: &Read<'_>,
        mime_type: Option<&str>,
        cache: CacheHint,
        contents: &mut ContentsWriter<'_>,
    ) -> Reply {
        let is_modern = read.revision().is_modern();
        let result = wall(|| match self {
            Self::Text(text) => {
                contents.text(read.uri(), mime_type, text);
                Ok(Reply::Ready { is_failed: false })
            }
            Self::Blob(bytes) => {
                contents.blob(read.uri(), mime_type, bytes);
                Ok(Reply::Ready { is_failed: false })
            }
            Self::Inline(handler) => {
                handler(read, contents)?;
                if contents.is_empty() {
                    return Err(not_found(read));
                }
                Ok(Reply::Ready { is_failed: false })
            }
            Self::Local(handler) => Ok(Reply::Local(handler(read.clone().into_owned(), cache))),
            Self::Blocking(handler) => {
                Ok(Reply::Blocking(handler(read.clone().into_owned(), cache)))
            }
        });
        result.unwrap_or_else(|error| Reply::Failed(error.into_error(is_modern)))
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Blob(_) => "blob",
            Self::Blocking(_) => "blocking",
            Self::Inline(_) => "inline",
            Self::Local(_) => "local",
            Self::Text(_) => "text",
        }
    }
}

/// A handler that writes nothing says that there is nothing: contents are never empty (2026-07-28,
/// server/resources, "Error Handling").
fn not_found(read: &Read<'_>) -> HandlerError {
    Error::resource_not_found(read.uri(), read.revision()).into()
}

/// Gives what a local or blocking handler made its form: how long it is fresh where it does not say
/// so itself, and errors as a resource can have them.
fn finish<C: Into<ResourceContents>>(
    result: Result<C, HandlerError>,
    cache: CacheHint,
    is_modern: bool,
) -> Result<Yield, HandlerError> {
    match result {
        Ok(contents) => {
            let mut contents = contents.into();
            contents.cache.get_or_insert(cache);
            Ok(Yield::Resource(contents))
        }
        Err(error) => Err(error.into_error(is_modern).into()),
    }
}
