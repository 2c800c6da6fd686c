//! Makes the backend of a declaration.

use crate::declared::action::{Action, ActionFields};
use crate::declared::arguments::Arguments;
use crate::declared::backend::Backend;
use crate::declared::command::{Command, CommandSettings};
use crate::declared::context::FileContext;
use crate::declared::file::FileReader;
use crate::declared::http::HttpTool;
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::{SqlContext, SqlTool};
use crate::declared::template::{PRINCIPAL, Template};

/// Makes what `fields` declare.
///
/// # Errors
///
/// What is wrong with the declaration.
pub fn make_backend(
    fields: &ActionFields<'_>,
    arguments: &Arguments,
    limits: CallLimits,
    context: &mut FileContext<'_>,
) -> Result<Backend, Vec<Problem>> {
    let backend = match fields.action()? {
        Action::Command(words) => {
            let settings = CommandSettings {
                words,
                input: fields.input,
                result: fields.result,
                env: fields.env,
                cwd: fields.cwd,
                user: fields.user,
                sandbox: fields.sandbox,
            };
            let (folder, services) = (&context.folder, context.services);
            Backend::Command(Box::new(Command::new(&settings, arguments, folder, services)?))
        }
        Action::Http(http) => {
            let tool = HttpTool::new(http, context.http, limits).map_err(in_http)?;
            check_names("http", tool.names(), arguments)?;
            Backend::Http(Box::new(tool))
        }
        Action::Sql(sql) => {
            let databases = &mut context.databases;
            let tool = SqlTool::new(sql, SqlContext { arguments, limits, databases })?;
            context.warn_unreachable(tool.warning());
            Backend::Sql(tool)
        }
        Action::File(path) => {
            let reader = FileReader::new(path, &context.folder)?;
            check_names("file", reader.names(), arguments)?;
            Backend::File(reader)
        }
        Action::Text(text) => {
            let template = Template::parse("text", text)?;
            check_names("text", template.names(), arguments)?;
            Backend::Text(template)
        }
    };
    Ok(backend)
}

/// Adds the key of the request to the keys of its problems.
fn in_http(problems: Vec<Problem>) -> Vec<Problem> {
    let add = |it: Problem| Problem { key: format!("http.{}", it.key), ..it };
    problems.into_iter().map(add).collect()
}

/// Checks that each name in the value of `key` is an argument.
///
/// # Errors
///
/// One is not.
pub fn check_names<'n>(
    key: &str,
    names: impl Iterator<Item = &'n str>,
    arguments: &Arguments,
) -> Result<(), Vec<Problem>> {
    let unknown = names.filter(|name| *name != PRINCIPAL && arguments.property(name).is_none());
    let problems = unknown.map(|name| {
        let hint = format!("add it under arguments.{name}");
        Problem::new(key, format!("{{{name}}} is not an argument"), hint)
    });
    let problems: Vec<Problem> = problems.collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}
