//! Requests that run a handler: dispatch, and encoding of output that arrives later.
//!
//! Invariant: after every call the buffer contains one more complete response, or is unchanged.

use std::borrow::Cow;

use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::error::Error;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{
    self, CacheHint, CallToolResultWriter, GetPromptResultWriter, LeftOutTexts,
    ReadResourceResultWriter, write_complete_result,
};
use corelane_protocol::params::{
    CompleteRequestParams, CompletionReference, GetPromptRequestParams, ReadResourceRequestParams,
};
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;

use crate::service::call::{CallToolRequest, Dispatch};
use crate::service::catalog::{Catalog, tool_at};
#[cfg(feature = "gateway")]
use crate::service::completer::CompletionForwarder;
use crate::service::completer::{Completer, CompletionContext};
use crate::service::context::{RequestSource, RequestView};
use crate::service::resource::{ReadContext, Resource, ResourceTemplate};
use crate::service::results::{CallToolResult, Completion, HandlerError, HandlerOutput};

/// Dispatches a `tools/call`, like [`Catalog::call_tool`]. `tool` is the position of the tool that
/// it names, if that is known. The response lacks the texts that `left_out` takes.
pub fn call_tool_at(
    catalog: &Catalog,
    tool: Option<usize>,
    call: &CallToolRequest<'_>,
    id: Id<'_>,
    out: &mut Vec<u8>,
    mut left_out: Option<&mut LeftOutTexts>,
) -> Dispatch {
    let known = tool.and_then(|position| tool_at(catalog, position));
    let tool = match known.map_or_else(|| catalog.find_called_tool(call), Ok) {
        Ok(tool) => tool,
        Err(error) => return Dispatch::Failed(error),
    };
    let (revision, suffix) = (call.revision(), catalog.result_suffix(call.revision()));
    let before = left_out.as_ref().map_or(0, |left_out| left_out.len());
    let reply = append_response(id, out, is_ready, |out| {
        let writer = CallToolResultWriter::open(out, revision, suffix);
        let mut writer = writer.leave_out(left_out.as_deref_mut());
        let reply = tool.call(call, &mut writer);
        writer.finish();
        reply
    });
    if let Some(left_out) = left_out
        && !is_ready(&reply)
    {
        left_out.truncate(before);
    }
    reply
}

#[doc(hidden)]
impl Catalog {
    /// Dispatches a `tools/call`. [`Dispatch::Ready`] means that the whole response was appended to
    /// `out`; otherwise `out` is unchanged.
    ///
    /// Allocates only what the handler allocates.
    pub fn call_tool(&self, call: &CallToolRequest<'_>, id: Id<'_>, out: &mut Vec<u8>) -> Dispatch {
        call_tool_at(self, None, call, id, out, None)
    }

    /// Dispatches a `prompts/get`, like [`Catalog::call_tool`].
    ///
    /// Fails with invalid params (-32602) if the prompt does not exist or a required argument is
    /// missing.
    ///
    /// Source: MCP server/prompts, "Getting a Prompt".
    pub fn get_prompt(
        &self,
        request: &GetPromptRequestParams<'_>,
        source: &dyn RequestSource,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Dispatch {
        let revision = source.client().revision;
        let Some(prompt) = self.prompt(request.name) else {
            return Dispatch::Failed(Error::unknown_name("prompt", request.name));
        };
        let suffix = self.result_suffix(revision);
        append_response(id, out, is_ready, |out| {
            let mut writer =
                GetPromptResultWriter::open(out, revision, prompt.description(), suffix);
            let reply = prompt.run(request.arguments, source, &mut writer);
            writer.finish();
            reply
        })
    }

    /// Dispatches a `resources/read`, like [`Catalog::call_tool`]: to the resource with the URI, or
    /// to the first template that matches it. URIs are compared as by [`Catalog::resource`].
    ///
    /// Fails with resource not found (-32002 up to 2025-11-25, -32602 since 2026-07-28) if nothing
    /// matches, and with invalid params (-32602) if a `file:` URI is unsafe.
    ///
    /// Source: MCP server/resources, "Reading Resources".
    pub fn read_resource(
        &self,
        request: &ReadResourceRequestParams<'_>,
        source: &dyn RequestSource,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Dispatch {
        let revision = source.client().revision;
        let (read, entry) = match self.find_source(request.uri, revision) {
            Ok(Some(found)) => found,
            Ok(None) => {
                return Dispatch::Failed(Error::resource_not_found(request.uri, revision));
            }
            Err(error) => return Dispatch::Failed(error),
        };
        let suffix = self.result_suffix(revision);
        append_response(id, out, is_ready, |out| {
            let mut writer = ReadResourceResultWriter::open(out, revision, entry.cache(), suffix);
            let view = RequestView::new(request.uri, source);
            let reply = entry.read(&read, view, &mut writer);
            writer.finish();
            reply
        })
    }

    /// Whether a resource has this URI or a template matches it, so that
    /// [`Catalog::read_resource`] would run a handler or return constant contents.
    pub fn has_resource(&self, uri: &str, revision: Revision) -> bool {
        self.find_source(uri, revision).is_ok_and(|found| found.is_some())
    }

    /// Serves a `completion/complete`: appends the whole response to `out`, or fails. An argument
    /// without a completer has no values. Values that name a resource are completed if the caller
    /// may read it (`is_listed`, by its URI).
    ///
    /// Fails with invalid params (-32602) if the prompt or template does not exist.
    ///
    /// Source: MCP server/utilities/completion.
    pub fn complete(
        &self,
        request: &CompleteRequestParams<'_>,
        source: &dyn RequestSource,
        is_listed: &dyn Fn(&str) -> bool,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Dispatch {
        let revision = source.client().revision;
        #[cfg(feature = "gateway")]
        if let Some(forwarder) = self.completion_forwarder(request.reference) {
            return Dispatch::Local(forwarder.start(request));
        }
        let completer = match request.reference {
            CompletionReference::Prompt(name) => {
                self.prompt(name).map(|prompt| prompt.completer(request.argument_name))
            }
            CompletionReference::Resource(uri) => match self.template(uri) {
                Some(template) => Some(template.completer(request.argument_name)),
                None => self.resource(uri).map(|_| None),
            },
        };
        let Some(completer) = completer else {
            let message = "params.ref is invalid: no such prompt, resource or resource template";
            return Dispatch::Failed(Error::invalid_params(message));
        };
        let view = RequestView::new(request.reference.name(), source);
        let ctx = CompletionContext::new(request.argument_value, request.context_arguments, view);
        let completion = match completer {
            Some(completer) => Completer::complete(completer, &ctx),
            None => Ok(self.complete_from_resources(request, is_listed)),
        };
        match completion {
            Ok(completion) => {
                let suffix = self.result_suffix(revision);
                append_response(id, out, is_ready, |out| {
                    write_completion(&completion, suffix, out);
                    Dispatch::Ready { is_error: false }
                })
            }
            Err(error) => Dispatch::protocol_error(error, revision.is_modern()),
        }
    }

    /// What passes completions of a prompt or template on, if another server has it.
    #[cfg(feature = "gateway")]
    fn completion_forwarder(
        &self,
        reference: CompletionReference<'_>,
    ) -> Option<&CompletionForwarder> {
        match reference {
            CompletionReference::Prompt(name) => self.prompt(name)?.completion_forwarder(),
            CompletionReference::Resource(uri) => self.template(uri)?.completion_forwarder(),
        }
    }

    /// The values of an argument that the URIs of resources complete; none of another argument.
    fn complete_from_resources(
        &self,
        request: &CompleteRequestParams<'_>,
        is_listed: &dyn Fn(&str) -> bool,
    ) -> Completion {
        let CompletionReference::Resource(uri) = request.reference else {
            return Completion::EMPTY;
        };
        let completes = |it: &&ResourceTemplate| it.completes_from_resources(request.argument_name);
        let Some(template) = self.template(uri).filter(completes) else {
            return Completion::EMPTY;
        };
        let typed = request.argument_value.as_bytes();
        let values = self.resources().filter_map(|resource| {
            let value = template.value_in(resource.uri())?;
            let start = value.as_bytes().get(..typed.len())?;
            let is_match = start.eq_ignore_ascii_case(typed) && is_listed(resource.uri());
            is_match.then_some(value)
        });
        Completion::from_values(values)
    }

    /// Appends the whole response for the output of a local or blocking handler. Returns whether
    /// it has `isError: true`. On `Err`, the JSON-RPC error to send instead, `out` is unchanged.
    pub fn write_output(
        &self,
        revision: Revision,
        id: Id<'_>,
        result: Result<HandlerOutput, HandlerError>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let suffix = self.result_suffix(revision);
        append_response(id, out, Result::is_ok, |out| {
            write_handler_output(revision, result, suffix, out)
        })
    }

    /// Encodes the output of a handler, for [`Catalog::write_output`] with the same revision. An
    /// error stays as it is.
    pub fn encode_output(
        &self,
        revision: Revision,
        result: Result<HandlerOutput, HandlerError>,
    ) -> Result<HandlerOutput, HandlerError> {
        let output = match result? {
            encoded @ HandlerOutput::Encoded { .. } => return Ok(encoded),
            output => output,
        };
        let mut result = Vec::with_capacity(output.heap_bytes());
        let suffix = self.result_suffix(revision);
        let is_error = write_handler_output(revision, Ok(output), suffix, &mut result)?;
        result.shrink_to_fit();
        Ok(HandlerOutput::Encoded { result, is_error })
    }

    /// The resource or template that serves `uri`, with the request as its handler sees it. Fails
    /// with invalid params (-32602) if `uri` is an unsafe `file:` URI.
    fn find_source<'a>(
        &'a self,
        uri: &'a str,
        revision: Revision,
    ) -> Result<Option<(ReadContext<'a>, ResourceSource<'a>)>, Error> {
        if let Some(resource) = self.resource(uri) {
            let read = ReadContext::new(Cow::Borrowed(resource.uri()), revision)?;
            return Ok(Some((read, ResourceSource::Resource(resource))));
        }
        let mut read = ReadContext::new(uri::normalize(uri), revision)?;
        let template = self.templates().find(|template| template.match_uri(&mut read));
        Ok(template.map(|template| (read, ResourceSource::Template(template))))
    }
}

/// Appends a response with the result that `write` appends, or truncates `out` again if its return
/// value does not satisfy `is_complete`.
#[inline]
fn append_response<T>(
    id: Id<'_>,
    out: &mut Vec<u8>,
    is_complete: impl FnOnce(&T) -> bool,
    write: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    let start = out.len();
    model::begin_response(out, id);
    let returned = write(out);
    if is_complete(&returned) {
        model::end_response(out);
    } else {
        out.truncate(start);
    }
    returned
}

const fn is_ready(reply: &Dispatch) -> bool {
    matches!(reply, Dispatch::Ready { .. })
}

/// Appends the result for the output of a handler; returns whether it has `isError: true`. On `Err`
/// what was appended is void.
fn write_handler_output(
    revision: Revision,
    result: Result<HandlerOutput, HandlerError>,
    suffix: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let result = match result {
        Ok(HandlerOutput::Completion(completion)) => {
            write_completion(&completion, suffix, out);
            return Ok(false);
        }
        Ok(HandlerOutput::Encoded { result, is_error }) => {
            out.extend_from_slice(&result);
            return Ok(is_error);
        }
        Ok(HandlerOutput::Prompt(prompt)) => {
            let description = prompt.description.as_deref();
            let mut writer = GetPromptResultWriter::open(out, revision, description, suffix);
            prompt.write_to(&mut writer);
            writer.finish();
            return Ok(false);
        }
        Ok(HandlerOutput::Resource(contents)) => {
            let cache = contents.cache_hint.unwrap_or(CacheHint { ttl_ms: 0, is_public: false });
            let mut writer = ReadResourceResultWriter::open(out, revision, cache, suffix);
            contents.write_to(&mut writer);
            writer.finish();
            return Ok(false);
        }
        Ok(HandlerOutput::Tool(result)) => Ok(result),
        // Prompts and resources have converted their errors to JSON-RPC errors already.
        Err(error) => Err(error),
    };
    let mut writer = CallToolResultWriter::open(out, revision, suffix);
    CallToolResult::write_result(result, &mut writer)?;
    let is_error = writer.is_error();
    writer.finish();
    Ok(is_error)
}

fn write_completion(completion: &Completion, suffix: &[u8], out: &mut Vec<u8>) {
    let (total, has_more) = (completion.total(), completion.has_more());
    write_complete_result(out, completion.values(), total, has_more, suffix);
}

/// Entry that provides the contents of a URI.
enum ResourceSource<'c> {
    Resource(&'c Resource),
    Template(&'c ResourceTemplate),
}

impl ResourceSource<'_> {
    const fn cache(&self) -> CacheHint {
        match self {
            Self::Resource(resource) => resource.cache_hint(),
            Self::Template(template) => template.cache_hint(),
        }
    }

    fn read(
        &self,
        read: &ReadContext<'_>,
        view: RequestView<'_>,
        contents: &mut ReadResourceResultWriter<'_>,
    ) -> Dispatch {
        match self {
            Self::Resource(resource) => resource.read(read, view, contents),
            Self::Template(template) => template.read(read, view, contents),
        }
    }
}
