//! What an inline handler sends before its result: progress and log messages.
//!
//! A handler that sends none writes its result in place. The result of one that does is taken from
//! the output and completed by a local handler, behind the messages: where notifications go,
//! whether an HTTP response becomes an event stream, and the order of all this are those of local
//! handlers.

use corelane_protocol::eras::LoggingLevel;

use crate::service::context::RequestContext;
use crate::service::results::HandlerError;

/// The messages of one inline handler, in order.
#[derive(Debug, Default)]
pub(in crate::service) struct InlineEvents(Vec<InlineEvent>);

#[derive(Debug)]
enum InlineEvent {
    Progress { progress: f64, total: Option<f64>, message: Option<Box<str>> },
    Log { level: LoggingLevel, logger: Option<Box<str>>, data: serde_json::Value },
}

impl InlineEvents {
    pub(super) fn push_progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        self.0.push(InlineEvent::Progress { progress, total, message: message.map(Box::from) });
    }

    pub(super) fn push_log(
        &mut self,
        level: LoggingLevel,
        logger: Option<&str>,
        data: serde_json::Value,
    ) {
        self.0.push(InlineEvent::Log { level, logger: logger.map(Box::from), data });
    }

    /// Sends the messages.
    pub(in crate::service) fn send(self, ctx: &RequestContext) {
        for event in self.0 {
            match event {
                InlineEvent::Progress { progress, total, message } => {
                    ctx.progress(progress, total, message.as_deref());
                }
                InlineEvent::Log { level, logger, data } => {
                    ctx.log(level, logger.as_deref(), data);
                }
            }
        }
    }
}

/// How an inline handler ends, unless its result is complete where it was written.
#[derive(Debug)]
pub(in crate::service) enum InlineEnd {
    /// It has failed.
    Failed(HandlerError),
    /// It has sent messages, which must precede its result.
    Emitted(Box<InlineEvents>, Result<(), HandlerError>),
}

impl From<HandlerError> for InlineEnd {
    fn from(error: HandlerError) -> Self {
        Self::Failed(error)
    }
}
