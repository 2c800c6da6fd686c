//! The params that several steps of the request path need, found in one pass.
//!
//! Invariants: a member is validated only when it is requested, because a method that does not
//! define it must ignore it. A duplicate is reported by the accessor of its member.

use crate::eras::RequestMetaObject;
use crate::error::Error;
use crate::json::{DuplicateKey, Object, Value};

/// Members of the params of any request: `_meta`, and `name` and `arguments` of `tools/call`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParams<'a> {
    name: Option<Value<'a>>,
    arguments: Option<Value<'a>>,
    meta: Option<Value<'a>>,
    /// Bit set of the members that occur more than once.
    duplicates: u8,
    is_object: bool,
    has_retry_or_task: bool,
}

const NAME: u8 = 1;
const ARGUMENTS: u8 = 1 << 1;
const META: u8 = 1 << 2;

impl<'a> RequestParams<'a> {
    /// Scans the params of a request. Cost: one pass over their keys.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Self {
        let object = params.and_then(Value::as_object);
        let mut found = Self { is_object: object.is_some(), ..Self::default() };
        found.scan(object.unwrap_or_default());
        found
    }

    #[inline]
    fn scan(&mut self, params: Object<'a>) {
        for (key, value) in params {
            let (slot, bit) = match key {
                "name" => (&mut self.name, NAME),
                "arguments" => (&mut self.arguments, ARGUMENTS),
                "_meta" => (&mut self.meta, META),
                "inputResponses" | "requestState" | "task" => {
                    self.has_retry_or_task = true;
                    continue;
                }
                _ => continue,
            };
            if slot.replace(value).is_some() {
                self.duplicates |= bit;
            }
        }
    }

    /// Returns whether params are present and an object.
    #[inline]
    pub const fn is_object(&self) -> bool {
        self.is_object
    }

    /// Returns whether the members of a retry ([`super::InputResponseRequestParams`]) or `task`
    /// ([`super::TaskMetadata`]) are present.
    #[inline]
    pub const fn has_retry_or_task(&self) -> bool {
        self.has_retry_or_task
    }

    /// Returns the `_meta` of the request.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `_meta` occurs twice; otherwise as [`RequestMetaObject::read`].
    #[inline]
    pub fn meta(&self) -> Result<RequestMetaObject<'a>, Error> {
        if self.duplicates & META != 0 {
            return Err(DuplicateKey { key: "_meta" }.into());
        }
        RequestMetaObject::read_value(self.meta)
    }

    /// Returns the value of `_meta`, unvalidated.
    pub const fn meta_value(&self) -> Option<Value<'a>> {
        self.meta
    }

    /// Returns `name` and `arguments`, unvalidated.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`] if one of the two occurs twice.
    #[inline]
    pub fn tool_call(&self) -> Result<[Option<Value<'a>>; 2], DuplicateKey> {
        match self.duplicates & (NAME | ARGUMENTS) {
            0 => Ok([self.name, self.arguments]),
            ARGUMENTS => Err(DuplicateKey { key: "arguments" }),
            _ => Err(DuplicateKey { key: "name" }),
        }
    }
}
