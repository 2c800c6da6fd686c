//! The promise of an `outputSchema`: structured results that keep it.
//!
//! What it keeps true: where results are looked at, one that breaks the schema never reaches a
//! client; it is an error of this server. Source: 2025-06-18 and later, server/tools, "Output
//! Schema": "Servers MUST provide structured results that conform to this schema".

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::error::Error;
use crate::protocol::message::Answer;
use crate::service::outcome::{HandlerError, Outcome};
use crate::service::schema::ResultCheck;

/// What was promised about results, and whether somebody looks.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    is_trusted: bool,
    check: Option<Arc<ResultCheck>>,
}

impl Promise {
    /// Nothing promised yet.
    pub(super) const fn new(is_trusted: bool) -> Self {
        Self { is_trusted, check: None }
    }

    /// Promises results of this schema; `Err` says what is wrong with it.
    pub(super) fn keep(&mut self, schema: Option<&Value>) -> Result<(), Cow<'static, str>> {
        let Some(schema) = schema else { return Ok(()) };
        let check = ResultCheck::compile(schema)?;
        if cfg!(debug_assertions) || !self.is_trusted {
            self.check = Some(Arc::new(check));
        }
        Ok(())
    }

    /// Looks at the result of a local or blocking handler.
    pub(super) fn look(
        &self,
        result: Result<Outcome, HandlerError>,
    ) -> Result<Outcome, HandlerError> {
        let outcome = result?;
        match &self.check {
            Some(check) if !outcome.is_failed() => {
                judge(check, outcome.structured_value())?;
                Ok(outcome)
            }
            _ => Ok(outcome),
        }
    }

    /// Looks at what an inline handler has written.
    #[inline]
    pub(super) fn look_at(&self, answer: &Answer<'_>) -> Result<(), HandlerError> {
        match &self.check {
            Some(check) if !answer.is_failed() => look_inside(check, answer),
            _ => Ok(()),
        }
    }
}

fn look_inside(check: &ResultCheck, answer: &Answer<'_>) -> Result<(), HandlerError> {
    let Some(written) = answer.structured_json() else {
        // A revision without structured results was told nothing of the promise either.
        return if answer.has_structured() { Ok(()) } else { judge(check, None) };
    };
    let value: Option<Value> = serde_json::from_slice(written).ok();
    judge(check, value.as_ref())
}

fn judge(check: &ResultCheck, value: Option<&Value>) -> Result<(), HandlerError> {
    let problem = match value {
        Some(value) => match check.check(value) {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        },
        None => String::from("there is none"),
    };
    let message = format!("the structured result of the tool breaks its outputSchema: {problem}");
    Err(HandlerError::Refused(Error::internal(message)))
}
