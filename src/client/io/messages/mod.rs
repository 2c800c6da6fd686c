//! Messages on one open byte stream: on lines, or in WebSocket frames.

mod mask_keys;

mod ping_timer;

mod output;

mod receiver;

mod websocket;

mod closing;

#[cfg(feature = "test-support")]
mod echo;

mod stream;

mod open;

pub(super) use self::closing::{ClosingSocket, ClosingSockets};
#[cfg(feature = "test-support")]
pub use self::echo::WebSocketEcho;
pub(super) use self::open::open_stream;
pub(super) use self::output::StreamOutput;
pub(super) use self::receiver::MessageReceiver;
pub(super) use self::stream::MessageStream;
