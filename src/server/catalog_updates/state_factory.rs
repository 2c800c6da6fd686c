//! Makes the state of each shard, on the thread of the shard.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::engine::mesh::ShardId;
use crate::service::{Catalog, CatalogError, StateType};

/// Makes the state of a shard.
#[derive(Clone)]
pub(in crate::server) struct StateFactory {
    state_type: StateType,
    create: Arc<dyn Fn(ShardId) -> Rc<dyn Any> + Send + Sync>,
}

impl StateFactory {
    pub(in crate::server) fn new<S: 'static>(
        create: impl Fn(u16) -> S + Send + Sync + 'static,
    ) -> Self {
        let create = move |ShardId(shard)| -> Rc<dyn Any> { Rc::new(create(shard)) };
        Self { state_type: StateType::of::<S>(), create: Arc::new(create) }
    }

    /// Makes the state of `shard`. Must be called on the thread of the shard.
    pub(in crate::server) fn create(&self, shard: ShardId) -> Rc<dyn Any> {
        (self.create)(shard)
    }

    /// The type of the states.
    pub(in crate::server) const fn state_type(&self) -> StateType {
        self.state_type
    }
}

impl fmt::Debug for StateFactory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("StateFactory").field(&self.state_type.name()).finish()
    }
}

/// Fails if a handler or completer needs the state of its shard to have another type.
pub(in crate::server) fn check_state(
    catalog: &Catalog,
    state_type: StateType,
) -> Result<(), CatalogError> {
    let tools = catalog.tools().flat_map(|it| named("tool", it.name(), it.required_state()));
    let prompts = catalog.prompts().flat_map(|it| named("prompt", it.name(), it.required_states()));
    let resources =
        catalog.resources().flat_map(|it| named("resource", it.uri(), it.required_state()));
    let templates = catalog
        .templates()
        .flat_map(|it| named("resource template", it.uri_template(), it.required_states()));
    let mut entries = tools.chain(prompts).chain(resources).chain(templates);
    let mismatch = entries.find(|(_, _, required)| *required != state_type);
    let Some((kind, name, required)) = mismatch else { return Ok(()) };
    let (required, found) = (required.name(), state_type.name());
    let problem = format!(
        "its handler needs the shard state `{required}`, and the server has `{found}`; start it \
         with Server::with_state"
    );
    Err(CatalogError::InvalidEntry { kind, name: name.into(), problem: problem.into() })
}

/// Returns each of `states` with the entry that needs it.
fn named<'c>(
    kind: &'static str,
    name: &'c str,
    states: impl IntoIterator<Item = StateType>,
) -> impl Iterator<Item = (&'static str, &'c str, StateType)> {
    states.into_iter().map(move |state| (kind, name, state))
}
