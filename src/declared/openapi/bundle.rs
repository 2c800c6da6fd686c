//! The definitions that a schema needs, as its `$defs`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::document::Document;
use super::schema::{Direction, References, SchemaConverter, SchemaPlace};

/// Definitions of one schema at most.
const DEFINITIONS_MAX: usize = 2000;
/// Bytes of the definitions of one schema at most.
const DEFINITIONS_BYTES_MAX: usize = 1 << 20;

/// The schemas of one document. Each definition is converted once.
#[derive(Debug)]
pub(super) struct Schemas<'a> {
    pub(super) converter: SchemaConverter<'a>,
    definitions: BTreeMap<DefinitionKey, Rc<Definition>>,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct DefinitionKey {
    direction: Direction,
    pointer: String,
}

#[derive(Debug)]
struct Definition {
    schema: Value,
    /// Bytes of the schema.
    bytes: usize,
    references: References,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(document: &'a Document) -> Self {
        Self { converter: SchemaConverter::new(document), definitions: BTreeMap::new() }
    }

    /// Converts a schema that is a part of another one, whose references are `references`.
    ///
    /// # Errors
    ///
    /// A reference has no target in the document.
    pub(super) fn convert_part(
        &mut self,
        schema: &Value,
        direction: Direction,
        references: &mut References,
    ) -> Result<Value, String> {
        self.converter.convert(schema, SchemaPlace::root(direction).part(), references)
    }

    /// Converts a schema with the definitions that it needs.
    ///
    /// # Errors
    ///
    /// A reference has no target in the document, or a definition is applied to the same value
    /// again and again.
    pub(super) fn convert_whole(
        &mut self,
        schema: &Value,
        direction: Direction,
    ) -> Result<Value, String> {
        let mut references = References::default();
        let place = SchemaPlace::root(direction);
        let document = self.converter.document;
        let is_reference = schema.as_object().is_some_and(|it| it.len() == 1);
        let schema = if is_reference { document.resolve(schema)? } else { schema };
        let converted = self.converter.convert(schema, place, &mut references)?;
        let Value::Object(mut members) = converted else {
            return Ok(converted);
        };
        // The outermost value is not `null`: clients of older revisions need the type `object`.
        if let Some(Value::Array(kinds)) = members.get("type")
            && let [kind, null] = kinds.as_slice()
            && null == "null"
        {
            members.insert("type".to_owned(), kind.clone());
        }
        self.add_definitions(&mut members, direction, &references)?;
        Ok(Value::Object(members))
    }

    /// Adds `$defs` with the definitions that `references` need.
    ///
    /// # Errors
    ///
    /// As [`Self::convert_whole`].
    pub(super) fn add_definitions(
        &mut self,
        schema: &mut Map<String, Value>,
        direction: Direction,
        references: &References,
    ) -> Result<(), String> {
        let mut found: BTreeMap<String, Rc<Definition>> = BTreeMap::new();
        let mut bytes = 0;
        let mut open: Vec<String> = references.all.iter().cloned().collect();
        while let Some(pointer) = open.pop() {
            if found.contains_key(&pointer) {
                continue;
            }
            if found.len() == DEFINITIONS_MAX {
                return Err(format!("its schema has more than {DEFINITIONS_MAX} definitions"));
            }
            let definition = self.definition(direction, &pointer)?;
            bytes += definition.bytes;
            if bytes > DEFINITIONS_BYTES_MAX {
                let limit = DEFINITIONS_BYTES_MAX;
                return Err(format!("its schema has definitions of more than {limit} bytes"));
            }
            open.extend(definition.references.all.iter().cloned());
            found.insert(pointer, definition);
        }
        let mut finished = BTreeSet::new();
        for pointer in found.keys() {
            check_in_place(&found, pointer, &mut Vec::new(), &mut finished)?;
        }
        if found.is_empty() {
            return Ok(());
        }
        let mut definitions = Map::new();
        for (pointer, definition) in &found {
            definitions.insert(self.converter.name(pointer), definition.schema.clone());
        }
        schema.insert("$defs".to_owned(), Value::Object(definitions));
        Ok(())
    }

    fn definition(
        &mut self,
        direction: Direction,
        pointer: &str,
    ) -> Result<Rc<Definition>, String> {
        let key = DefinitionKey { direction, pointer: pointer.to_owned() };
        if let Some(definition) = self.definitions.get(&key) {
            return Ok(Rc::clone(definition));
        }
        let missing = || format!("the document has nothing at {pointer:?}");
        let target = self.converter.document.root().pointer(pointer).ok_or_else(missing)?;
        let mut references = References::default();
        let schema =
            self.converter.convert(target, SchemaPlace::root(direction), &mut references)?;
        let definition =
            Rc::new(Definition { bytes: schema.to_string().len(), schema, references });
        self.definitions.insert(key, Rc::clone(&definition));
        Ok(definition)
    }
}

/// Checks that no definition applies itself to the same value: no value could be validated.
fn check_in_place<'a>(
    found: &'a BTreeMap<String, Rc<Definition>>,
    pointer: &'a str,
    path: &mut Vec<&'a str>,
    finished: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    if finished.contains(pointer) {
        return Ok(());
    }
    if path.contains(&pointer) {
        return Err(format!("the schema at {pointer:?} applies itself to the same value"));
    }
    path.push(pointer);
    if let Some(definition) = found.get(pointer) {
        for next in &definition.references.in_place {
            check_in_place(found, next, path, finished)?;
        }
    }
    path.pop();
    finished.insert(pointer);
    Ok(())
}
