//! What threads share, and how they wait.

mod block_on;
mod shared_value;

pub use self::block_on::block_on;
pub(super) use self::shared_value::SharedValue;
