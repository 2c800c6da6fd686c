//! What the entries of a catalog need of their server: the state of each shard, made on the thread
//! of the shard, and callers that can be known.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use corelane_engine::mesh::ShardId;

use crate::server::auth::HOW_TO_KNOW_CALLERS;
use crate::service::{Catalog, CatalogError, StateType};

/// What a server has that entries of its catalog may need.
#[derive(Clone, Copy, Debug)]
pub struct ServerFacts {
    /// The type of the states of the shards.
    pub state_type: StateType,
    /// Callers can be known, so that tools may require scopes.
    pub knows_callers: bool,
}

impl ServerFacts {
    /// Checks that the server has what the entries of `catalog` need.
    ///
    /// # Errors
    ///
    /// The first entry for which something is missing, and what to do.
    pub fn check(self, catalog: &Catalog) -> Result<(), CatalogError> {
        check_state(catalog, self.state_type)?;
        let mut tools = catalog.tools().filter(|tool| !tool.required_scopes().is_empty());
        match tools.next() {
            Some(tool) if !self.knows_callers => Err(CatalogError::InvalidEntry {
                kind: "tool",
                name: tool.name().into(),
                problem: unknown_callers(&tool.required_scopes().join(" ")).into(),
            }),
            _ => Ok(()),
        }
    }
}

/// The problem of a tool that requires `scopes` of callers whom the server cannot know.
fn unknown_callers(scopes: &str) -> String {
    let host = if cfg!(feature = "tower") {
        ", Server::principals_from_host if the program attaches a Principal to requests"
    } else {
        ""
    };
    format!(
        "it requires the scope `{scopes}`, and the server knows no caller: call \
         Server::token_verifier{host}, or {HOW_TO_KNOW_CALLERS}"
    )
}

/// Fails if a handler or completer needs the state of its shard to have another type.
fn check_state(catalog: &Catalog, state_type: StateType) -> Result<(), CatalogError> {
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

/// Makes the state of a shard.
#[derive(Clone)]
pub struct StateFactory {
    state_type: StateType,
    create: Arc<dyn Fn(ShardId) -> Rc<dyn Any> + Send + Sync>,
}

impl StateFactory {
    pub fn new<S: 'static>(create: impl Fn(u16) -> S + Send + Sync + 'static) -> Self {
        let create = move |ShardId(shard)| -> Rc<dyn Any> { Rc::new(create(shard)) };
        Self { state_type: StateType::of::<S>(), create: Arc::new(create) }
    }

    /// Makes the state of `shard`. Must be called on the thread of the shard.
    pub fn create(&self, shard: ShardId) -> Rc<dyn Any> {
        (self.create)(shard)
    }

    /// The type of the states.
    pub const fn state_type(&self) -> StateType {
        self.state_type
    }
}

impl fmt::Debug for StateFactory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("StateFactory").field(&self.state_type.name()).finish()
    }
}
