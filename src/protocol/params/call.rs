//! What several stops of the road look for in the params of one request, found in one pass.
//!
//! What it keeps true: nothing is judged here before somebody asks for it, so that a member is
//! wrong only where its method has it. Whoever asks for a member that is there twice is refused.

use crate::protocol::era::Meta;
use crate::protocol::error::Error;
use crate::protocol::json::{Duplicate, Object, Value};

/// The params of `tools/call`, and what those of other requests have in common with them.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallParams<'a> {
    name: Option<Value<'a>>,
    arguments: Option<Value<'a>>,
    meta: Option<Value<'a>>,
    /// Which of those three are there more than once, one bit each.
    twice: u8,
    is_object: bool,
    has_extras: bool,
}

const NAME: u8 = 1;
const ARGUMENTS: u8 = 1 << 1;
const META: u8 = 1 << 2;

impl<'a> CallParams<'a> {
    /// Looks through the params of a request. Cost: one pass over their keys.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Self {
        let object = params.and_then(Value::as_object);
        let mut read = Self { is_object: object.is_some(), ..Self::default() };
        read.fill(object.unwrap_or_default());
        read
    }

    #[inline]
    fn fill(&mut self, params: Object<'a>) {
        for (key, value) in params {
            let (slot, bit) = match key {
                "name" => (&mut self.name, NAME),
                "arguments" => (&mut self.arguments, ARGUMENTS),
                "_meta" => (&mut self.meta, META),
                "inputResponses" | "requestState" | "task" => {
                    self.has_extras = true;
                    continue;
                }
                _ => continue,
            };
            if slot.replace(value).is_some() {
                self.twice |= bit;
            }
        }
    }

    /// Whether the params are there, and an object.
    #[inline]
    pub const fn is_object(&self) -> bool {
        self.is_object
    }

    /// Whether something is there that only a retry brings ([`super::Retry`]), or the wish for a
    /// task ([`super::TaskMetadata`]).
    #[inline]
    pub const fn has_extras(&self) -> bool {
        self.has_extras
    }

    /// What the request says of itself and its client.
    ///
    /// # Errors
    ///
    /// As [`Meta::read`].
    #[inline]
    pub fn meta(&self) -> Result<Meta<'a>, Error> {
        if self.twice & META != 0 {
            return Err(Duplicate { key: "_meta" }.into());
        }
        Meta::read_member(self.meta)
    }

    /// `name` and `arguments`, as they are.
    ///
    /// # Errors
    ///
    /// [`Duplicate`] where one of the two is there twice.
    #[inline]
    pub fn call(&self) -> Result<[Option<Value<'a>>; 2], Duplicate> {
        match self.twice & (NAME | ARGUMENTS) {
            0 => Ok([self.name, self.arguments]),
            ARGUMENTS => Err(Duplicate { key: "arguments" }),
            _ => Err(Duplicate { key: "name" }),
        }
    }
}
