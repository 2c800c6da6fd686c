//! Values that fill the placeholders of a user's requests.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::http_field::Secret;

/// The names that placeholders of one scenario may use.
#[derive(Clone, Debug, Default)]
pub struct ValueNames {
    /// Names of values that steps take from results; the index is the slot.
    pub taken: Vec<String>,
    /// Names of the columns of the data.
    pub columns: Vec<String>,
}

impl ValueNames {
    /// Returns the slot of a taken value, a new one if the name is new.
    pub fn slot(&mut self, name: &str) -> usize {
        let known = self.taken.iter().position(|taken| taken == name);
        known.unwrap_or_else(|| {
            self.taken.push(name.to_owned());
            self.taken.len() - 1
        })
    }
}

/// Data of users: a row each, taken in turn.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UserData {
    columns: Vec<String>,
    /// Fields as JSON strings, by row.
    rows: Vec<Box<[Box<str>]>>,
}

impl UserData {
    /// Reads a CSV file (RFC 4180) whose first line names the columns.
    ///
    /// # Errors
    ///
    /// A one-line message if the file cannot be read or has no row.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let invalid = |error: csv::Error| {
            let text = format!("cannot read {shown}: {error}");
            text + "; name a CSV file whose first line names its columns"
        };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path);
        let reader = reader.as_mut().map_err(|error| format!("cannot read {shown}: {error}"))?;
        let columns = reader.headers().map_err(invalid)?;
        let columns: Vec<String> = columns.iter().map(ToOwned::to_owned).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(invalid)?;
            rows.push(record.iter().map(|field| Value::from(field).to_string().into()).collect());
        }
        if rows.is_empty() {
            return Err(format!("{shown} has no rows: write one for each user below the names"));
        }
        Ok(Self { columns, rows })
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows.
    pub const fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns a field as text.
    pub fn text(&self, row: usize, column: usize) -> Option<String> {
        serde_json::from_str(self.rows.get(row)?.get(column)?).ok()
    }

    /// Returns a field of a user, from 0, as JSON string.
    fn field(&self, user: u32, column: usize) -> Option<&str> {
        let row = self.rows.get(user as usize % self.rows.len().max(1))?;
        row.get(column).map(|field| &**field)
    }
}

/// Values of one user.
#[derive(Clone, Debug)]
pub struct UserValues {
    /// Number of the user, from 0.
    number: u32,
    /// Number of the iteration, from 0.
    iteration: u32,
    /// Values taken from results as JSON texts, by slot.
    taken: Box<[Option<Box<str>>]>,
    data: Option<Arc<UserData>>,
    /// Determines the random values of the current step.
    step_seed: u64,
    /// Members of the params of the current step that answer the server.
    input: Option<Box<str>>,
    /// Value of `Authorization`, if the user has one of its own.
    authorization: Option<Arc<Secret>>,
}

impl UserValues {
    /// Returns those of a user that has not begun.
    pub fn new(number: u32, slots: usize, data: Option<Arc<UserData>>) -> Self {
        let taken = vec![None; slots].into();
        Self { number, iteration: 0, taken, data, step_seed: 0, input: None, authorization: None }
    }

    /// Returns the number of the user, from 0.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of the iteration, from 0.
    pub const fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Sets the bearer token to the field of this column.
    #[must_use]
    pub fn with_bearer(mut self, column: Option<usize>) -> Self {
        let field = column.and_then(|column| self.field(column));
        let token = field.and_then(|field| serde_json::from_str::<String>(field).ok());
        let authorization = token.map(|token| Arc::new(Secret::from(format!("Bearer {token}"))));
        self.authorization = authorization;
        self
    }

    /// Sets the value of `Authorization` of the user.
    pub fn set_authorization(&mut self, authorization: Arc<Secret>) {
        self.authorization = Some(authorization);
    }

    /// Returns the value of `Authorization` of the user.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref().map(Secret::reveal)
    }

    /// Returns the same, to be shared.
    pub const fn shared_authorization(&self) -> Option<&Arc<Secret>> {
        self.authorization.as_ref()
    }

    /// Returns a taken value as JSON text, unless it is absent.
    pub fn taken(&self, slot: usize) -> Option<&str> {
        self.taken.get(slot)?.as_deref()
    }

    /// Returns a field of the user's row as JSON string.
    pub fn field(&self, column: usize) -> Option<&str> {
        self.data.as_ref()?.field(self.number, column)
    }

    /// Sets a taken value, or removes it.
    pub fn set_taken(&mut self, slot: usize, value: Option<&Value>) {
        if let Some(taken) = self.taken.get_mut(slot) {
            *taken = value.map(|value| value.to_string().into());
        }
    }

    /// Begins a step, whose random values `seed` determines.
    pub fn begin_step(&mut self, seed: u64) {
        (self.step_seed, self.input) = (seed, None);
    }

    /// Returns what determines the random values of the step.
    pub const fn step_seed(&self) -> u64 {
        self.step_seed
    }

    /// Sets the members of the params that answer the server, when the step is sent again.
    pub fn set_input(&mut self, members: String) {
        self.input = Some(members.into());
    }

    /// Returns the members of the params that answer the server.
    pub fn input(&self) -> Option<&str> {
        self.input.as_deref()
    }

    /// Begins the next iteration without values.
    pub fn next_iteration(&mut self) {
        self.iteration = self.iteration.wrapping_add(1);
        self.taken.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_rows_in_turn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users.csv");
        std::fs::write(&path, "name,city\nAda,\"Oslo, N\"\n\"B \"\"b\"\"\", Rom\n").unwrap();
        let data = Arc::new(UserData::read(&path).unwrap());
        assert_eq!(data.columns(), ["name", "city"]);
        let field = |number, column| {
            let values = UserValues::new(number, 0, Some(Arc::clone(&data)));
            values.field(column).map(ToOwned::to_owned)
        };
        assert_eq!(field(0, 1).as_deref(), Some("\"Oslo, N\""));
        assert_eq!(field(1, 0).as_deref(), Some(r#""B \"b\"""#));
        assert_eq!(field(2, 0).as_deref(), Some("\"Ada\""));
        assert_eq!(field(1, 2), None);
        std::fs::write(&path, "name\n").unwrap();
        assert!(UserData::read(&path).unwrap_err().ends_with("below the names"));
    }
}
