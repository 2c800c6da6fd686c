//! The databases of a file: what their names and URLs mean, and their connections.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corelane_engine::clock::Clock;

use crate::declared::problem::Problem;
use crate::declared::sql::declaration::DatabaseDeclaration;
#[cfg(feature = "postgres")]
use crate::declared::sql::postgres::connection::PostgresServer;
use crate::declared::sql::sqlite::authorizer::Access;
use crate::declared::sql::sqlite::pool::SqlitePool;
use crate::server::options::unit::nearest;

/// Where a database is.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Location {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server: its URL.
    Postgres(String),
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => formatter.debug_tuple("Sqlite").field(path).finish(),
            // The URL may have a password.
            Self::Postgres(_) => formatter.debug_tuple("Postgres").finish(),
        }
    }
}

/// A database as a statement names it.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    /// Where it is.
    pub(crate) location: Location,
    /// Name of the `[[database]]` that does not permit changes.
    pub(crate) read_only: Option<String>,
}

/// The databases of a file of declarations. Statements of the same file and with the same access
/// share connections; connections close with the last of these statements.
pub struct Databases {
    folder: PathBuf,
    clock: Clock,
    named: BTreeMap<String, Database>,
    pools: BTreeMap<(PathBuf, Access), Arc<SqlitePool>>,
    #[cfg(feature = "postgres")]
    servers: BTreeMap<String, Arc<PostgresServer>>,
}

impl fmt::Debug for Databases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URLs of servers, which may have passwords.
        formatter.debug_struct("Databases").field("named", &self.named).finish_non_exhaustive()
    }
}

const URL_HINT: &str = "write sqlite:/path/of/file.db or postgres://user@host/name";

impl Databases {
    /// No databases yet. Relative paths are below `folder`.
    pub fn new(folder: &Path, clock: Clock) -> Self {
        Self {
            folder: folder.to_owned(),
            clock,
            named: BTreeMap::new(),
            pools: BTreeMap::new(),
            #[cfg(feature = "postgres")]
            servers: BTreeMap::new(),
        }
    }

    /// Adds the database of a `[[database]]`, for statements that name it.
    ///
    /// # Errors
    ///
    /// The URL or the name is wrong, or there is a database with this name.
    pub fn declare(&mut self, declaration: &DatabaseDeclaration) -> Result<(), Problem> {
        let name = &declaration.name;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_part) {
            let hint = "write 1 to 48 of A-Z a-z 0-9 _ - .";
            return Err(Problem::new("name", format!("{name:?} is not a name"), hint));
        }
        let location = self.locate(&declaration.url).map_err(|message| {
            let hint = if message.contains('?') { QUERY_HINT } else { URL_HINT };
            Problem::new("url", message, hint)
        })?;
        let read_only = (!declaration.write).then(|| name.clone());
        match self.named.entry(name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(Database { location, read_only });
                Ok(())
            }
            Entry::Occupied(_) => {
                let message = format!("{name:?} is declared twice");
                Err(Problem::new("name", message, "give each database its own name"))
            }
        }
    }

    /// The database that `text` is the name or the URL of.
    pub(crate) fn find(&self, text: &str) -> Result<Database, Problem> {
        if let Some(named) = self.named.get(text) {
            return Ok(named.clone());
        }
        if !text.contains(':') {
            let hint = match nearest(text, self.named.keys().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("declare it as [[database]], or {URL_HINT}"),
            };
            let message = format!("there is no database {text:?}");
            return Err(Problem::new("sql.database", message, hint));
        }
        match self.locate(text) {
            Ok(location) => Ok(Database { location, read_only: None }),
            Err(message) => {
                let hint = if message.contains('?') { QUERY_HINT } else { URL_HINT };
                Err(Problem::new("sql.database", message, hint))
            }
        }
    }

    /// The connections to the file at `path` for statements with `access`.
    pub(crate) fn pool(&mut self, path: &Path, access: Access) -> Arc<SqlitePool> {
        let clock = self.clock;
        let entry = self.pools.entry((path.to_owned(), access));
        let (path, access) = entry.key().clone();
        let pool = entry.or_insert_with(|| Arc::new(SqlitePool::new(path, access, clock)));
        Arc::clone(pool)
    }

    /// The server of a URL, which is the value of `key`.
    #[cfg(feature = "postgres")]
    pub(crate) fn server(&mut self, key: &str, url: &str) -> Result<Arc<PostgresServer>, Problem> {
        match self.servers.entry(url.to_owned()) {
            Entry::Occupied(entry) => Ok(Arc::clone(entry.get())),
            Entry::Vacant(entry) => {
                let server = Arc::new(PostgresServer::new(key, url, &self.folder)?);
                Ok(Arc::clone(entry.insert(server)))
            }
        }
    }

    /// What a URL means. An error does not contain the URL, which may have a password.
    fn locate(&self, url: &str) -> Result<Location, String> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err("is no URL".to_owned());
        };
        match scheme {
            "postgres" | "postgresql" if rest.starts_with("//") => {
                Ok(Location::Postgres(url.to_owned()))
            }
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path.ends_with('/') || path.starts_with(':') {
                    return Err(format!("{url:?} is no path of a file"));
                }
                if path.contains('?') {
                    return Err(format!("{url:?} has parameters behind a ?"));
                }
                Ok(Location::Sqlite(self.folder.join(path)))
            }
            _ => Err("is neither a sqlite: nor a postgres: URL".to_owned()),
        }
    }
}

/// Bytes of the longest name: names of tools have 64, and `_schema` is appended.
const NAME_BYTES_MAX: usize = 48;
const QUERY_HINT: &str = "remove the parameters: a statement is read-only unless write = true";

/// The problem of a PostgreSQL database in a build without it.
#[cfg(not(feature = "postgres"))]
pub(crate) fn no_postgres(key: &str) -> Problem {
    let message = "is PostgreSQL, which this program is built without";
    Problem::new(key, message, "build it with the feature `postgres`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn databases() -> Databases {
        let mut databases = Databases::new(Path::new("/srv"), Clock::start());
        let declaration = DatabaseDeclaration {
            name: "shop".to_owned(),
            url: "sqlite:shop.db".to_owned(),
            tables: None,
            write: false,
            explore: true,
            rows_max: None,
        };
        databases.declare(&declaration).unwrap();
        assert_eq!(databases.declare(&declaration).unwrap_err().key, "name");
        databases
    }

    #[test]
    fn database_is_found_by_name_and_url() {
        let databases = databases();
        let path = |text| match databases.find(text).unwrap().location {
            Location::Sqlite(path) => path,
            Location::Postgres(_) => panic!("not SQLite"),
        };
        let shop = Path::new("/srv/shop.db");
        for same in ["shop", "sqlite:shop.db", "sqlite:/srv/shop.db", "sqlite:///srv/shop.db"] {
            assert_eq!(path(same), shop, "{same}");
        }
        assert_eq!(databases.find("shop").unwrap().read_only.as_deref(), Some("shop"));
        assert!(databases.find("sqlite:shop.db").unwrap().read_only.is_none());
        assert!(databases.find("postgres://a@b/c").is_ok());
    }

    #[test]
    fn wrong_database_is_refused_without_password() {
        let databases = databases();
        let problem = |text| databases.find(text).unwrap_err();
        assert_eq!(problem("shpo").hint, "did you mean shop?");
        for wrong in ["sqlite:", "sqlite::memory:", "sqlite:/srv/", "sqlite:a?mode=rwc"] {
            assert_eq!(problem(wrong).key, "sql.database", "{wrong}");
        }
        let problem = problem("mysql://user:secret@host/name");
        assert!(!problem.to_string().contains("secret"));
        let location = Location::Postgres("postgres://user:secret@host/name".to_owned());
        assert!(!format!("{location:?}").contains("secret"));
    }
}
