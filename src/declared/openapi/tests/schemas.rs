//! Schemas of generated tools.

use serde_json::{Value, json};

use super::{check, generate, one_operation, one_tool, with_body};

/// The schema of the argument `v`, a property of the body with `schema`.
fn converted(version: &str, schema: &Value) -> Value {
    let body = json!({ "type": "object", "properties": { "v": schema } });
    one_tool(version, &with_body(&body), &json!({})).input_schema["properties"]["v"].clone()
}

#[test]
fn schemas_of_openapi_3_0_are_raised() {
    let cases = [
        [json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })],
        [
            json!({ "type": "string", "nullable": true, "enum": ["a"] }),
            json!({ "type": ["string", "null"], "enum": ["a", null] }),
        ],
        [
            json!({ "nullable": true, "allOf": [{ "type": "string" }], "description": "d" }),
            json!({
                "description": "d",
                "anyOf": [{ "allOf": [{ "type": "string" }] }, { "type": "null" }],
            }),
        ],
        [
            json!({ "type": "number", "minimum": 1, "exclusiveMinimum": true }),
            json!({ "type": "number", "exclusiveMinimum": 1 }),
        ],
        [
            json!({ "type": "number", "maximum": 1, "exclusiveMaximum": false }),
            json!({ "type": "number", "maximum": 1 }),
        ],
        [
            json!({ "type": "integer", "example": 5, "xml": {}, "x-y": 1, "discriminator": {} }),
            json!({ "type": "integer", "examples": [5] }),
        ],
    ];
    for [schema, expected] in cases {
        assert_eq!(converted("3.0.3", &schema), expected, "{schema}");
    }
}

#[test]
fn schemas_of_openapi_3_1_stay() {
    let cases = [
        json!({ "type": ["string", "null"], "const": "a", "examples": ["a"] }),
        json!({ "type": "number", "exclusiveMinimum": 1, "multipleOf": 0.5 }),
        json!({ "prefixItems": [{ "type": "string" }], "items": false }),
        json!({ "if": { "required": ["a"] }, "then": { "minProperties": 2 }, "else": true }),
        json!({ "patternProperties": { "^x-": { "type": "string" } }, "propertyNames": true }),
        json!({ "dependentRequired": { "a": ["b"] }, "unevaluatedProperties": false }),
    ];
    for schema in cases {
        assert_eq!(converted("3.1.0", &schema), schema);
    }
}

#[test]
fn invalid_keywords_are_left_out() {
    let wrong = json!({
        "type": "file", "required": true, "pattern": "(?<", "minLength": -1, "maxLength": "9",
        "enum": [], "items": [{}], "allOf": [], "multipleOf": 0, "properties": [], "minItems": 2.0,
        "description": ["x"], "format": 1, "patternProperties": { "(": {} }, "default": null,
    });
    assert_eq!(converted("3.0.0", &wrong), json!({ "minItems": 2 }));
    assert_eq!(
        converted("3.1.0", &json!({ "type": ["string", "x", "string"] })),
        json!({
            "type": ["string"]
        })
    );
    assert_eq!(converted("3.1.0", &json!(null)), json!({}));
}

#[test]
fn recursive_schema_has_definitions() {
    let node = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "$ref": "#/components/schemas/Name" },
            "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } },
        },
    });
    let schemas = json!({ "Node": node, "Name": { "type": "string", "minLength": 1 } });
    let body = json!({ "type": "object", "properties": {
        "tree": { "$ref": "#/components/schemas/Node" },
    }});
    let tool = one_tool("3.0.3", &with_body(&body), &schemas);
    assert_eq!(tool.input_schema["properties"]["tree"], json!({ "$ref": "#/$defs/Node" }));
    let definitions = tool.input_schema["$defs"].as_object().unwrap();
    assert_eq!(definitions.len(), 1);
    assert_eq!(definitions["Node"]["properties"]["name"], schemas["Name"]);
    let validator = jsonschema::draft202012::new(&tool.input_schema).unwrap();
    let tree = |name: &str| {
        json!({ "id": "1", "tree": {
            "name": "a", "children": [{ "name": "b", "children": [{ "name": name }] }],
        }})
    };
    assert!(validator.is_valid(&tree("c")));
    assert!(!validator.is_valid(&tree("")));
}

#[test]
fn schema_that_applies_itself_is_skipped() {
    let a = json!({ "allOf": [{ "$ref": "#/components/schemas/B" }, { "type": "object" }] });
    let b = json!({ "anyOf": [{ "$ref": "#/components/schemas/A" }, { "type": "object" }] });
    let loops = json!({ "$ref": "#/components/schemas/C" });
    let schemas = json!({ "A": a, "B": b, "C": loops });
    for name in ["A", "C"] {
        let body = json!({ "type": "object", "properties": {
            "v": { "$ref": format!("#/components/schemas/{name}") },
        }});
        let problems = generate("", &one_operation("3.1.0", &with_body(&body), &schemas));
        let problems = problems.map(|_| ()).unwrap_err();
        assert!(problems[0].message.contains("itself"), "{:?}", problems[0]);
    }
}

#[test]
fn body_properties_become_arguments() {
    let base = json!({
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": { "type": "string" },
            "secret": { "type": "string", "writeOnly": true },
            "created": { "type": "string", "readOnly": true },
        },
    });
    let body = json!({ "allOf": [
        { "$ref": "#/components/schemas/Base" },
        { "type": "object", "required": ["id", "created"], "properties": { "id": {}, "n": {} } },
    ]});
    let operation = json!({
        "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } },
            { "name": "id", "in": "query", "description": "Other.", "schema": {} },
            { "name": "filter[a]", "in": "query", "required": true, "schema": {} },
            { "name": "X-Trace", "in": "header", "schema": { "type": "string" } },
            { "name": "Authorization", "in": "header", "schema": {} },
        ],
        "requestBody": with_body(&body)["requestBody"],
    });
    let tool = one_tool("3.0.3", &operation, &json!({ "Base": base }));
    let schema = &tool.input_schema;
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "id_query", "filter_a", "X-Trace", "kind", "secret", "id_body", "n"]);
    assert_eq!(schema["required"], json!(["id", "filter_a", "kind", "id_body"]));
    assert_eq!(schema["properties"]["id_query"], json!({ "description": "Other." }));
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn body_with_alternatives_is_one_argument() {
    let body = json!({ "oneOf": [{ "type": "string" }, { "type": "object" }] });
    let tool = one_tool("3.1.0", &with_body(&body), &json!({}));
    let argument = &tool.input_schema["properties"]["body"];
    assert_eq!(argument["oneOf"], body["oneOf"]);
    assert_eq!(argument["description"], "Body of the request.");
    assert_eq!(tool.input_schema["required"], json!(["id", "body"]));
}

#[test]
fn output_schema_is_that_of_all_successes() {
    let response =
        |schema: Value| json!({ "content": { "application/json": { "schema": schema } } });
    let item = json!({ "type": "object", "properties": {
        "password": { "writeOnly": true }, "id": { "readOnly": true, "type": "integer" },
    }});
    let schemas = json!({ "Item": item });
    let schema = json!({ "$ref": "#/components/schemas/Item" });
    let output = |responses: Value| {
        one_tool("3.0.3", &json!({ "responses": responses }), &schemas).output_schema
    };
    let id = json!({ "type": ["integer", "null"] });
    let expected = json!({ "type": "object", "properties": { "id": id } });
    let found = output(json!({ "201": response(schema.clone()), "404": response(json!({})) }));
    assert_eq!(found, Some(expected.clone()));
    let same = json!({ "200": response(schema.clone()), "202": response(schema.clone()) });
    assert_eq!(output(same), Some(expected));
    let empty = json!({ "200": response(schema.clone()), "204": { "description": "" } });
    assert_eq!(output(empty), None);
    let other = json!({ "200": response(schema), "202": response(json!({ "type": "string" })) });
    assert_eq!(output(other), None);
    assert_eq!(output(json!({ "default": response(json!({ "type": "string" })) })), None);
    let text = json!({ "200": { "content": { "text/plain": { "schema": {} } } } });
    assert_eq!(output(text), None);
}

#[test]
fn output_schema_allows_what_servers_send() {
    let item = json!({
        "type": "object",
        "required": ["a", "b"],
        "additionalProperties": false,
        "properties": {
            "a": { "type": "string", "enum": ["x", "y"], "maxLength": 1, "pattern": "^[xy]$" },
            "b": { "oneOf": [{ "type": "string" }, { "$ref": "#/components/schemas/Item" }] },
            "c": { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 1 },
        },
    });
    let content =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Item" } } });
    let operation = json!({ "responses": { "200": { "content": content } } });
    let schema = one_tool("3.1.0", &operation, &json!({ "Item": item })).output_schema.unwrap();
    assert_eq!(
        schema["properties"]["a"],
        json!({
            "type": ["string", "null"], "examples": ["x", "y"],
        })
    );
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for valid in [
        json!({}),
        json!({ "a": "zz", "b": null, "d": 1 }),
        json!({ "b": { "a": null, "c": [0, null] }, "c": [] }),
    ] {
        assert!(validator.is_valid(&valid), "{valid}");
    }
    for invalid in [json!([]), json!({ "a": 1 }), json!({ "b": { "c": ["x"] } })] {
        assert!(!validator.is_valid(&invalid), "{invalid}");
    }
}

#[test]
fn defaults_of_arguments_are_described() {
    let body = json!({ "type": "object", "properties": {
        "private": { "type": "boolean", "description": "Hidden.", "default": false },
        "kind": { "$ref": "#/components/schemas/Kind" },
        "more": { "type": "object", "properties": { "n": { "default": 1 } } },
    }});
    let schemas = json!({ "Kind": { "type": "string", "default": "a" } });
    let tool = one_tool("3.1.0", &with_body(&body), &schemas);
    let properties = &tool.input_schema["properties"];
    let private = "Hidden.\nDefault of the server: false";
    assert_eq!(properties["private"], json!({ "type": "boolean", "description": private }));
    assert_eq!(properties["kind"]["description"], "Default of the server: \"a\"");
    assert_eq!(properties["more"]["properties"]["n"]["default"], 1);
}

#[test]
fn names_and_hints_come_from_operations() {
    let document = json!({
        "openapi": "3.1.0",
        "servers": [{ "url": "https://a.example" }],
        "paths": { "/items/{id}": {
            "get": { "operationId": "items/get", "summary": "Get", "description": "Gets." },
            "put": { "operationId": "items.get", "deprecated": true, "summary": "Replace" },
            "post": { "summary": " " },
            "delete": {},
            "trace": {},
        }},
    });
    let generated = generate("prefix = \"shop_\"", &document).unwrap();
    generated.tools.iter().for_each(check);
    let names: Vec<&str> = generated.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names[0], "shop_items_get");
    assert!(names[1].starts_with("shop_items_get_"), "{}", names[1]);
    assert_eq!(names[2..], ["shop_post_items_id", "shop_delete_items_id"]);
    let [get, put, post, delete] = generated.tools.as_slice() else { panic!("{names:?}") };
    assert_eq!(get.title.as_deref(), Some("Get"));
    assert_eq!(get.description.as_deref(), Some("Gets."));
    assert_eq!(put.description.as_deref(), Some("Deprecated. Replace"));
    assert_eq!(post.title, None);
    let hints = [get, put, post, delete]
        .map(|tool| [tool.hints.is_read_only, tool.hints.is_destructive, tool.hints.is_idempotent]);
    let expected =
        [[true, false, true], [false, true, true], [false, false, false], [false, true, true]];
    assert_eq!(hints, expected);
    assert_eq!(generated.skipped[0].place, "TRACE /items/{id}");
}
