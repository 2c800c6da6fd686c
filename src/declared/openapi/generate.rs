//! All operations of a document as tools.

use reqwest::Method;
use serde_json::Value;

use super::bundle::Schemas;
use super::declaration::{OpenApiDeclaration, OperationFilter};
use super::document::Document;
use super::filter::OperationTraits;
use super::names::ToolNames;
use super::operation::{ConvertedOperation, Operation, OperationContext, convert_operation};
use super::security::Credentials;
use super::servers::server_of;
use crate::declared::http::{
    CompiledHeaders, HttpClient, HttpTool, ResultFormat, ToolSettings, compile_headers,
};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;

/// Characters of a prefix at most.
const PREFIX_MAX: usize = 32;

/// Bytes of an input schema at most.
const INPUT_SCHEMA_BYTES_MAX: usize = 1 << 20;
/// Bytes of all schemas of a document at most.
const SCHEMA_BYTES_MAX: usize = 128 << 20;

/// Fields of a path that are operations.
const METHODS: [&str; 9] =
    ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// The tools of a document.
#[derive(Default)]
pub struct GeneratedTools {
    /// Its tools, in the order of the document.
    pub tools: Vec<GeneratedTool>,
    /// The operations that are not tools, with the reasons.
    pub skipped: Vec<SkippedOperation>,
    /// Number of operations that the declaration leaves out.
    pub excluded: usize,
}

/// A tool of an operation.
pub struct GeneratedTool {
    /// Name of at most 64 characters.
    pub name: String,
    /// Method and path, such as `GET /items/{id}`.
    pub place: String,
    /// Title.
    pub title: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Schema of the arguments.
    pub input_schema: Value,
    /// Schema of the results.
    pub output_schema: Option<Value>,
    /// What the method says about the tool.
    pub hints: ToolHints,
    /// The request.
    pub tool: HttpTool,
}

/// What the method of an operation says about it, as annotations of the tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ToolHints {
    /// `readOnlyHint`.
    pub is_read_only: bool,
    /// `destructiveHint`.
    pub is_destructive: bool,
    /// `idempotentHint`.
    pub is_idempotent: bool,
}

impl ToolHints {
    /// The hints of a method. `POST` is taken for an addition.
    fn new(method: &Method) -> Self {
        let is_read_only = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        Self {
            is_read_only,
            is_destructive: matches!(*method, Method::PUT | Method::PATCH | Method::DELETE),
            is_idempotent: is_read_only || matches!(*method, Method::PUT | Method::DELETE),
        }
    }
}

/// An operation that is not a tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedOperation {
    /// Method and path, such as `GET /items/{id}`.
    pub place: String,
    /// Why, as a part of a sentence that follows the place.
    pub reason: String,
}

/// Makes tools of the operations of a document.
///
/// # Errors
///
/// All problems of the declaration and of the document as a whole.
pub fn generate_tools(
    declaration: &OpenApiDeclaration,
    document: &[u8],
    client: &mut HttpClient,
    limits: CallLimits,
) -> Result<GeneratedTools, Vec<Problem>> {
    let document = Document::parse(document).map_err(|problem| vec![problem])?;
    let mut problems = check_filters(declaration);
    let credentials = Credentials::new(declaration, &document);
    let credentials = credentials.map_err(|found| problems.extend(found)).ok();
    let headers = compile_headers(&declaration.headers);
    let headers = headers.map_err(|found| problems.extend(found)).ok();
    problems.extend(headers.iter().flat_map(CompiledHeaders::check_names));
    let settings = declaration.settings(limits).map_err(|problem| problems.push(problem)).ok();
    let (Some(credentials), Some(headers), Some(settings), true) =
        (credentials, headers, settings, problems.is_empty())
    else {
        return Err(problems);
    };
    let context = OperationContext {
        credentials: &credentials,
        headers: &headers,
        has_output_schemas: declaration.output_schemas.unwrap_or(true),
    };
    let mut generator = Generator {
        declaration,
        settings,
        client,
        context,
        schemas: Schemas::new(&document),
        names: ToolNames::default(),
        used_filters: vec![false; declaration.include.len() + declaration.exclude.len()],
        schema_bytes: 0,
        generated: GeneratedTools::default(),
    };
    generator.add_all(&document);
    generator.finish()
}

fn check_filters(declaration: &OpenApiDeclaration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lists = [("include", &declaration.include), ("exclude", &declaration.exclude)];
    for (key, filters) in lists {
        for (index, _) in filters.iter().enumerate().filter(|(_, filter)| !filter.has_key()) {
            let hint = "write tag, path, method or operation";
            problems.push(Problem::new(format!("{key}.{index}"), "has no key", hint));
        }
    }
    let prefix = &declaration.prefix;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if prefix.len() > PREFIX_MAX || !prefix.bytes().all(is_part) {
        let hint = format!("write at most {PREFIX_MAX} of A-Z, a-z, 0-9, `_`, `-` and `.`");
        problems.push(Problem::new("prefix", format!("is {prefix:?}"), hint));
    }
    problems
}

/// Adds the operations of a document one after the other.
struct Generator<'a> {
    declaration: &'a OpenApiDeclaration,
    settings: ToolSettings,
    client: &'a mut HttpClient,
    context: OperationContext<'a>,
    schemas: Schemas<'a>,
    names: ToolNames,
    /// Whether each filter applied to an operation, those of `include` first.
    used_filters: Vec<bool>,
    /// Bytes of the schemas until here.
    schema_bytes: usize,
    generated: GeneratedTools,
}

impl Generator<'_> {
    fn add_all(&mut self, document: &Document) {
        let root = document.root();
        for (path, path_item) in root["paths"].as_object().into_iter().flatten() {
            if path.starts_with("x-") {
                continue;
            }
            let path_item = match document.resolve(path_item) {
                Ok(path_item) => path_item,
                Err(reason) => {
                    self.skip(path.clone(), reason);
                    continue;
                }
            };
            for field in METHODS {
                if let Some(value) = path_item.get(field) {
                    let name = field.to_ascii_uppercase();
                    let method = Method::from_bytes(name.as_bytes()).unwrap_or_default();
                    self.add(Operation { method: &method, path, path_item, value, root });
                }
            }
        }
    }

    fn add(&mut self, operation: Operation<'_>) {
        if !self.is_included(operation) {
            self.generated.excluded += 1;
            return;
        }
        let place = format!("{} {}", operation.method, operation.path);
        match self.convert(operation, &place) {
            Ok(tool) => self.generated.tools.push(tool),
            Err(reason) => self.skip(place, reason),
        }
    }

    fn skip(&mut self, place: String, reason: String) {
        self.generated.skipped.push(SkippedOperation { place, reason });
    }

    fn is_included(&mut self, operation: Operation<'_>) -> bool {
        let tags = operation.value["tags"].as_array().into_iter().flatten();
        let tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
        let traits = OperationTraits {
            path: operation.path,
            method: operation.method.as_str(),
            operation_id: operation.value["operationId"].as_str(),
            tags: &tags,
        };
        let OpenApiDeclaration { include, exclude, read_only, .. } = self.declaration;
        let mut apply = |filters: &[OperationFilter], offset: usize| {
            let mut applies = false;
            for (index, filter) in filters.iter().enumerate() {
                let one = filter.applies(&traits);
                self.used_filters[offset + index] |= one;
                applies |= one;
            }
            applies
        };
        let is_included = apply(include, 0) || include.is_empty();
        let is_excluded = apply(exclude, include.len());
        let changes = !matches!(*operation.method, Method::GET | Method::HEAD);
        is_included && !is_excluded && !(*read_only && changes)
    }

    fn convert(&mut self, operation: Operation<'_>, place: &str) -> Result<GeneratedTool, String> {
        if self.schema_bytes > SCHEMA_BYTES_MAX {
            return Err(format!("the schemas before it have more than {SCHEMA_BYTES_MAX} bytes"));
        }
        if matches!(operation.method.as_str(), "TRACE" | "QUERY") {
            return Err(format!("has the method {}, which is not supported", operation.method));
        }
        let owners = [operation.value, operation.path_item, operation.root];
        let server = server_of(self.declaration, owners)?;
        let converted = convert_operation(&mut self.schemas, &self.context, operation, server)?;
        let ConvertedOperation { request, input_schema, output_schema, title, description } =
            converted;
        let bytes = input_schema.to_string().len();
        let output_bytes = output_schema.as_ref().map_or(0, |schema| schema.to_string().len());
        self.schema_bytes += bytes + output_bytes;
        if bytes > INPUT_SCHEMA_BYTES_MAX {
            let limit = INPUT_SCHEMA_BYTES_MAX;
            return Err(format!("its input schema has {bytes} bytes, more than {limit}"));
        }
        let tool = HttpTool::from_request(request, &self.settings, self.client);
        let mut tool = tool.map_err(|problem| format!("{}; {}", problem.message, problem.hint))?;
        if output_schema.is_some() {
            tool.set_format(ResultFormat::Json);
        }
        let id = operation.value["operationId"].as_str();
        let name = self.names.choose(&self.declaration.prefix, id, place);
        Ok(GeneratedTool {
            name,
            place: place.to_owned(),
            title,
            description,
            input_schema,
            output_schema,
            hints: ToolHints::new(operation.method),
            tool,
        })
    }

    fn finish(self) -> Result<GeneratedTools, Vec<Problem>> {
        let Self { declaration, used_filters, generated, .. } = self;
        let OpenApiDeclaration { include, exclude, .. } = declaration;
        let keys = (0..include.len()).map(|index| format!("include.{index}"));
        let keys = keys.chain((0..exclude.len()).map(|index| format!("exclude.{index}")));
        let filters = include.iter().chain(exclude).zip(keys).zip(used_filters);
        let mut problems: Vec<Problem> = filters
            .filter(|(_, is_used)| !is_used)
            .map(|((filter, key), _)| {
                let message = format!("applies to no operation: {}", filter.describe());
                Problem::new(key, message, "correct it, or remove it")
            })
            .collect();
        if let (true, true, Some(first)) =
            (problems.is_empty(), generated.tools.is_empty(), generated.skipped.first())
        {
            let SkippedOperation { place, reason } = first;
            let message = format!("no operation becomes a tool; {place}: {reason}");
            problems.push(Problem::new("document", message, "correct what the reason names"));
        }
        if problems.is_empty() { Ok(generated) } else { Err(problems) }
    }
}
