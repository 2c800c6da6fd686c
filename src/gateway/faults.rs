//! What is wrong with upstreams beyond their declarations.

use std::collections::HashSet;

use crate::gateway::lists::Lists;
use crate::gateway::manifest;
use crate::gateway::settings::UpstreamSettings;

/// Returns what is wrong with the upstreams beyond their declarations, a fault on a line: two with
/// one name, invalid manifests.
pub fn find_faults(upstreams: &[UpstreamSettings]) -> Option<String> {
    let manifests = upstreams.iter().filter_map(|it| read_manifest(it).err());
    let faults: Vec<String> = find_equal_names(upstreams).into_iter().chain(manifests).collect();
    (!faults.is_empty()).then(|| faults.join("\n"))
}

/// Returns what is wrong if two upstreams have one name.
pub fn find_equal_names(upstreams: &[UpstreamSettings]) -> Option<String> {
    let mut names = HashSet::new();
    let twice = upstreams.iter().find(|it| !names.insert(&it.name))?;
    Some(format!("two upstreams are called `{}`; rename one", twice.name))
}

/// Reads the manifest of an upstream, if it has one.
///
/// # Errors
///
/// It is invalid.
pub fn read_manifest(settings: &UpstreamSettings) -> Result<Option<Lists>, String> {
    let lists = settings.manifest.as_deref().map(manifest::read).transpose();
    lists.map_err(|error| format!("upstream `{}`: {error}", settings.name))
}
