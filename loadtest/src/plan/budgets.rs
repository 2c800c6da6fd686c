//! The `[budgets]` section of a plan: how much worse than a base a run may be, for
//! `corelane-load compare`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PlanError;

/// A figure that runs are compared by.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Successful responses a second.
    Rate,
    /// Failure ratio of requests.
    Errors,
    /// Mean response time.
    Mean,
    /// Median response time.
    P50,
    /// 90th percentile of the response time.
    P90,
    /// 95th percentile of the response time.
    P95,
    /// 99th percentile of the response time.
    P99,
    /// 99.9th percentile of the response time.
    #[serde(alias = "p99.9")]
    P999,
    /// 99.99th percentile of the response time.
    #[serde(alias = "p99.99")]
    P9999,
    /// Longest response time.
    Max,
    /// CPU time of the server for each response.
    Cpu,
    /// Highest resident memory of the server.
    Memory,
}

impl Figure {
    /// All figures, in the order of tables.
    pub const ALL: [Self; 12] = [
        Self::Rate,
        Self::Errors,
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::P9999,
        Self::Max,
        Self::Cpu,
        Self::Memory,
    ];

    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Errors => "errors",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::P9999 => "p99.99",
            Self::Max => "max",
            Self::Cpu => "server CPU",
            Self::Memory => "server memory",
        }
    }

    /// Returns the name in budgets.
    pub const fn key(self) -> &'static str {
        match self {
            Self::P999 => "p999",
            Self::P9999 => "p9999",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            _ => self.name(),
        }
    }

    /// Returns whether higher values are better.
    pub const fn is_higher_better(self) -> bool {
        matches!(self, Self::Rate)
    }

    /// Returns whether differences are in points, not in percent.
    pub const fn is_ratio(self) -> bool {
        matches!(self, Self::Errors)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.key() == name || figure.name() == name)
    }
}

/// The acceptable worsening of figures: a part of the base such as 0.15, of `errors` a difference
/// of ratios such as 0.005.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budgets(pub BTreeMap<Figure, f64>);

impl Budgets {
    /// Returns whether there is no budget.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses budgets such as `p95 +15 %, rate -10 %, errors +0.5 points`.
    ///
    /// # Errors
    ///
    /// If `text` is anything else; the message has the part and what to write.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut all = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, amount) = part
                .split_once(|character: char| character.is_whitespace() || character == '=')
                .ok_or_else(|| PlanError(format!("budget '{part}': write 'p95 +15 %'")))?;
            let figure = figure(name)?;
            all.insert(figure, parse_amount(figure, amount)?);
        }
        if all.is_empty() {
            return Err(PlanError::new(
                "a budget is missing: write 'p95 +15 %, rate -10 %, errors +0.5 points'",
            ));
        }
        Ok(Self(all))
    }

    /// Reads the section `[budgets]` of a TOML file, such as a plan.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no such section.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        #[derive(Deserialize)]
        struct File {
            budgets: Budgets,
        }
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| PlanError(format!("cannot read {shown}: {error}")))?;
        let file: File = toml::from_str(&text).map_err(|error| {
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            PlanError(format!("{shown}: {why}; write [budgets] and lines such as p95 = \"+15 %\""))
        })?;
        Ok(file.budgets)
    }

    /// Returns a budget as text, such as `+15 %`.
    pub fn format(figure: Figure, budget: f64) -> String {
        let sign = if figure.is_higher_better() { '-' } else { '+' };
        let unit = if figure.is_ratio() { "points" } else { "%" };
        // Percent of a decimal fraction may have a rounding error.
        let amount = (budget * 100.0 * 1e6).round() / 1e6;
        format!("{sign}{amount} {unit}")
    }
}

fn figure(name: &str) -> Result<Figure, PlanError> {
    Figure::named(name.trim()).ok_or_else(|| {
        let names = Figure::ALL.map(Figure::key).join(", ");
        PlanError(format!("budget of '{name}': the figures are {names}"))
    })
}

fn parse_amount(figure: Figure, text: &str) -> Result<f64, PlanError> {
    let text = text.trim();
    let example = Budgets::format(figure, if figure.is_ratio() { 0.005 } else { 0.15 });
    let key = figure.key();
    let error = |why: &str| PlanError(format!("budget '{key} {text}': {why}, such as '{example}'"));
    let units: &[&str] = if figure.is_ratio() { &["points", "point", "pp"] } else { &["%"] };
    let number = units.iter().find_map(|unit| text.strip_suffix(unit)).ok_or_else(|| {
        error(if figure.is_ratio() { "write points" } else { "write a percentage" })
    })?;
    let number = number.trim();
    let (sign, number) = match number.chars().next() {
        Some('+') => (Some('+'), &number[1..]),
        Some('-') => (Some('-'), &number[1..]),
        Some('−') => (Some('-'), &number['−'.len_utf8()..]),
        _ => (None, number),
    };
    let worse = if figure.is_higher_better() { '-' } else { '+' };
    if sign.is_some_and(|sign| sign != worse) {
        return Err(error(if figure.is_higher_better() {
            "a lower value is worse"
        } else {
            "a higher value is worse"
        }));
    }
    let amount: f64 = number.trim().parse().map_err(|_| error("write a number"))?;
    if amount.is_finite() && amount >= 0.0 && !(figure.is_higher_better() && amount >= 100.0) {
        Ok(amount / 100.0)
    } else {
        Err(error("the number is out of range"))
    }
}

impl Serialize for Budgets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0.iter().map(|(figure, budget)| (figure.key(), Self::format(*figure, *budget))),
        )
    }
}

impl<'de> Deserialize<'de> for Budgets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
        let mut all = BTreeMap::new();
        for (name, amount) in texts {
            let figure = figure(&name).map_err(serde::de::Error::custom)?;
            let amount = parse_amount(figure, &amount).map_err(serde::de::Error::custom)?;
            all.insert(figure, amount);
        }
        Ok(Self(all))
    }
}

impl JsonSchema for Budgets {
    fn schema_name() -> Cow<'static, str> {
        "Budgets".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let keys = Figure::ALL.map(|figure| {
            let example = Self::format(figure, if figure.is_ratio() { 0.005 } else { 0.1 });
            let description =
                format!("How much worse {} may be, such as `{example}`.", figure.name());
            let schema = json_schema!({ "type": "string", "description": description });
            (figure.key().to_owned(), schema.into())
        });
        let keys: serde_json::Map<String, serde_json::Value> = keys.into_iter().collect();
        json_schema!({
            "description": "Acceptable worsening in `corelane-load compare`, such as `+15 %`, of \
                `rate` `-10 %`, of `errors` `+0.5 points`.",
            "type": "object",
            "properties": keys,
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() {
        let budgets =
            Budgets::parse("p95 +15 %, rate −10%,errors +0.5 points, p99.9=20 %").unwrap();
        let expected = [
            (Figure::Rate, 0.1),
            (Figure::Errors, 0.005),
            (Figure::P95, 0.15),
            (Figure::P999, 0.2),
        ];
        assert_eq!(budgets.0, BTreeMap::from(expected));
        let text = serde_json::to_string(&budgets).unwrap();
        let shown = r#"{"rate":"-10 %","errors":"+0.5 points","p95":"+15 %","p999":"+20 %"}"#;
        assert_eq!(text, shown);
        assert_eq!(serde_json::from_str::<Budgets>(&text).unwrap(), budgets);
    }

    #[test]
    fn wrong_budgets_are_corrected() {
        for (text, part) in [
            ("", "p95 +15 %, rate -10 %"),
            ("p95", "write 'p95 +15 %'"),
            ("p96 +1 %", "the figures are rate, errors, mean"),
            ("p95 +15", "write a percentage, such as '+15 %'"),
            ("rate +10 %", "a lower value is worse, such as '-15 %'"),
            ("p95 -10 %", "a higher value is worse"),
            ("errors +1 %", "write points, such as '+0.5 points'"),
            ("rate -100 %", "out of range"),
            ("p95 +x %", "write a number"),
        ] {
            let PlanError(error) = Budgets::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
