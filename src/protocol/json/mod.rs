//! JSON parser, views of the parsed values, and writers.
//!
//! [`Parser`] owns the memory that parsing needs and lends it to one [`Document`] at a time; a
//! [`Value`] is two words that point into the document. Strings with escapes are decoded in place
//! in the input, and every string is borrowed from it.
//!
//! Accepted: RFC 8259 in UTF-8, up to the nesting and tokens of [`ParseLimits`]. Rejected although
//! the grammar allows it: a number beyond the range of a double, and a lone surrogate escape, which
//! encodes no character; [`Parser::repair`] replaces it. An integer beyond 64 bits becomes the
//! nearest double. A number with fraction or exponent is an integer if it has no fractional part
//! (JSON Schema 2020-12) and is below 2^53, so that no digit was lost.
//!
//! **Duplicate keys.** A key that the protocol reads may occur once in its object; a duplicate is
//! an error ([`Object::find_unique`]), and so is one inside the arguments of a tool
//! ([`Value::duplicate_key`]). Elsewhere the reader decides: serde rejects duplicates of a struct,
//! [`Object::iter`] yields all of them in order, and [`Object::find`] returns the last.

pub mod write;

mod object;

mod value;

mod deserialize;

mod prescan;

mod error;

mod parsed;

mod padded_text;

mod repair;

mod parser;

pub use error::ParseError;
pub use object::ObjectWriter;
pub use padded_text::{PADDING_BYTES, PaddedBuffer, PaddedText, SourcePlace, padding_of};
pub use parser::{Document, Parser};
pub use prescan::{LARGE_TEXT_BYTES, ParseLimits};
pub use value::{Array, DuplicateKey, Items, Members, Object, Value, ValueKind, whole_number};
pub use write::write_timestamp;
