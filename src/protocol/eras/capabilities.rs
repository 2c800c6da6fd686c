//! Client capabilities as a bit set.
//!
//! MCP schema: `ClientCapabilities` of each revision.

use crate::error::{self, Error};
use crate::json::{Object, Value, ValueKind, write};

/// Identifier of the Tasks extension (2026-07-28).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Identifier of the Skills extension (2026-07-28, SEP-2640).
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Set of the capabilities that a client declared, stored in two bytes per connection.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct ClientCapabilities(u16);

impl ClientCapabilities {
    /// `elicitation/create` in form mode.
    pub const ELICITATION_FORM: Self = Self(1);
    /// `elicitation/create` in URL mode (2025-11-25 and later).
    pub const ELICITATION_URL: Self = Self(1 << 1);
    /// The client declares `extensions` (2026-07-28 and later).
    pub const EXTENSIONS: Self = Self(1 << 2);
    /// `roots/list`.
    pub const ROOTS: Self = Self(1 << 3);
    /// `notifications/roots/list_changed` (up to 2025-11-25).
    pub const ROOTS_LIST_CHANGED: Self = Self(1 << 4);
    /// `sampling/createMessage`.
    pub const SAMPLING: Self = Self(1 << 5);
    /// Sampling with `includeContext` (2025-11-25 and later).
    pub const SAMPLING_CONTEXT: Self = Self(1 << 6);
    /// Sampling with tools (2025-11-25 and later).
    pub const SAMPLING_TOOLS: Self = Self(1 << 7);
    /// Tasks (2025-11-25).
    pub const TASKS: Self = Self(1 << 8);
    /// `tasks/list` for tasks that the client runs (2025-11-25).
    pub const TASKS_LIST: Self = Self(1 << 9);
    /// `tasks/cancel` for tasks that the client runs (2025-11-25).
    pub const TASKS_CANCEL: Self = Self(1 << 10);
    /// `sampling/createMessage` as a task (2025-11-25).
    pub const TASKS_SAMPLING: Self = Self(1 << 11);
    /// `elicitation/create` as a task (2025-11-25).
    pub const TASKS_ELICITATION: Self = Self(1 << 12);
    /// The Tasks extension, [`TASKS_EXTENSION`] (2026-07-28).
    pub const EXTENSION_TASKS: Self = Self(1 << 13);
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Reads the capabilities object. Unknown members are ignored; a member that is `null` counts
    /// as absent.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `value` or a known member is not an object, or a known member
    /// occurs twice.
    #[doc(hidden)]
    pub fn read(value: Value<'_>) -> Result<Self, Error> {
        let object = value.as_object().ok_or_else(not_an_object_error)?;
        if object.is_empty() {
            return Ok(Self::NONE);
        }
        let known = ["elicitation", "extensions", "roots", "sampling", "tasks"];
        let [elicitation, extensions, roots, sampling, tasks] = object.find_unique(known)?;
        let mut declared = Self::default();
        if let Some(modes) = declared_member(elicitation)? {
            let mode = |name| modes.as_object().and_then(|modes| modes.find(name)).is_some();
            // An object without modes means form mode: revisions before 2025-11-25 had no modes.
            declared.insert_if(Self::ELICITATION_FORM, mode("form") || !mode("url"));
            declared.insert_if(Self::ELICITATION_URL, mode("url"));
        }
        if let Some(extensions) = declared_member(extensions)? {
            declared.insert_if(Self::EXTENSIONS, true);
            let [tasks] = members(extensions).find_unique([TASKS_EXTENSION])?;
            declared.insert_if(Self::EXTENSION_TASKS, declared_member(tasks)?.is_some());
        }
        if let Some(roots) = declared_member(roots)? {
            let list_changed = roots.as_object().and_then(|roots| roots.find("listChanged"));
            let list_changed = list_changed.and_then(Value::as_bool) == Some(true);
            declared.insert_if(Self::ROOTS, true);
            declared.insert_if(Self::ROOTS_LIST_CHANGED, list_changed);
        }
        if let Some(kinds) = declared_member(sampling)? {
            let kind = |name| kinds.as_object().and_then(|kinds| kinds.find(name)).is_some();
            declared.insert_if(Self::SAMPLING, true);
            declared.insert_if(Self::SAMPLING_CONTEXT, kind("context"));
            declared.insert_if(Self::SAMPLING_TOOLS, kind("tools"));
        }
        if let Some(tasks) = declared_member(tasks)? {
            declared.set_tasks(tasks)?;
        }
        Ok(declared)
    }

    /// Reads the `tasks` object of 2025-11-25: operations on tasks, and requests that may be one.
    fn set_tasks(&mut self, tasks: Value<'_>) -> Result<(), Error> {
        let [list, cancel, requests] =
            members(tasks).find_unique(["list", "cancel", "requests"])?;
        self.insert_if(Self::TASKS, true);
        self.insert_if(Self::TASKS_LIST, declared_member(list)?.is_some());
        self.insert_if(Self::TASKS_CANCEL, declared_member(cancel)?.is_some());
        let Some(requests) = declared_member(requests)? else { return Ok(()) };
        let [sampling, elicitation] = members(requests).find_unique(["sampling", "elicitation"])?;
        for (kind, name, capability) in [
            (sampling, "createMessage", Self::TASKS_SAMPLING),
            (elicitation, "create", Self::TASKS_ELICITATION),
        ] {
            if let Some(kind) = declared_member(kind)? {
                let declared = members(kind).find(name).is_some_and(|value| !value.is_null());
                self.insert_if(capability, declared);
            }
        }
        Ok(())
    }

    /// Returns whether every capability in `required` is present.
    pub const fn contains(self, required: Self) -> bool {
        self.0 & required.0 == required.0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the capabilities that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Appends the `ClientCapabilities` object that declares this set, for
    /// `data.requiredCapabilities` of a -32021 error. Capabilities that a modern client cannot
    /// declare are omitted.
    ///
    /// MCP schema 2026-07-28: `MissingRequiredClientCapabilityError`.
    #[doc(hidden)]
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
                if self.contains(*capability) {
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
        group(Self::ELICITATION_FORM.union(Self::ELICITATION_URL), &modes, "elicitation", out);
        let any = Self::EXTENSIONS.union(Self::EXTENSION_TASKS);
        group(any, &extensions, "extensions", out);
        group(Self::ROOTS, &[], "roots", out);
        let any = Self::SAMPLING.union(Self::SAMPLING_CONTEXT).union(Self::SAMPLING_TOOLS);
        group(any, &kinds, "sampling", out);
        out.push(b'}');
    }

    const fn insert_if(&mut self, capability: Self, declared: bool) {
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
    /// A request that requires capabilities which its client did not declare (-32021, modern
    /// clients only); `required` is sent as `data.requiredCapabilities`.
    ///
    /// MCP 2026-07-28 `basic/index`, "Error Codes".
    pub fn missing_capability(required: ClientCapabilities) -> Self {
        let mut data = br#"{"requiredCapabilities":"#.to_vec();
        required.write_required(&mut data);
        data.push(b'}');
        let message = "missing required client capability: see data.requiredCapabilities";
        Self::new(error::ErrorKind::MissingCapability, message)
            .with_data(String::from_utf8_lossy(&data))
    }
}

/// Returns the members of a value that [`declared_member`] accepted as an object.
fn members(value: Value<'_>) -> Object<'_> {
    value.as_object().unwrap_or_default()
}

/// Returns a member that is an object; `None` if it is absent or `null`.
fn declared_member(member: Option<Value<'_>>) -> Result<Option<Value<'_>>, Error> {
    match member.map(|member| (member, member.kind())) {
        Some((member, ValueKind::Object)) => Ok(Some(member)),
        None | Some((_, ValueKind::Null)) => Ok(None),
        Some(_) => Err(not_an_object_error()),
    }
}

#[cold]
fn not_an_object_error() -> Error {
    Error::invalid_params("capabilities and their members must be objects")
}
