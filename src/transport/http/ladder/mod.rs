//! The ladder that every HTTP request climbs before its message is served.
//!
//! [`RUNGS`] is the whole of it, in its order; [`admit_head`] climbs the rungs that need no more
//! than a head and says what the request is ([`Kind`]), [`era`] decides whose rules its body is
//! held to, and [`mirror`](super::mirror) holds its headers against that body. A request that is to
//! become a WebSocket is looked at further by its
//! [`handshake`](crate::transport::websocket::handshake). The other rungs stand where their
//! knowledge is; whoever refuses there takes status and error from the rung.
//!
//! What it keeps true: what a head can refuse is refused before a byte of JSON is parsed, and a
//! request that breaks several rungs is told of the lowest.
//!
//! What it does not do: know sessions. A session id is handed on as it came.

mod rungs;

mod profile;

mod kind;

mod admission;

mod era;

pub use admission::admit_head;
pub use era::{Era, era};
pub use kind::{Kind, SESSION_PARAMETER, is_taken};
pub use profile::Profile;
pub use rungs::{Among, Looker, RUNGS, Refusal, Rung, Step};
