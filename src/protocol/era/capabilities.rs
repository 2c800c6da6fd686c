//! What a client can do, as bits.
//!
//! Source: `ClientCapabilities` in the schema of each revision.

use crate::protocol::error::Error;
use crate::protocol::json::{Kind, Value};

/// The capabilities that a client declared. Two bytes, so that a connection can keep them.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct ClientCapabilities(u16);

impl ClientCapabilities {
    /// Answers `elicitation/create` with a form.
    pub const ELICITATION_FORM: Self = Self(1);
    /// Answers `elicitation/create` by opening an address (2025-11-25 and later).
    pub const ELICITATION_URL: Self = Self(1 << 1);
    /// Declares extensions (2026-07-28 and later).
    pub const EXTENSIONS: Self = Self(1 << 2);
    /// Answers `roots/list`.
    pub const ROOTS: Self = Self(1 << 3);
    /// Says when its roots change (up to 2025-11-25).
    pub const ROOTS_LIST_CHANGED: Self = Self(1 << 4);
    /// Answers `sampling/createMessage`.
    pub const SAMPLING: Self = Self(1 << 5);
    /// Sampling with context (2025-11-25 and later).
    pub const SAMPLING_CONTEXT: Self = Self(1 << 6);
    /// Sampling with tools (2025-11-25 and later).
    pub const SAMPLING_TOOLS: Self = Self(1 << 7);
    /// Takes part in tasks (2025-11-25).
    pub const TASKS: Self = Self(1 << 8);

    /// Reads the capabilities object; members that are not known here are passed over, and a
    /// member that is `null` counts as left out.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `value` or a known member is not an object, or a known member
    /// occurs twice.
    pub fn read(value: Value<'_>) -> Result<Self, Error> {
        let object = value.as_object().ok_or_else(not_an_object)?;
        let known = ["elicitation", "extensions", "roots", "sampling", "tasks"];
        let [elicitation, extensions, roots, sampling, tasks] = object.once(known)?;
        let mut declared = Self::default();
        if let Some(modes) = declared_member(elicitation)? {
            let mode = |name| modes.as_object().and_then(|modes| modes.find(name)).is_some();
            // No mode at all is how clients said "form" before there were modes.
            declared.set(Self::ELICITATION_FORM, mode("form") || !mode("url"));
            declared.set(Self::ELICITATION_URL, mode("url"));
        }
        declared.set(Self::EXTENSIONS, declared_member(extensions)?.is_some());
        if let Some(roots) = declared_member(roots)? {
            let says_changes = roots.as_object().and_then(|roots| roots.find("listChanged"));
            let says_changes = says_changes.and_then(Value::as_bool) == Some(true);
            declared.set(Self::ROOTS, true);
            declared.set(Self::ROOTS_LIST_CHANGED, says_changes);
        }
        if let Some(kinds) = declared_member(sampling)? {
            let kind = |name| kinds.as_object().and_then(|kinds| kinds.find(name)).is_some();
            declared.set(Self::SAMPLING, true);
            declared.set(Self::SAMPLING_CONTEXT, kind("context"));
            declared.set(Self::SAMPLING_TOOLS, kind("tools"));
        }
        declared.set(Self::TASKS, declared_member(tasks)?.is_some());
        Ok(declared)
    }

    /// Whether everything in `wanted` was declared.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    const fn set(&mut self, capability: Self, declared: bool) {
        if declared {
            self.0 |= capability.0;
        }
    }
}

impl std::fmt::Debug for ClientCapabilities {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ClientCapabilities({:#b})", self.0)
    }
}

fn declared_member(member: Option<Value<'_>>) -> Result<Option<Value<'_>>, Error> {
    match member.map(|member| (member, member.kind())) {
        Some((member, Kind::Object)) => Ok(Some(member)),
        None | Some((_, Kind::Null)) => Ok(None),
        Some(_) => Err(not_an_object()),
    }
}

#[cold]
fn not_an_object() -> Error {
    Error::invalid_params("client capabilities must be objects")
}
