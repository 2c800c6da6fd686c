//! Results of the server as types, read from JSON.
//!
//! Members that a type does not name are ignored, and those that a revision lacks are `None`.

mod content;
mod meta;
mod tool;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

pub(super) use self::content::ListResult;
pub use self::content::{
    CompleteResult, Completion, ContentBlock, GetPromptResult, PromptArgument, PromptInfo,
    PromptMessage, ReadResourceResult, ResourceContents, ResourceInfo, ResourceTemplateInfo,
};
pub use self::meta::MetaObject;
pub(super) use self::meta::MetaReader;
pub use self::tool::{
    CallToolResult, TaskInfo, TaskSupport, ToolAnnotations, ToolExecution, ToolInfo,
};
use corelane_protocol::json;

/// Reads `null` as an absent member: servers in Go and C# write it for an empty list, and for what
/// is not set.
fn null_as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads an integer from 0, which may be written as `2.0`.
fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let whole = || u64::try_from(json::whole_number(number.as_f64()?)?).ok();
    let integer = number.as_u64().or_else(whole);
    integer.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is no integer from 0")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{CompleteResult, GetPromptResult, PromptInfo, ResourceInfo};

    #[test]
    fn null_counts_as_absent_member() {
        let prompt = json!({ "name": "p", "arguments": [{ "name": "a", "required": null }] });
        let prompt: PromptInfo = serde_json::from_value(prompt).unwrap();
        assert!(!prompt.arguments[0].required);
        let prompt = json!({ "name": "p", "arguments": null });
        assert!(serde_json::from_value::<PromptInfo>(prompt).unwrap().arguments.is_empty());
        let messages = json!({ "messages": null });
        assert!(serde_json::from_value::<GetPromptResult>(messages).unwrap().messages.is_empty());
        assert!(serde_json::from_value::<GetPromptResult>(json!({})).is_err());
        let completion = json!({ "completion": { "values": null, "total": 3.0, "hasMore": null } });
        let completion = serde_json::from_value::<CompleteResult>(completion).unwrap().completion;
        assert_eq!((completion.values.len(), completion.total), (0, Some(3)));
    }

    #[test]
    fn whole_number_is_an_integer() {
        let size = |size: serde_json::Value| {
            let resource = json!({ "uri": "u", "name": "n", "size": size });
            serde_json::from_value::<ResourceInfo>(resource).map(|resource| resource.size)
        };
        assert_eq!(size(json!(2.0)).unwrap(), Some(2));
        assert_eq!(size(json!(u64::MAX)).unwrap(), Some(u64::MAX));
        assert_eq!(size(json!(null)).unwrap(), None);
        for other in [json!(2.5), json!(-1.0), json!(1e16), json!("2")] {
            assert!(size(other).is_err());
        }
    }
}
