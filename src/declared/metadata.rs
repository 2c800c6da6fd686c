//! What each declaration says about itself: icons and annotations.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::declared::problem::Problem;
use crate::service::ToolAnnotations;
use corelane_protocol::model::{Icon, IconTheme};

/// The default of `enabled`.
pub const fn yes() -> bool {
    true
}

/// An icon of a declaration.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IconDeclaration {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// Media type, if it does not follow from `src`.
    #[serde(default)]
    pub mime_type: Option<String>,
    /// Sizes, such as `48x48` or `any`.
    #[serde(default)]
    pub sizes: Vec<String>,
    /// `light` or `dark`: the background that it is for.
    #[serde(default)]
    pub theme: Option<ThemeDeclaration>,
}

/// Background that an icon is for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThemeDeclaration {
    /// Light background.
    Light,
    /// Dark background.
    Dark,
}

impl IconDeclaration {
    /// The icon of MCP.
    ///
    /// # Errors
    ///
    /// `src` is no `https:` or `data:` URI.
    pub fn to_icon(&self) -> Result<Icon, Problem> {
        if !self.src.starts_with("https://") && !self.src.starts_with("data:") {
            let message = format!("{:?} is no https: or data: URI", self.src);
            return Err(Problem::new("icons", message, "clients load no others"));
        }
        let mut icon = Icon::new(self.src.clone());
        icon.mime_type = self.mime_type.clone().map(Into::into);
        icon.sizes = self.sizes.iter().cloned().map(Into::into).collect();
        icon.theme = self.theme.map(|theme| match theme {
            ThemeDeclaration::Light => IconTheme::Light,
            ThemeDeclaration::Dark => IconTheme::Dark,
        });
        Ok(icon)
    }
}

/// Hints about the effects of a tool, for the application of the client.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnnotationsDeclaration {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may destroy something.
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// The tool reaches beyond a closed domain, such as the web.
    pub open_world: Option<bool>,
}

impl AnnotationsDeclaration {
    /// The annotations of MCP.
    pub fn to_annotations(&self) -> ToolAnnotations {
        ToolAnnotations {
            read_only_hint: self.read_only,
            destructive_hint: self.destructive,
            idempotent_hint: self.idempotent,
            open_world_hint: self.open_world,
            ..ToolAnnotations::default()
        }
    }
}
