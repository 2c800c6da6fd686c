//! What a server offers of its declarations, and how a reload changes it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::declared::entry::{Entry, Fingerprint, Item, Key};
use crate::service::{
    Catalog, CatalogBuilder, CatalogError, Prompt, Resource, ResourceTemplate, Skill, Tool,
};

/// What a server offers of the declarations.
#[derive(Debug, Default)]
pub struct Offered {
    entries: BTreeMap<Key, Fingerprint>,
}

/// Entries that a reload adds, replaces and removes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ChangeCounts {
    /// New ones.
    pub added: usize,
    /// Those with another definition.
    pub replaced: usize,
    /// Those that are gone.
    pub removed: usize,
}

/// Entries to add or to replace, by their lists.
#[derive(Debug, Default)]
struct Lists {
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
    skills: Vec<Skill>,
}

impl Lists {
    fn push(&mut self, item: Item) {
        match item {
            Item::Tool(tool) => self.tools.push(*tool),
            Item::Resource(resource) => self.resources.push(resource),
            Item::Template(template) => self.templates.push(template),
            Item::Prompt(prompt) => self.prompts.push(prompt),
            Item::Skill(skill) => self.skills.push(skill),
        }
    }

    fn add_to(self, builder: CatalogBuilder) -> CatalogBuilder {
        let builder = builder.tools(self.tools).resources(self.resources);
        builder.templates(self.templates).prompts(self.prompts).skills(self.skills)
    }

    /// Leaves out what would replace an entry of `builder` whose key is not in `own`.
    fn keep_others(&mut self, builder: &CatalogBuilder, own: &BTreeSet<Key>) {
        let is_own = |kind, name: &str| own.contains(&Key { kind, name: name.to_owned() });
        self.tools.retain(|it| !builder.has_tool(it.name()) || is_own("tool", it.name()));
        self.prompts.retain(|it| !builder.has_prompt(it.name()) || is_own("prompt", it.name()));
        self.resources.retain(|it| !builder.has_resource(it.uri()) || is_own("resource", it.uri()));
        self.templates.retain(|it| {
            let uri = it.uri_template();
            !builder.has_template(uri) || is_own("resource template", uri)
        });
    }

    /// Replaces the entries with the same keys, and adds the others.
    fn replace_in(self, builder: CatalogBuilder) -> CatalogBuilder {
        let builder = builder.replace_tools(self.tools).replace_resources(self.resources);
        let builder = builder.replace_templates(self.templates).replace_prompts(self.prompts);
        builder.replace_skills(self.skills)
    }
}

impl Offered {
    /// Adds everything to a catalog.
    ///
    /// # Errors
    ///
    /// An entry is invalid or has the key of another one.
    pub fn first(entries: Vec<Entry>, catalog: &Catalog) -> Result<(Self, Catalog), CatalogError> {
        let (mut offered, mut lists) = (Self::default(), Lists::default());
        for entry in entries {
            offered.entries.insert(entry.key(), entry.fingerprint);
            lists.push(entry.item);
        }
        Ok((offered, lists.add_to(catalog.to_builder()).build()?))
    }

    /// The change from what is offered to `entries`.
    pub fn update(&self, entries: Vec<Entry>) -> OfferUpdate {
        let (mut next, mut lists) = (Self::default(), Lists::default());
        let (mut counts, mut replaced_resources) = (ChangeCounts::default(), Vec::new());
        for entry in entries {
            let key = entry.key();
            let known = self.entries.get(&key);
            if known != Some(&entry.fingerprint) {
                let count = if known.is_some() { &mut counts.replaced } else { &mut counts.added };
                *count += 1;
                if known.is_some() && matches!(entry.item, Item::Resource(_)) {
                    replaced_resources.push(key.name.clone());
                }
                lists.push(entry.item);
            }
            next.entries.insert(key, entry.fingerprint);
        }
        let gone = self.entries.keys().filter(|key| !next.entries.contains_key(*key));
        let gone: BTreeSet<Key> = gone.cloned().collect();
        counts.removed = gone.len();
        OfferUpdate { counts, replaced_resources, next, lists, gone, own: None }
    }
}

/// A change of the catalog that was not made yet.
#[derive(Debug)]
pub struct OfferUpdate {
    /// What changes.
    pub counts: ChangeCounts,
    /// URIs of the resources with another definition or another file.
    pub replaced_resources: Vec<String>,
    next: Offered,
    lists: Lists,
    gone: BTreeSet<Key>,
    /// What may be replaced, if not everything.
    own: Option<BTreeSet<Key>>,
}

impl OfferUpdate {
    /// Replaces no entries of the catalog but those of `offered`: one that was added with the key
    /// of a new entry stays.
    #[cfg(feature = "gateway")]
    pub fn keeping_others(self, offered: &Offered) -> Self {
        Self { own: Some(offered.entries.keys().cloned().collect()), ..self }
    }

    /// What is offered after the change, and the change.
    pub fn into_parts(
        self,
    ) -> (Offered, impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send + 'static) {
        let Self { next, mut lists, gone, own, .. } = self;
        let edit = move |builder: CatalogBuilder| {
            if let Some(own) = own {
                lists.keep_others(&builder, &own);
            }
            let names = |kind: &str| -> HashSet<String> {
                gone.iter().filter(|key| key.kind == kind).map(|key| key.name.clone()).collect()
            };
            let builder = builder.remove_tools(&names("tool"));
            let builder = builder.remove_resources(&names("resource"));
            let builder = builder.remove_templates(&names("resource template"));
            let builder = builder.remove_skills(&names("skill"));
            lists.replace_in(builder.remove_prompts(&names("prompt")))
        };
        (next, edit)
    }
}

#[cfg(test)]
mod tests {
    use corelane_protocol::model::Implementation;

    use super::*;

    const URI: &str = "docs://{page}";

    fn template(name: &str) -> ResourceTemplate {
        ResourceTemplate::new(URI, name).inline(|_, _, _| Ok(()))
    }

    #[test]
    fn template_of_the_server_is_kept() {
        let builder = || Catalog::builder(Implementation::new("offered", "1"));
        let catalog = builder().template(template("own")).build().unwrap();
        let entry = || Entry {
            fingerprint: [1; 32],
            rate_rule: None,
            runner: None,
            item: Item::Template(template("other")),
        };
        let offered = Offered::default();
        let name_after = |update: OfferUpdate| {
            let (_, edit) = update.into_parts();
            let changed = edit(catalog.to_builder()).build().unwrap();
            changed.templates().map(|it| it.name().to_owned()).collect::<Vec<_>>()
        };
        let update = || offered.update(vec![entry()]);
        assert_eq!(name_after(update().keeping_others(&offered)), ["own"]);
        assert_eq!(name_after(update()), ["other"]);
    }
}
