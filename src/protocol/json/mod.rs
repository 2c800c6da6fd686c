//! JSON: one text in, a tape of nodes out, and views of its values.
//!
//! [`Parser`] holds the memory that parsing needs and lends it to one [`Document`] at a time; a
//! [`Value`] is two words that point into the document. The text is changed in place where its
//! strings hold escapes, and every string is borrowed from it.
//!
//! What is accepted: RFC 8259, UTF-8, at most the depth and tokens of [`Limits`]. Refused although
//! the grammar allows it: a lone surrogate escape (it names no character) and a number beyond the
//! range of a double. A whole number beyond 64 bits becomes the nearest double.
//!
//! **Duplicate keys.** A key that the protocol itself reads may occur once in its object and is
//! refused otherwise ([`Object::once`]). Inside the arguments of a tool the handler decides: a
//! typed handler refuses them (serde), a raw one sees all of them in order ([`Object::iter`]), and
//! [`Object::find`] gives the last.

pub mod write;

mod timestamp;

mod object;

mod value;

mod deserialize;

mod limits;

mod parser;

pub use deserialize::Mismatch;
pub use limits::{Limits, NESTING_CEILING, SURVEYED_BYTES_MIN};
pub use object::ObjectWriter;
pub use parser::{Document, PADDING_BYTES, ParseError, Parser};
pub use timestamp::timestamp;
pub use value::{Array, Duplicate, Items, Kind, Members, Object, Value};
