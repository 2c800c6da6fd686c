//! The request templates of a run, each with the template of its response.

use std::sync::Arc;

use super::answers::Answers;
use super::parity::messages::MessageReader;
use super::request_template::RequestTemplate;
use super::response_template::ResponseTemplate;
use crate::metrics::outcome::Failure;

/// Request templates of one load thread with the response templates learned so far.
#[derive(Debug)]
pub struct RequestTemplates {
    requests: Vec<RequestTemplate>,
    responses: Vec<Option<ResponseTemplate>>,
    /// Reader of responses, in the parity dialect.
    parity_reader: Option<Box<MessageReader>>,
    /// Whether the reason of a wrong response is wanted.
    explains_wrong: bool,
    /// Whether a request asks for progress.
    have_progress_token: bool,
    /// Answers to results that require input, if requests can be sent again.
    answers: Option<Arc<Answers>>,
}

impl RequestTemplates {
    /// Creates the set; templates are identified by their index.
    pub fn new(requests: Vec<RequestTemplate>) -> Self {
        let responses = requests.iter().map(|_| None).collect();
        let is_parity = requests.iter().any(RequestTemplate::is_parity);
        let parity_reader = is_parity.then(Box::default);
        let have_progress_token = requests.iter().any(RequestTemplate::has_progress_token);
        Self {
            requests,
            responses,
            parity_reader,
            explains_wrong: true,
            have_progress_token,
            answers: None,
        }
    }

    /// Answers results that require input.
    #[must_use]
    pub fn with_answers(self, answers: Option<Arc<Answers>>) -> Self {
        Self { answers, ..self }
    }

    /// Returns the answers to results that require input.
    pub(super) fn answers(&self) -> Option<&Answers> {
        self.answers.as_deref()
    }

    /// Sets whether the reason of a wrong response is wanted, which takes long to find.
    #[inline]
    pub const fn explain_wrong(&mut self, is_wanted: bool) {
        self.explains_wrong = is_wanted;
    }

    /// Returns whether the reason of a response with this failure is wanted.
    #[inline]
    pub(super) fn explains(&self, failure: Option<Failure>) -> bool {
        failure == Some(Failure::Wrong) && self.explains_wrong
    }

    /// Returns whether a request asks for progress.
    #[inline]
    pub(super) const fn have_progress_token(&self) -> bool {
        self.have_progress_token
    }

    /// Takes the reader of responses in the parity dialect; `None` for those of MCP.
    #[inline]
    pub(super) const fn take_parity_reader(&mut self) -> Option<Box<MessageReader>> {
        self.parity_reader.take()
    }

    /// Gives the reader back.
    pub(super) fn restore_parity_reader(&mut self, reader: Box<MessageReader>) {
        self.parity_reader = Some(reader);
    }

    /// Returns the request template at `place`.
    pub fn call(&self, place: u16) -> Option<&RequestTemplate> {
        self.requests.get(usize::from(place))
    }

    /// Returns the response template of a request, once a correct response was received.
    pub(super) fn response_template(&self, place: u16) -> Option<&ResponseTemplate> {
        self.responses.get(usize::from(place))?.as_ref()
    }

    /// Stores a correct response, complete with framing, as the template for later ones.
    pub(super) fn set_response_template(&mut self, place: u16, answer: &[u8], id: u64) {
        if let Some(template) = self.responses.get_mut(usize::from(place)) {
            *template = ResponseTemplate::from_response(answer, id);
        }
    }
}
