//! Params of the requests for what a server offers: lists, resources, prompts, completion,
//! subscriptions, and what a retry adds to its own.

use super::{
    StringMap, invalid_member, non_null, optional_string, optional_strings, require_object,
    require_params, require_string,
};
use crate::error::Error;
use crate::json::Value;
use crate::jsonrpc::Id;

/// The params of `resources/read`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadResourceRequestParams<'a> {
    /// URI of the resource, as the client sent it.
    pub uri: &'a str,
}

impl<'a> ReadResourceRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `uri` is missing, duplicated or not a string.
    ///
    /// MCP: `server/resources`, "Reading Resources", of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = require_params(params)?.find_unique(["uri"])?;
        Ok(Self { uri: require_string(uri, "params.uri")? })
    }
}

/// The params of `skills/get` and `resources/directory/read`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GetSkillRequestParams<'a> {
    /// URI of the `SKILL.md` or of the folder, as the client sent it.
    pub uri: &'a str,
}

impl<'a> GetSkillRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `uri` is missing, duplicated or not a string.
    ///
    /// SEP-2640.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = require_params(params)?.find_unique(["uri"])?;
        Ok(Self { uri: require_string(uri, "params.uri")? })
    }
}

/// The params of `resources/subscribe` and `resources/unsubscribe`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SubscribeRequestParams<'a> {
    /// URI of the resource, as the client sent it.
    pub uri: &'a str,
}

impl<'a> SubscribeRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `uri` is missing, duplicated or not a string.
    ///
    /// MCP: `server/resources`, "Subscriptions", 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [uri] = require_params(params)?.find_unique(["uri"])?;
        Ok(Self { uri: require_string(uri, "params.uri")? })
    }
}

/// The params of `tools/list` and the other paginated lists.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PaginatedRequestParams<'a> {
    /// The `nextCursor` of the previous page; `None` for the first page. The empty string is an
    /// ordinary cursor.
    pub cursor: Option<&'a str>,
}

impl<'a> PaginatedRequestParams<'a> {
    /// Reads the params, which are optional.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if they are not an object, or `cursor` is duplicated or not a
    /// string.
    ///
    /// MCP: `server/utilities/pagination` of each revision.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params else {
            return Ok(Self::default());
        };
        let Some(params) = params.as_object() else {
            return Err(invalid_member("params", "an object"));
        };
        let [cursor] = params.find_unique(["cursor"])?;
        Ok(Self { cursor: optional_string(cursor, "params.cursor")? })
    }
}

/// The params of `prompts/get`.
#[derive(Clone, Copy, Debug)]
pub struct GetPromptRequestParams<'a> {
    /// Name of the prompt.
    pub name: &'a str,
    /// Values of its arguments.
    pub arguments: StringMap<'a>,
}

impl<'a> GetPromptRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the name is missing, duplicated or not a string, or the arguments
    /// are not an object of strings.
    ///
    /// MCP: `server/prompts`, "Getting a Prompt", of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [name, arguments] = require_params(params)?.find_unique(["name", "arguments"])?;
        Ok(Self {
            name: require_string(name, "params.name")?,
            arguments: StringMap::read(arguments, "params.arguments")?,
        })
    }
}

/// The params of `completion/complete`.
#[derive(Clone, Copy, Debug)]
pub struct CompleteRequestParams<'a> {
    /// The prompt or resource template that the argument belongs to.
    pub reference: CompletionReference<'a>,
    /// Name of the argument to complete.
    pub argument_name: &'a str,
    /// Value typed so far.
    pub argument_value: &'a str,
    /// Values of the other arguments that are already set (2025-06-18 and later).
    pub context_arguments: StringMap<'a>,
}

/// Subject of a completion: `ref/prompt` or `ref/resource`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompletionReference<'a> {
    /// Name of a prompt.
    Prompt(&'a str),
    /// URI template of a resource template, or URI of a resource.
    Resource(&'a str),
}

impl<'a> CompleteRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the type of `ref` is neither `ref/prompt` nor `ref/resource`, or
    /// a member is missing, duplicated or not a string.
    ///
    /// MCP: `server/utilities/completion` of each revision.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [reference, argument, context] =
            require_params(params)?.find_unique(["ref", "argument", "context"])?;
        let [name, value] =
            require_object(argument, "params.argument")?.find_unique(["name", "value"])?;
        let context = match non_null(context) {
            Some(context) => {
                let [arguments] =
                    require_object(Some(context), "params.context")?.find_unique(["arguments"])?;
                StringMap::read(arguments, "params.context.arguments")?
            }
            None => StringMap::default(),
        };
        Ok(Self {
            reference: CompletionReference::read(reference)?,
            argument_name: require_string(name, "params.argument.name")?,
            argument_value: require_string(value, "params.argument.value")?,
            context_arguments: context,
        })
    }
}

impl<'a> CompletionReference<'a> {
    /// Returns the name or the URI.
    pub const fn name(self) -> &'a str {
        let (Self::Prompt(name) | Self::Resource(name)) = self;
        name
    }

    fn read(value: Option<Value<'a>>) -> Result<Self, Error> {
        let keys = ["type", "name", "uri"];
        let [kind, name, uri] = require_object(value, "params.ref")?.find_unique(keys)?;
        match require_string(kind, "params.ref.type")? {
            "ref/prompt" => Ok(Self::Prompt(require_string(name, "params.ref.name")?)),
            "ref/resource" => Ok(Self::Resource(require_string(uri, "params.ref.uri")?)),
            _ => Err(invalid_member("params.ref.type", "\"ref/prompt\" or \"ref/resource\"")),
        }
    }
}

/// The input responses of a retry and the `requestState` of the server (2026-07-28).
#[derive(Clone, Copy, Debug, Default)]
pub struct InputResponseRequestParams<'a> {
    /// Object of responses by the key of their input request.
    pub input_responses: Option<Value<'a>>,
    /// Opaque state that the server sent with the input requests. Not trusted before decryption.
    pub request_state: Option<&'a str>,
}

impl<'a> InputResponseRequestParams<'a> {
    /// Reads the params. Cost: one pass over their keys.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if a member is duplicated or has the wrong type.
    ///
    /// MCP 2026-07-28 `basic/patterns/mrtr`.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params.and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        let [responses, state] = params.find_unique(["inputResponses", "requestState"])?;
        if responses.is_none() && state.is_none() {
            return Ok(Self::default());
        }
        let input_responses = non_null(responses);
        if input_responses.is_some() {
            require_object(input_responses, "params.inputResponses")?;
        }
        Ok(Self { input_responses, request_state: optional_string(state, "params.requestState")? })
    }

    /// Returns whether both members are absent: the request is not a retry.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.input_responses.is_none() && self.request_state.is_none()
    }
}

/// The params of `subscriptions/listen`.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionsListenRequestParams<'a> {
    /// Id of the request, which every notification on the stream carries as its subscription id.
    pub id: Id<'a>,
    /// The notifications that the client requests.
    pub filter: SubscriptionFilter<'a>,
}

/// Notification types of a subscription: those requested, or the subset that the server grants.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SubscriptionFilter<'a> {
    /// `notifications/tools/list_changed`
    pub tools_list_changed: bool,
    /// `notifications/prompts/list_changed`
    pub prompts_list_changed: bool,
    /// `notifications/resources/list_changed`
    pub resources_list_changed: bool,
    /// URIs of the resources for `notifications/resources/updated`.
    pub resource_subscriptions: Vec<&'a str>,
    /// Ids of the tasks for `notifications/tasks` (the Tasks extension).
    pub task_ids: Vec<&'a str>,
}

impl<'a> SubscriptionsListenRequestParams<'a> {
    /// Reads the params of the request with this `id`. Allocates only for non-empty lists.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `notifications` is missing or not an object, or a known member
    /// of it is duplicated or has the wrong type.
    ///
    /// MCP 2026-07-28 `basic/patterns/subscriptions`; `taskIds`: the Tasks extension.
    pub fn read(id: Id<'a>, params: Option<Value<'a>>) -> Result<Self, Error> {
        let [notifications] = require_params(params)?.find_unique(["notifications"])?;
        let [tools, prompts, resources, uris, task_ids] =
            require_object(notifications, "params.notifications")?.find_unique([
                "toolsListChanged",
                "promptsListChanged",
                "resourcesListChanged",
                "resourceSubscriptions",
                "taskIds",
            ])?;
        let filter = SubscriptionFilter {
            tools_list_changed: optional_bool(tools, "params.notifications.toolsListChanged")?,
            prompts_list_changed: optional_bool(
                prompts,
                "params.notifications.promptsListChanged",
            )?,
            resources_list_changed: optional_bool(
                resources,
                "params.notifications.resourcesListChanged",
            )?,
            resource_subscriptions: optional_strings(
                uris,
                "params.notifications.resourceSubscriptions",
            )?,
            task_ids: optional_strings(task_ids, "params.notifications.taskIds")?,
        };
        Ok(Self { id, filter })
    }
}

/// Reads an optional boolean; absent is `false`.
fn optional_bool(value: Option<Value<'_>>, path: &'static str) -> Result<bool, Error> {
    let Some(value) = non_null(value) else { return Ok(false) };
    value.as_bool().ok_or_else(|| invalid_member(path, "true or false"))
}
