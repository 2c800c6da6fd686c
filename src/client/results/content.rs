//! Content blocks, and the contents of resources.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Content of a tool result or a prompt message.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64 of its bytes.
        data: String,
        /// MIME type, such as `image/png`.
        mime_type: String,
    },
    /// Audio.
    #[serde(rename_all = "camelCase")]
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
        /// Its name.
        name: String,
        /// Its other members.
        #[serde(flatten)]
        details: Map<String, Value>,
    },
    /// An embedded resource.
    Resource {
        /// Its contents.
        resource: ResourceContents,
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
