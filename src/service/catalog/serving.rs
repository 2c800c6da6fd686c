//! Requests that a handler serves: begun at once, settled where it answers later.
//!
//! What it keeps true: whatever comes of a request, the buffer holds one whole response more, or is
//! as it was before. Nothing is allocated where the handler does not.

use crate::protocol::error::Error;
use crate::protocol::message::{
    self, Answer, CacheHint, ContentsWriter, PromptWriter, completion_result,
};
use crate::protocol::params::{Complete, GetPrompt, ReadResource, Reference};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;
use crate::service::call::{Call, Reply};
use crate::service::catalog::Catalog;
use crate::service::completing::{Completer, Completing};
use crate::service::outcome::{Completion, HandlerError, Outcome, Yield};
use crate::service::resource::{Read, Resource, ResourceTemplate, without_localhost};

impl Catalog {
    /// Carries out one call as far as it goes at once: appends the whole response to `out` and says
    /// [`Reply::Ready`]. After every other reply `out` is as it was before.
    ///
    /// Allocates nothing where the handler does not.
    pub fn call(&self, call: &Call<'_>, id: Id<'_>, out: &mut Vec<u8>) -> Reply {
        let tool = match self.called(call) {
            Ok(tool) => tool,
            Err(error) => return Reply::Failed(error),
        };
        let (revision, suffix) = (call.revision(), self.result_suffix(call.revision()));
        respond(id, out, is_ready, |out| {
            let mut answer = Answer::open(out, revision, suffix);
            let reply = tool.call(call, &mut answer);
            answer.finish();
            reply
        })
    }

    /// Makes a prompt as far as it goes at once, like [`Catalog::call`].
    ///
    /// Fails with invalid params (-32602) where there is no such prompt or a required argument is
    /// not filled in.
    ///
    /// Source: server/prompts of each revision, "Getting a Prompt".
    pub fn make_prompt(
        &self,
        revision: Revision,
        asked: &GetPrompt<'_>,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let Some(prompt) = self.prompt(asked.name) else {
            return Reply::Failed(Error::invalid_params("unknown prompt"));
        };
        let suffix = self.result_suffix(revision);
        respond(id, out, is_ready, |out| {
            let mut writer = PromptWriter::open(out, revision, prompt.description(), suffix);
            let reply = prompt.make(revision, asked.arguments, &mut writer);
            writer.finish();
            reply
        })
    }

    /// Reads a resource as far as it goes at once, like [`Catalog::call`]: the one under the URI,
    /// or the first template that the URI fits. `file://localhost/…` is `file:///…`.
    ///
    /// Fails with resource not found (-32002 up to 2025-11-25, -32602 from 2026-07-28 on) where
    /// there is none, and with invalid params (-32602) where a `file:` URI is not safe to look at.
    ///
    /// Source: server/resources of each revision, "Reading Resources".
    pub fn read_resource(
        &self,
        revision: Revision,
        asked: &ReadResource<'_>,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let uri = without_localhost(asked.uri);
        let mut read = match Read::new(&uri, revision) {
            Ok(read) => read,
            Err(error) => return Reply::Failed(error),
        };
        let Some(source) = self.source(&mut read) else {
            return Reply::Failed(Error::resource_not_found(asked.uri, revision));
        };
        let suffix = self.result_suffix(revision);
        respond(id, out, is_ready, |out| {
            let mut writer = ContentsWriter::open(out, revision, source.cache(), suffix);
            let reply = source.read(&read, &mut writer);
            writer.finish();
            reply
        })
    }

    /// Whether there is a resource under `uri`, or a template that it fits: what
    /// [`Catalog::read_resource`] would not refuse before it asks a handler.
    pub fn has_resource(&self, uri: &str, revision: Revision) -> bool {
        Read::new(uri, revision).is_ok_and(|mut read| self.source(&mut read).is_some())
    }

    /// Says how an argument may go on, at once: appends the whole response to `out`, or fails. An
    /// argument that has no completer may go on in no way that is known.
    ///
    /// Fails with invalid params (-32602) where there is no such prompt or template.
    ///
    /// Source: server/utilities/completion of each revision.
    pub fn complete(
        &self,
        revision: Revision,
        asked: &Complete<'_>,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let completer = match asked.reference {
            Reference::Prompt(name) => {
                self.prompt(name).map(|prompt| prompt.completer(asked.argument))
            }
            Reference::Resource(uri) => match self.template(uri) {
                Some(template) => Some(template.completer(asked.argument)),
                None => self.resource(uri).map(|_| None),
            },
        };
        let Some(completer) = completer else {
            return Reply::Failed(Error::invalid_params("params.ref names nothing that is here"));
        };
        let completing = Completing::new(asked.value, asked.context);
        let completion =
            completer.map_or(Ok(Completion::NONE), |known: &Completer| known.ask(&completing));
        match completion {
            Ok(completion) => {
                let suffix = self.result_suffix(revision);
                respond(id, out, is_ready, |out| {
                    write_completion(&completion, suffix, out);
                    Reply::Ready { is_failed: false }
                })
            }
            Err(error) => Reply::Failed(error.into_error(revision.is_modern())),
        }
    }

    /// Appends the whole response for what a local or blocking handler made, and tells whether it
    /// says that the tool failed. `Err` is to be sent as an error response instead; `out` is as it
    /// was then.
    pub fn settle(
        &self,
        revision: Revision,
        id: Id<'_>,
        result: Result<Yield, HandlerError>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let suffix = self.result_suffix(revision);
        respond(id, out, Result::is_ok, |out| write_yield(revision, result, suffix, out))
    }

    /// What gives the contents of a URI; a template finds its variables in it.
    fn source(&self, read: &mut Read<'_>) -> Option<Source<'_>> {
        if let Some(resource) = self.resource(read.uri()) {
            return Some(Source::Resource(resource));
        }
        self.templates().find(|template| template.accept(read)).map(Source::Template)
    }
}

/// Appends a response whose result is what `write` appends, or nothing where what comes of that is
/// not to be `kept`.
#[inline]
fn respond<T>(
    id: Id<'_>,
    out: &mut Vec<u8>,
    kept: impl FnOnce(&T) -> bool,
    write: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    let start = out.len();
    message::result_open(out, id);
    let made = write(out);
    if kept(&made) {
        message::result_close(out);
    } else {
        out.truncate(start);
    }
    made
}

const fn is_ready(reply: &Reply) -> bool {
    matches!(reply, Reply::Ready { .. })
}

/// Appends the result that a local or blocking handler made; tells whether it says that a tool
/// failed. What was appended is void where it fails.
fn write_yield(
    revision: Revision,
    result: Result<Yield, HandlerError>,
    suffix: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let outcome = match result {
        Ok(Yield::Completion(completion)) => {
            write_completion(&completion, suffix, out);
            return Ok(false);
        }
        Ok(Yield::Prompt(outcome)) => {
            let description = outcome.description.as_deref();
            let mut writer = PromptWriter::open(out, revision, description, suffix);
            outcome.write(&mut writer);
            writer.finish();
            return Ok(false);
        }
        Ok(Yield::Resource(contents)) => {
            let cache = contents.cache.unwrap_or(CacheHint { fresh_ms: 0, shared: false });
            let mut writer = ContentsWriter::open(out, revision, cache, suffix);
            contents.write(&mut writer);
            writer.finish();
            return Ok(false);
        }
        Ok(Yield::Tool(outcome)) => Ok(outcome),
        // Prompts and resources have given their errors the form of a refusal already.
        Err(error) => Err(error),
    };
    let mut answer = Answer::open(out, revision, suffix);
    Outcome::settle(outcome, &mut answer)?;
    let is_failed = answer.is_failed();
    answer.finish();
    Ok(is_failed)
}

fn write_completion(completion: &Completion, suffix: &[u8], out: &mut Vec<u8>) {
    let (total, has_more) = (completion.total(), completion.has_more());
    completion_result(out, completion.values(), total, has_more, suffix);
}

/// What gives contents.
enum Source<'c> {
    Resource(&'c Resource),
    Template(&'c ResourceTemplate),
}

impl Source<'_> {
    const fn cache(&self) -> CacheHint {
        match self {
            Self::Resource(resource) => resource.cache(),
            Self::Template(template) => template.cache(),
        }
    }

    fn read(&self, read: &Read<'_>, contents: &mut ContentsWriter<'_>) -> Reply {
        match self {
            Self::Resource(resource) => resource.read(read, contents),
            Self::Template(template) => template.read(read, contents),
        }
    }
}
