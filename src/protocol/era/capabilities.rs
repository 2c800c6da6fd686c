//! What a client can do, as bits.
//!
//! Source: `ClientCapabilities` in the schema of each revision.

use crate::protocol::error::{self, Error};
use crate::protocol::json::{Kind, Object, Value, write};

/// The identifier of the Tasks extension (2026-07-28).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

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
    /// Lists the tasks that it runs for the server (2025-11-25).
    pub const TASKS_LIST: Self = Self(1 << 9);
    /// Ends the tasks that it runs for the server on request (2025-11-25).
    pub const TASKS_CANCEL: Self = Self(1 << 10);
    /// Runs `sampling/createMessage` as a task (2025-11-25).
    pub const TASKS_SAMPLING: Self = Self(1 << 11);
    /// Runs `elicitation/create` as a task (2025-11-25).
    pub const TASKS_ELICITATION: Self = Self(1 << 12);
    /// Understands tasks as the extension [`TASKS_EXTENSION`] has them (2026-07-28).
    pub const EXTENSION_TASKS: Self = Self(1 << 13);
    /// Nothing at all.
    pub const NONE: Self = Self(0);

    /// Reads the capabilities object; members that are not known here are passed over, and a
    /// member that is `null` counts as left out.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `value` or a known member is not an object, or a known member
    /// occurs twice.
    pub fn read(value: Value<'_>) -> Result<Self, Error> {
        let object = value.as_object().ok_or_else(not_an_object)?;
        if object.is_empty() {
            return Ok(Self::NONE);
        }
        let known = ["elicitation", "extensions", "roots", "sampling", "tasks"];
        let [elicitation, extensions, roots, sampling, tasks] = object.once(known)?;
        let mut declared = Self::default();
        if let Some(modes) = declared_member(elicitation)? {
            let mode = |name| modes.as_object().and_then(|modes| modes.find(name)).is_some();
            // No mode at all is how clients said "form" before there were modes.
            declared.set(Self::ELICITATION_FORM, mode("form") || !mode("url"));
            declared.set(Self::ELICITATION_URL, mode("url"));
        }
        if let Some(extensions) = declared_member(extensions)? {
            declared.set(Self::EXTENSIONS, true);
            let [tasks] = members(extensions).once([TASKS_EXTENSION])?;
            declared.set(Self::EXTENSION_TASKS, declared_member(tasks)?.is_some());
        }
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
        if let Some(tasks) = declared_member(tasks)? {
            declared.set_tasks(tasks)?;
        }
        Ok(declared)
    }

    /// The `tasks` object of 2025-11-25: what may be done with tasks, and what may be one.
    fn set_tasks(&mut self, tasks: Value<'_>) -> Result<(), Error> {
        let [list, cancel, requests] = members(tasks).once(["list", "cancel", "requests"])?;
        self.set(Self::TASKS, true);
        self.set(Self::TASKS_LIST, declared_member(list)?.is_some());
        self.set(Self::TASKS_CANCEL, declared_member(cancel)?.is_some());
        let Some(requests) = declared_member(requests)? else { return Ok(()) };
        let [sampling, elicitation] = members(requests).once(["sampling", "elicitation"])?;
        for (kind, name, capability) in [
            (sampling, "createMessage", Self::TASKS_SAMPLING),
            (elicitation, "create", Self::TASKS_ELICITATION),
        ] {
            if let Some(kind) = declared_member(kind)? {
                let declared = members(kind).find(name).is_some_and(|value| !value.is_null());
                self.set(capability, declared);
            }
        }
        Ok(())
    }

    /// Whether everything in `wanted` was declared.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// These and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but for `others`: what a request needs without what its client has is what is missing.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Appends the `ClientCapabilities` object that declares them, as `data.requiredCapabilities`
    /// of a -32021 error has it. What a modern client cannot declare is left out.
    ///
    /// Source: `MissingRequiredClientCapabilityError`, 2026-07-28 schema.
    pub fn write_required(self, out: &mut Vec<u8>) {
        let group = |any: Self, members: &[(Self, &'static str)], name, out: &mut Vec<u8>| {
            if self.0 & any.0 == 0 {
                return;
            }
            if !out.ends_with(b"{") {
                out.push(b',');
            }
            write::string(out, name);
            out.extend_from_slice(b":{");
            let mut first = true;
            for (capability, member) in members {
                if self.has(*capability) {
                    if !first {
                        out.push(b',');
                    }
                    first = false;
                    write::string(out, member);
                    out.extend_from_slice(b":{}");
                }
            }
            out.push(b'}');
        };
        let modes = [(Self::ELICITATION_FORM, "form"), (Self::ELICITATION_URL, "url")];
        let kinds = [(Self::SAMPLING_CONTEXT, "context"), (Self::SAMPLING_TOOLS, "tools")];
        let extensions = [(Self::EXTENSION_TASKS, TASKS_EXTENSION)];
        out.push(b'{');
        group(Self::ELICITATION_FORM.with(Self::ELICITATION_URL), &modes, "elicitation", out);
        let any = Self::EXTENSIONS.with(Self::EXTENSION_TASKS);
        group(any, &extensions, "extensions", out);
        group(Self::ROOTS, &[], "roots", out);
        let any = Self::SAMPLING.with(Self::SAMPLING_CONTEXT).with(Self::SAMPLING_TOOLS);
        group(any, &kinds, "sampling", out);
        out.push(b'}');
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

impl Error {
    /// A request that needs capabilities which its client did not declare (-32021, modern clients
    /// only): `required` are named in `data.requiredCapabilities`.
    ///
    /// Source: 2026-07-28 `basic/index`, "Error Codes".
    pub fn missing_capability(required: ClientCapabilities) -> Self {
        let mut data = br#"{"requiredCapabilities":"#.to_vec();
        required.write_required(&mut data);
        data.push(b'}');
        let message = "the request needs a capability that the client did not declare";
        Self::new(error::Kind::MissingCapability, message).with_data(String::from_utf8_lossy(&data))
    }
}

/// The members of what [`declared_member`] found to be an object.
fn members(value: Value<'_>) -> Object<'_> {
    value.as_object().unwrap_or_default()
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
