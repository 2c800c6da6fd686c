//! Content: what tools, prompts and resources give, and what is said about it.
//!
//! | child | what stands there |
//! | --- | --- |
//! | `icon` | pictures that stand for something |
//! | `annotations` | for whom content is, and how important |
//! | `resource` | what a resource holds, and links to one |
//! | `block` | the blocks that results and messages are made of |

mod icon;

mod annotations;

mod resource;

mod block;

pub use annotations::{ContentAnnotations, Role};
pub(in crate::protocol::message) use block::{
    Binary, write_binary, write_embedded, write_link, write_text,
};
pub use block::{Block, Content};
pub use icon::{Icon, Theme};
pub use resource::{Body, MetaMembers, ResourceContent, ResourceLink};
