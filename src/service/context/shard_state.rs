//! The state of a shard: a value that the host makes for each shard, for its inline and local
//! handlers.

use std::any::{Any, TypeId, type_name};

/// The type of the state that a handler needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// The type `S`.
    pub fn of<S: 'static>() -> Self {
        Self { id: TypeId::of::<S>(), name: type_name::<S>() }
    }

    /// Name of the type.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Returns the state as the type of a handler.
///
/// # Panics
///
/// It has another type. Servers check the types when a catalog is installed.
pub(in crate::service) fn get<S: 'static>(state: &dyn Any) -> &S {
    let Some(state) = state.downcast_ref() else {
        panic!("the server has no shard state of the type {}", type_name::<S>());
    };
    state
}
