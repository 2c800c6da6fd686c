//! Content blocks, resources and their contents, pages of lists, prompts and completions.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{MetaObject, null_as_default, whole_number};

/// Content of a tool result or a prompt message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Base64 of its bytes.
        data: String,
        /// MIME type, such as `image/png`.
        mime_type: String,
    },
    /// Audio.
    Audio {
        /// Base64 of its bytes.
        data: String,
        /// MIME type, such as `audio/wav`.
        mime_type: String,
    },
    /// A link to a resource.
    ResourceLink {
        /// URI of the resource.
        uri: String,
        /// The name of the resource, for programs.
        name: String,
        /// Its other members.
        details: Map<String, Value>,
    },
    /// An embedded resource.
    Resource {
        /// Its contents.
        resource: ResourceContents,
    },
    /// A block of a type that this library does not know.
    Other {
        /// Its type.
        kind: String,
        /// Its other members.
        details: Map<String, Value>,
    },
}

impl ContentBlock {
    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// The member `type` of a block.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Kind {
    Text,
    Image,
    Audio,
    ResourceLink,
    Resource,
    Other(String),
}

/// The name of a member of a block.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    Type,
    Text,
    Data,
    MimeType,
    Uri,
    Name,
    Resource,
    Other(String),
}

/// The members of a block, in any order.
#[derive(Default)]
struct Members {
    kind: Option<Kind>,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    resource: Option<ResourceContents>,
    details: Map<String, Value>,
}

impl Members {
    /// Returns whether the block keeps the members that this library does not know.
    const fn keeps_details(&self) -> bool {
        matches!(self.kind, None | Some(Kind::ResourceLink | Kind::Other(_)))
    }

    fn into_block(self) -> Result<ContentBlock, &'static str> {
        let Self { kind, text, data, mime_type, uri, name, resource, mut details } = self;
        Ok(match kind.ok_or("type")? {
            Kind::Text => ContentBlock::Text { text: text.ok_or("text")? },
            Kind::Image => {
                let (data, mime_type) = (data.ok_or("data")?, mime_type.ok_or("mimeType")?);
                ContentBlock::Image { data, mime_type }
            }
            Kind::Audio => {
                let (data, mime_type) = (data.ok_or("data")?, mime_type.ok_or("mimeType")?);
                ContentBlock::Audio { data, mime_type }
            }
            Kind::Resource => ContentBlock::Resource { resource: resource.ok_or("resource")? },
            Kind::ResourceLink => {
                details.extend(mime_type.map(|value| ("mimeType".to_owned(), value.into())));
                let (uri, name) = (uri.ok_or("uri")?, name.ok_or("name")?);
                ContentBlock::ResourceLink { uri, name, details }
            }
            Kind::Other(kind) => {
                let texts = [("text", text), ("data", data), ("mimeType", mime_type)];
                let texts = texts.into_iter().chain([("uri", uri), ("name", name)]);
                details.extend(texts.filter_map(|(key, value)| Some((key.into(), value?.into()))));
                ContentBlock::Other { kind, details }
            }
        })
    }
}

// A derived implementation of a tagged enum would copy every block before it is read.
impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlockVisitor;
        impl<'de> Visitor<'de> for BlockVisitor {
            type Value = ContentBlock;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a content block")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ContentBlock, A::Error> {
                let mut members = Members::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::Type => members.kind = Some(map.next_value()?),
                        Key::Text => members.text = Some(map.next_value()?),
                        Key::Data => members.data = Some(map.next_value()?),
                        Key::MimeType => members.mime_type = map.next_value()?,
                        Key::Uri => members.uri = Some(map.next_value()?),
                        Key::Name => members.name = Some(map.next_value()?),
                        Key::Resource => members.resource = Some(map.next_value()?),
                        Key::Other(key) if members.keeps_details() => {
                            members.details.insert(key, map.next_value()?);
                        }
                        Key::Other(_) => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                members.into_block().map_err(A::Error::missing_field)
            }
        }
        deserializer.deserialize_map(BlockVisitor)
    }
}

/// Contents of a resource or of a part of it: text, or bytes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// URI of the resource or part.
    pub uri: String,
    /// MIME type.
    pub mime_type: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// Base64 of its bytes.
    pub blob: Option<String>,
}

/// A message of a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct PromptMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// The content.
    pub content: ContentBlock,
}

/// A resource of the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceInfo {
    /// URI for [`Client::read_resource`](crate::Client::read_resource).
    pub uri: String,
    /// Its name, for programs.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// What it holds.
    pub description: Option<String>,
    /// MIME type.
    pub mime_type: Option<String>,
    /// Its size in bytes.
    #[serde(default, deserialize_with = "whole_number")]
    pub size: Option<u64>,
    /// The members of `_meta`, if there are any.
    #[serde(rename = "_meta")]
    pub meta: Option<MetaObject>,
}

/// A template of URIs of resources.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplateInfo {
    /// The template (RFC 6570).
    pub uri_template: String,
    /// Its name, for programs.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// What the resources hold.
    pub description: Option<String>,
    /// MIME type of the resources, if all have the same.
    pub mime_type: Option<String>,
}

/// The contents of a resource.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// One item for the resource, or one for each of its parts.
    #[serde(deserialize_with = "null_as_default")]
    pub contents: Vec<ResourceContents>,
}

/// One page of a list.
#[derive(Debug)]
pub struct ListResult<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

impl<T: DeserializeOwned> ListResult<T> {
    /// Reads a page whose items are in the member `key`.
    pub fn read(mut result: Map<String, Value>, key: &str) -> Result<Self, serde_json::Error> {
        let items = match result.remove(key) {
            // Go encodes an empty list so.
            Some(Value::Null) => Vec::new(),
            items => serde_json::from_value(items.unwrap_or_default())?,
        };
        let next_cursor = result.remove("nextCursor").unwrap_or_default();
        Ok(Self { items, next_cursor: serde_json::from_value(next_cursor)? })
    }
}

/// A prompt of the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct PromptInfo {
    /// Name for [`Client::get_prompt`](crate::Client::get_prompt).
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Its arguments.
    #[serde(default, deserialize_with = "null_as_default")]
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default, deserialize_with = "null_as_default")]
    pub required: bool,
}

/// The messages of a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What the prompt is for.
    pub description: Option<String>,
    /// The messages.
    #[serde(deserialize_with = "null_as_default")]
    pub messages: Vec<PromptMessage>,
}

/// The result of `completion/complete`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct CompleteResult {
    /// The completion.
    pub completion: Completion,
}

/// Values that complete an argument.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most 100 values.
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
    /// How many there are in all.
    #[serde(default, deserialize_with = "whole_number")]
    pub total: Option<u64>,
    /// Whether there are more.
    #[serde(default, deserialize_with = "null_as_default")]
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(block: &Value) -> Result<ContentBlock, serde_json::Error> {
        serde_json::from_str(&block.to_string())
    }

    #[test]
    fn content_block_members_have_any_order() {
        let text = || ContentBlock::Text { text: "a".into() };
        for block in [
            json!({ "type": "text", "text": "a", "annotations": { "priority": 1 } }),
            json!({ "_meta": {}, "text": "a", "type": "text" }),
        ] {
            assert_eq!(serde_json::from_value::<ContentBlock>(block.clone()).unwrap(), text());
            assert_eq!(read(&block).unwrap(), text());
        }
        let link = json!({ "mimeType": "a/b", "uri": "u", "name": "n", "type": "resource_link" });
        let details = json!({ "mimeType": "a/b" });
        let Value::Object(details) = details else { panic!("an object") };
        let expected = ContentBlock::ResourceLink { uri: "u".into(), name: "n".into(), details };
        assert_eq!(read(&link).unwrap(), expected);
    }

    #[test]
    fn content_block_of_unknown_type_is_kept() {
        let video = json!({ "type": "video", "data": "AA==", "frames": 2 });
        let expected = json!({ "data": "AA==", "frames": 2 });
        let ContentBlock::Other { kind, details } = read(&video).unwrap() else { panic!("known") };
        assert_eq!((&*kind, Value::from(details)), ("video", expected));
    }

    #[test]
    fn content_block_without_its_member_is_invalid() {
        for (block, missing) in [
            (json!({ "type": "text" }), "text"),
            (json!({ "text": "a" }), "type"),
            (json!({ "type": "image", "data": "" }), "mimeType"),
            (json!({ "type": "resource" }), "resource"),
            (json!({ "type": "resource_link", "uri": "u" }), "name"),
        ] {
            let error = read(&block).unwrap_err().to_string();
            assert!(error.contains(&format!("missing field `{missing}`")), "{error}");
        }
        assert!(read(&json!(["text"])).is_err());
    }
}
