//! Content of tool results, prompts and resources.
//!
//! | module | contents |
//! | --- | --- |
//! | `icon` | `Icon` |
//! | `annotations` | `Annotations`, `Role` |
//! | `resource` | contents of resources, resource links |
//! | `block` | content blocks |

mod icon;

mod annotations;

mod resource;

mod block;

pub use annotations::{Annotations, Role};
pub(super) use block::{
    BinaryContent, write_binary, write_embedded_resource, write_resource_link, write_text,
};
pub use block::{Content, ContentBlock};
pub use icon::{Icon, IconTheme};
pub use resource::{MetaObject, ResourceBody, ResourceContents, ResourceLink};
