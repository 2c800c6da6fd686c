//! The table of revisions, row by row against the official schemas, where `MCP_SCHEMA_DIR` names
//! their folder.

use corelane::protocol::revision::{Dialect, Revision};
use serde_json::Value;
use std::path::Path;

/// Reads columns of the table out of one schema.
struct Schema(Value);

impl Schema {
    fn definition(&self, name: &str) -> Option<&Value> {
        self.0.get("$defs").or_else(|| self.0.get("definitions"))?.get(name)
    }

    fn property(&self, definition: &str, property: &str) -> Option<&Value> {
        let definition = self.definition(definition)?;
        // Until 2025-06-18 the params of a notification stand inside it.
        let inside = definition.pointer("/properties/params").unwrap_or(definition);
        inside.get("properties").or_else(|| definition.get("properties"))?.get(property)
    }

    fn has(&self, definition: &str, property: &str) -> bool {
        self.property(definition, property).is_some()
    }

    /// The row as this schema would write it.
    fn row(&self, ours: &Dialect) -> Dialect {
        let structured = self.property("CallToolResult", "structuredContent");
        let progress = ["ProgressNotificationParams", "ProgressNotification"];
        Dialect {
            name: ours.name,
            batches: self.definition("JSONRPCBatchRequest").is_some(),
            tool_annotations: self.has("Tool", "annotations"),
            audio: self.definition("AudioContent").is_some(),
            progress_message: progress.iter().any(|name| self.has(name, "message")),
            titles: self.has("Tool", "title") && self.has("Implementation", "title"),
            structured_content: structured.is_some() && self.has("Tool", "outputSchema"),
            structured_any: structured.is_some_and(|content| content.get("type").is_none()),
            resource_link: self.definition("ResourceLink").is_some(),
            meta_on_types: self.has("Tool", "_meta"),
            icons: self.has("Tool", "icons") && self.has("Implementation", "icons"),
            implementation_details: self.has("Implementation", "websiteUrl"),
            // Said in prose only: basic/index and server/tools of 2025-11-25.
            arguments_fail_in_band: ours.arguments_fail_in_band,
            error_id_null: self.definition("JSONRPCErrorResponse").is_none(),
            result_type: self.has("Result", "resultType"),
            cache_hints: self.has("ListToolsResult", "ttlMs"),
        }
    }
}

#[test]
fn every_row_says_what_the_schema_of_its_revision_says() {
    #[expect(clippy::disallowed_methods, reason = "tests find the schemas by the environment")]
    let Ok(folder) = std::env::var("MCP_SCHEMA_DIR") else { return };
    for revision in Revision::ALL {
        let path = Path::new(&folder).join(revision.as_str()).join("schema.json");
        let text = std::fs::read_to_string(&path).expect("the folder has every revision");
        let schema = Schema(serde_json::from_str(&text).expect("a schema is JSON"));
        assert_eq!(schema.row(revision.dialect()), *revision.dialect());
    }
}
