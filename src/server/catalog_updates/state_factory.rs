//! Makes the state of each shard, on the thread of the shard.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use corelane_engine::mesh::ShardId;

use crate::service::StateType;

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
