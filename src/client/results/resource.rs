//! Resources and their contents.

use serde::Deserialize;

use super::content::ResourceContents;
use super::{MetaObject, null_as_default, whole_number};

/// A resource of the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceInfo {
    /// URI for [`Client::read_resource`](crate::Client::read_resource).
    pub uri: String,
    /// Its name.
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
    /// `_meta`.
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
    /// Its name.
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
