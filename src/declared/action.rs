//! What a declaration does: keys that tools, resources and prompts have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::declared::command::{InputDeclaration, SandboxDeclaration, WordDeclaration};
use crate::declared::http::HttpDeclaration;
use crate::declared::problem::Problem;
use crate::declared::sql::SqlDeclaration;

/// The keys of an action.
#[derive(Clone, Copy, Debug)]
pub struct ActionFields<'d> {
    /// A text.
    pub text: Option<&'d str>,
    /// A file.
    pub file: Option<&'d str>,
    /// A program with its words.
    pub command: Option<&'d [WordDeclaration]>,
    /// A request to an HTTP server.
    pub http: Option<&'d HttpDeclaration>,
    /// A statement of a database.
    pub sql: Option<&'d SqlDeclaration>,
    /// Standard input of the command.
    pub input: Option<&'d InputDeclaration>,
    /// What the standard output of the command is.
    pub result: Option<&'d str>,
    /// Environment of the command.
    pub env: &'d BTreeMap<String, String>,
    /// Folder of the command.
    pub cwd: Option<&'d Path>,
    /// User of the command.
    pub user: Option<&'d str>,
    /// Sandbox of the command.
    pub sandbox: Option<&'d SandboxDeclaration>,
}

/// What a declaration does.
#[derive(Clone, Copy, Debug)]
pub enum Action<'d> {
    /// Returns a text with placeholders.
    Text(&'d str),
    /// Reads a file, whose path may have placeholders.
    File(&'d str),
    /// Runs a program.
    Command(&'d [WordDeclaration]),
    /// Sends a request.
    Http(&'d HttpDeclaration),
    /// Runs a statement.
    Sql(&'d SqlDeclaration),
}

impl<'d> ActionFields<'d> {
    /// What the declaration does.
    ///
    /// # Errors
    ///
    /// There is not exactly one action, or a key that belongs to another one.
    pub fn action(&self) -> Result<Action<'d>, Problem> {
        let Self { text, file, command, http, sql, .. } = *self;
        let actions = [
            text.map(Action::Text),
            file.map(Action::File),
            command.map(Action::Command),
            http.map(Action::Http),
            sql.map(Action::Sql),
        ];
        let mut actions = actions.into_iter().flatten();
        let hint = "write one of command, http, sql, file and text";
        let Some(action) = actions.next() else {
            return Err(Problem::new("", "does nothing", hint));
        };
        if actions.next().is_some() {
            return Err(Problem::new("", "does more than one thing", hint));
        }
        match self.key_of_command() {
            Some(key) if command.is_none() => {
                let hint = "remove it, or declare a command";
                Err(Problem::new(key, "belongs to a command", hint))
            }
            _ => Ok(action),
        }
    }

    /// The first key that only commands have.
    fn key_of_command(&self) -> Option<&'static str> {
        let keys = [
            (self.input.is_some(), "input"),
            (self.result.is_some(), "result"),
            (!self.env.is_empty(), "env"),
            (self.cwd.is_some(), "cwd"),
            (self.user.is_some(), "user"),
            (self.sandbox.is_some(), "sandbox"),
        ];
        keys.into_iter().find_map(|(is_set, key)| is_set.then_some(key))
    }
}

/// The owned keys of an action, as [`declaration`] adds them to a struct.
pub type PathKey = Option<PathBuf>;

/// Declares a struct with its own keys and those of an action, since serde does not refuse unknown
/// keys of flattened structs.
macro_rules! declaration {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $type,)*
            /// Limits of each call.
            #[serde(default)]
            pub limits: $crate::declared::limits::LimitsDeclaration,
            /// Text with placeholders: `{name}` stands for an argument.
            #[serde(default)]
            pub text: Option<String>,
            /// A file. Placeholders may stand behind the last folder that is fixed, which the path
            /// cannot leave.
            #[serde(default)]
            pub file: Option<String>,
            /// Program and words of a command; never a shell.
            #[serde(default)]
            pub command: Option<Vec<$crate::declared::command::WordDeclaration>>,
            /// A request to an HTTP server.
            #[serde(default)]
            pub http: Option<$crate::declared::http::HttpDeclaration>,
            /// A statement of a database.
            #[serde(default)]
            pub sql: Option<$crate::declared::sql::SqlDeclaration>,
            /// What the command gets on standard input: `none`, `json` (the arguments as one JSON
            /// object), or `{ argument = "text" }` (one argument as text). Default: `json` if no
            /// word has a placeholder although there are arguments, else `none`.
            #[serde(default)]
            pub input: Option<$crate::declared::command::InputDeclaration>,
            /// What standard output is: `text`, `json` (the structured result), `lines` (each line
            /// is progress, the last one the result), or a media type such as `image/png`. Default
            /// `text`.
            #[serde(default)]
            pub result: Option<String>,
            /// Environment of the command, which has no other variables. Values may have
            /// placeholders.
            #[serde(default)]
            pub env: std::collections::BTreeMap<String, String>,
            /// Folder that the command runs in. Default: that of the file.
            #[serde(default)]
            pub cwd: $crate::declared::action::PathKey,
            /// User that the command runs as, by name or as `UID:GID`; needs the right to change
            /// users.
            #[serde(default)]
            pub user: Option<String>,
            /// What the command may reach. Default: what the user of the server may.
            #[serde(default)]
            pub sandbox: Option<$crate::declared::command::SandboxDeclaration>,
        }

        impl $name {
            /// The keys of the action.
            pub fn action_fields(&self) -> $crate::declared::action::ActionFields<'_> {
                $crate::declared::action::ActionFields {
                    text: self.text.as_deref(),
                    file: self.file.as_deref(),
                    command: self.command.as_deref(),
                    http: self.http.as_ref(),
                    sql: self.sql.as_ref(),
                    input: self.input.as_ref(),
                    result: self.result.as_deref(),
                    env: &self.env,
                    cwd: self.cwd.as_deref(),
                    user: self.user.as_deref(),
                    sandbox: self.sandbox.as_ref(),
                }
            }
        }
    };
}

pub(super) use declaration;
