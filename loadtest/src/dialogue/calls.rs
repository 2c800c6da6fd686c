//! The kinds of requests of a run, each with what its right answers look like.

use super::call::Call;
use super::model::Model;

/// The kinds of requests that one worker sends, and what it has learned of their answers.
#[derive(Clone, Debug)]
pub struct Calls {
    calls: Vec<Call>,
    models: Vec<Option<Model>>,
}

impl Calls {
    /// These kinds; their places are their names.
    pub fn new(calls: Vec<Call>) -> Self {
        let models = calls.iter().map(|_| None).collect();
        Self { calls, models }
    }

    /// One of them.
    pub fn call(&self, place: u16) -> Option<&Call> {
        self.calls.get(usize::from(place))
    }

    /// What a right answer to one of them looks like, once there was one.
    pub(super) fn model(&self, place: u16) -> Option<&Model> {
        self.models.get(usize::from(place))?.as_ref()
    }

    /// Keeps a right answer, from its first byte to its last, to compare others with.
    pub(super) fn learn(&mut self, place: u16, answer: &[u8], id: u64) {
        if let Some(model) = self.models.get_mut(usize::from(place)) {
            *model = Model::of(answer, id);
        }
    }
}
