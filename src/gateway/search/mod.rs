//! Search over tools: BM25 with a weight for each field.
//!
//! An index does not change. It holds words and numbers, no texts of the tools.
//!
//! A word is a sequence of letters and digits, in lower case and without the `s` at its end. In
//! scripts without spaces each character is a word. There are no other rules for a language.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use serde_json::Value;

/// Bytes that are read of each field of a tool, and of a query.
const TEXT_BYTES_MAX: usize = 4096;
/// Bytes of a word at most; the rest of a longer one is skipped.
const WORD_BYTES_MAX: usize = 64;
/// Different words of a query that are searched for.
const QUERY_WORDS_MAX: usize = 32;
/// Levels of `properties` in a schema.
const SCHEMA_DEPTH_MAX: usize = 4;

/// How fast further occurrences of a word count less (k₁ of BM25).
const SATURATION: f64 = 1.2;
/// What a word counts that only begins with the last word of the query.
const PREFIX_FACTOR: f32 = 0.4;
/// Added if the words of the name are those of the query. More than all words can count.
const SAME_WORDS_SCORE: f32 = 10_000.0;
/// Added if the query is the name.
const SAME_NAME_SCORE: f32 = 10_000.0;

/// First character of the key of a name's words: no word has it.
const SAME_WORDS_MARK: char = '=';
/// First character of the key of a name: no word has it.
const SAME_NAME_MARK: char = '"';

/// A field of a tool.
struct Field {
    /// What a word in it counts.
    weight: f64,
    /// How much a word counts less in a field that is longer than the average (b of BM25).
    length_effect: f64,
}

const NAME: usize = 0;
const TITLE: usize = 1;
const DESCRIPTION: usize = 2;
const ARGUMENT_NAMES: usize = 3;
const ARGUMENT_DESCRIPTIONS: usize = 4;
const FIELDS: [Field; 5] = [
    Field { weight: 5.0, length_effect: 0.4 },
    Field { weight: 3.0, length_effect: 0.4 },
    Field { weight: 1.0, length_effect: 0.75 },
    Field { weight: 0.8, length_effect: 0.75 },
    Field { weight: 0.4, length_effect: 0.75 },
];

/// What is searched of a tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct SearchEntry<'a> {
    /// The name. Words are also divided in `camelCase`.
    pub name: &'a str,
    /// The title.
    pub title: Option<&'a str>,
    /// The description, of which the first 4 KiB are read.
    pub description: Option<&'a str>,
    /// `inputSchema`: names and descriptions of its properties are read, 4 levels deep.
    pub input_schema: Option<&'a Value>,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Position of the tool in the list that the index was built from.
    pub entry: usize,
    /// How well it matches: more is better, and comparable within one search only. 0 if the query
    /// is empty, 10,000 and more if the name matches as a whole.
    pub score: f32,
}

/// The words of a list of tools.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// All terms in order, without separators.
    terms: String,
    /// For each term, the ends of its text and of its postings.
    ends: Vec<TermEnd>,
    postings: Vec<Posting>,
    /// Positions of the tools in the list, by name. A posting has the position in this order.
    by_name: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TermEnd {
    text: u32,
    posting: u32,
}

/// A tool that has a term.
#[derive(Clone, Copy, Debug, Default)]
struct Posting {
    /// Position of the tool by name.
    tool: u32,
    /// What the term adds to the score.
    score: f32,
}

/// A tool that has a term, while the index is built.
struct Occurrence {
    term: u32,
    tool: u32,
    /// How often each field has it; 0 everywhere for a key.
    counts: [u16; FIELDS.len()],
}

/// A result while better ones are searched for: the greater is the better.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    score: f32,
    tool: Reverse<usize>,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.tool.cmp(&other.tool))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Index {
    /// Reads the words of `entries`. Cost: O(n log n) for n words.
    pub fn build(entries: &[SearchEntry<'_>]) -> Self {
        let mut by_name: Vec<u32> = (0..).take(entries.len()).collect();
        by_name.sort_by_key(|entry| entries[*entry as usize].name);
        let mut builder = Builder::default();
        for (tool, entry) in (0..).zip(&by_name) {
            builder.add(tool, &entries[*entry as usize]);
        }
        builder.finish(by_name)
    }

    /// Finds the `limit` tools that match `query` best and for which `is_visible`, called with the
    /// position of a tool, returns true. The best come first, of equal ones that with the first
    /// name.
    ///
    /// A tool matches if it has one of the words. Of the last word the beginning is enough. An
    /// empty query finds the first tools by name.
    ///
    /// Of the query 4 KiB and 32 different words are read. Cost: one pass over the tools that have
    /// one of the words, and 4 bytes a tool.
    pub fn search(
        &self,
        query: &str,
        limit: usize,
        mut is_visible: impl FnMut(usize) -> bool,
    ) -> Vec<Hit> {
        let entry_of = |tool: usize| self.by_name[tool] as usize;
        if query.trim().is_empty() {
            let entries = (0..self.by_name.len()).map(entry_of).filter(|it| is_visible(*it));
            return entries.take(limit).map(|entry| Hit { entry, score: 0.0 }).collect();
        }
        let scores = self.scores(query);
        let mut best: BinaryHeap<Reverse<Candidate>> = BinaryHeap::new();
        for (tool, score) in scores.into_iter().enumerate().filter(|it| it.1 > 0.0) {
            let candidate = Candidate { score, tool: Reverse(tool) };
            let is_full = best.len() == limit;
            let is_better = !is_full || best.peek().is_some_and(|worst| candidate > worst.0);
            if is_better && is_visible(entry_of(tool)) {
                if is_full {
                    best.pop();
                }
                best.push(Reverse(candidate));
            }
        }
        let best = best.into_sorted_vec().into_iter();
        best.map(|Reverse(it)| Hit { entry: entry_of(it.tool.0), score: it.score }).collect()
    }

    /// The score of each tool, by name; 0 for those that do not match.
    fn scores(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0_f32; self.by_name.len()];
        let (mut words, mut last) = (Vec::new(), String::new());
        for_each_word(query, |word| {
            if words.len() < QUERY_WORDS_MAX {
                word.clone_into(&mut last);
                if !words.contains(&last) {
                    words.push(last.clone());
                }
            }
        });
        // Sums do not depend on the order of the words.
        words.sort_unstable();
        for word in words.iter().filter(|word| **word != last) {
            self.add(&mut scores, self.find(word));
        }
        if !last.is_empty() {
            self.add_beginning(&mut scores, &last);
        }
        for key in keys(query) {
            self.add(&mut scores, self.find(&key));
        }
        scores
    }

    fn add(&self, scores: &mut [f32], term: Option<usize>) {
        for Posting { tool, score } in term.map_or(&[][..], |term| self.postings(term)) {
            scores[*tool as usize] += score;
        }
    }

    /// Adds for each tool the best of the terms that begin with `word`.
    fn add_beginning(&self, scores: &mut [f32], word: &str) {
        let mut best = vec![0.0_f32; scores.len()];
        let first = self.lower_bound(word);
        let terms = (first..self.ends.len()).take_while(|term| self.term(*term).starts_with(word));
        for term in terms {
            let factor = if self.term(term) == word { 1.0 } else { PREFIX_FACTOR };
            for Posting { tool, score } in self.postings(term) {
                let best = &mut best[*tool as usize];
                *best = best.max(score * factor);
            }
        }
        for (score, best) in scores.iter_mut().zip(best) {
            *score += best;
        }
    }

    fn find(&self, term: &str) -> Option<usize> {
        let index = self.lower_bound(term);
        (index < self.ends.len() && self.term(index) == term).then_some(index)
    }

    /// Position of the first term that is not less than `text`.
    fn lower_bound(&self, text: &str) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.term(middle) < text {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn term(&self, index: usize) -> &str {
        &self.terms[self.start(index).text as usize..self.ends[index].text as usize]
    }

    fn postings(&self, index: usize) -> &[Posting] {
        &self.postings[self.start(index).posting as usize..self.ends[index].posting as usize]
    }

    fn start(&self, index: usize) -> TermEnd {
        index.checked_sub(1).map(|before| self.ends[before]).unwrap_or_default()
    }
}

/// An index before the scores are known.
#[derive(Default)]
struct Builder {
    terms: HashMap<String, u32>,
    occurrences: Vec<Occurrence>,
    /// Words of each field of each tool.
    lengths: Vec<[u32; FIELDS.len()]>,
    /// Terms of one tool, each with its field; keys have the field `FIELDS.len()`.
    found: Vec<(u32, usize)>,
}

impl Builder {
    fn add(&mut self, tool: u32, entry: &SearchEntry<'_>) {
        self.add_text(NAME, entry.name);
        self.add_text(TITLE, entry.title.unwrap_or_default());
        self.add_text(DESCRIPTION, entry.description.unwrap_or_default());
        let mut arguments = Arguments::default();
        if let Some(schema) = entry.input_schema {
            arguments.read(schema, SCHEMA_DEPTH_MAX);
        }
        self.add_text(ARGUMENT_NAMES, &arguments.names);
        self.add_text(ARGUMENT_DESCRIPTIONS, &arguments.descriptions);
        for key in keys(entry.name) {
            let term = self.term(&key);
            self.found.push((term, FIELDS.len()));
        }
        let mut lengths = [0; FIELDS.len()];
        self.found.sort_unstable();
        for same in self.found.chunk_by(|one, other| one.0 == other.0) {
            let mut counts = [0; FIELDS.len()];
            for (_, field) in same.iter().filter(|found| found.1 < FIELDS.len()) {
                counts[*field] += 1;
                lengths[*field] += 1;
            }
            self.occurrences.push(Occurrence { term: same[0].0, tool, counts });
        }
        self.found.clear();
        self.lengths.push(lengths);
    }

    fn add_text(&mut self, field: usize, text: &str) {
        for_each_word(text, |word| {
            let term = self.term(word);
            self.found.push((term, field));
        });
    }

    fn term(&mut self, text: &str) -> u32 {
        if let Some(term) = self.terms.get(text) {
            return *term;
        }
        // Texts of 4 GiB do not fit the account of memory.
        let term = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
        self.terms.insert(text.to_owned(), term);
        term
    }

    fn finish(self, by_name: Vec<u32>) -> Index {
        let mut terms: Vec<(String, u32)> = self.terms.into_iter().collect();
        terms.sort_unstable();
        let mut counts = vec![0_u32; terms.len()];
        for occurrence in &self.occurrences {
            counts[occurrence.term as usize] += 1;
        }
        let mut index = Index { by_name, ..Index::default() };
        let mut next = vec![0_u32; terms.len()];
        let mut end = TermEnd::default();
        for (text, term) in &terms {
            next[*term as usize] = end.posting;
            index.terms.push_str(text);
            end.text += u32::try_from(text.len()).unwrap_or(u32::MAX);
            end.posting += counts[*term as usize];
            index.ends.push(end);
        }
        let weights = Weights::of(&self.lengths);
        let mut marks = vec![None; terms.len()];
        for (text, term) in &terms {
            marks[*term as usize] = text.chars().next().filter(|it| !it.is_alphanumeric());
        }
        index.postings = vec![Posting::default(); self.occurrences.len()];
        for Occurrence { term, tool, counts: in_fields } in self.occurrences {
            let score = match marks[term as usize] {
                Some(SAME_NAME_MARK) => SAME_NAME_SCORE,
                Some(_) => SAME_WORDS_SCORE,
                None => {
                    let lengths = &self.lengths[tool as usize];
                    weights.score(&in_fields, lengths, counts[term as usize])
                }
            };
            let position = &mut next[term as usize];
            index.postings[*position as usize] = Posting { tool, score };
            *position += 1;
        }
        index.terms.shrink_to_fit();
        index.ends.shrink_to_fit();
        index
    }
}

/// What scores depend on besides the tool.
struct Weights {
    tools: f64,
    /// Words of each field, on average.
    averages: [f64; FIELDS.len()],
}

impl Weights {
    fn of(lengths: &[[u32; FIELDS.len()]]) -> Self {
        let tools = f64::from(u32::try_from(lengths.len()).unwrap_or(u32::MAX));
        let average = |field: usize| {
            let sum: f64 = lengths.iter().map(|lengths| f64::from(lengths[field])).sum();
            sum / tools
        };
        Self { tools, averages: std::array::from_fn(average) }
    }

    /// The score of a term that `tools_with_term` tools have, and this one `counts` times in fields
    /// of `lengths` words.
    fn score(
        &self,
        counts: &[u16; FIELDS.len()],
        lengths: &[u32; FIELDS.len()],
        tools_with_term: u32,
    ) -> f32 {
        let mut frequency = 0.0;
        for (field, Field { weight, length_effect }) in FIELDS.iter().enumerate() {
            if counts[field] > 0 {
                let length = f64::from(lengths[field]) / self.averages[field];
                let norm = 1.0 - length_effect + length_effect * length;
                frequency += weight * f64::from(counts[field]) / norm;
            }
        }
        let with_term = f64::from(tools_with_term);
        let rarity = (1.0 + (self.tools - with_term + 0.5) / (with_term + 0.5)).ln();
        narrow(rarity * (SATURATION + 1.0) * frequency / (SATURATION + frequency))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a score has fewer digits")]
const fn narrow(score: f64) -> f32 {
    score as f32
}

/// Texts of the properties of a schema.
#[derive(Default)]
struct Arguments {
    names: String,
    descriptions: String,
}

impl Arguments {
    /// Reads a schema with at most `depth` levels of `properties` and `items`.
    fn read(&mut self, schema: &Value, depth: usize) {
        if depth == 0 {
            return;
        }
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if self.names.len() >= TEXT_BYTES_MAX && self.descriptions.len() >= TEXT_BYTES_MAX {
                return;
            }
            push_text(&mut self.names, name);
            let description = property.get("description").and_then(Value::as_str);
            push_text(&mut self.descriptions, description.unwrap_or_default());
            self.read(property, depth - 1);
        }
        if let Some(items) = schema.get("items") {
            self.read(items, depth - 1);
        }
    }
}

/// Adds `text` as words of their own, up to the limit of a field.
fn push_text(texts: &mut String, text: &str) {
    let room = TEXT_BYTES_MAX.saturating_sub(texts.len());
    texts.push_str(head(text, room));
    texts.push(' ');
}

/// The first bytes of `text`, at most `bytes`, that are whole characters.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The keys under which a name is found as a whole.
fn keys(name: &str) -> [String; 2] {
    let name = head(name.trim(), TEXT_BYTES_MAX);
    let characters = name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase);
    let words = std::iter::once(SAME_WORDS_MARK).chain(characters).collect();
    [words, format!("{SAME_NAME_MARK}{name}")]
}

/// Calls `found` with each word of `text`. A word in `camelCase` is found as a whole and in parts.
/// Of a longer text the words that end in the first 4 KiB are found.
fn for_each_word(text: &str, mut found: impl FnMut(&str)) {
    let read = head(text, TEXT_BYTES_MAX);
    let mut word = Word::default();
    let mut characters = read.chars();
    while let Some(character) = characters.next() {
        if is_mark(character) {
            continue;
        }
        if !character.is_alphanumeric() || is_word_by_itself(character) {
            word.end(&mut found);
            if character.is_alphanumeric() {
                word.push(character);
                word.end(&mut found);
            }
            continue;
        }
        word.divide_before(character, characters.clone());
        word.push(character);
    }
    if read.len() == text.len() {
        word.end(&mut found);
    }
}

/// Accents that stand by themselves are left out: `e` and U+0301 are `e`.
fn is_mark(character: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&character)
}

/// Whether the character belongs to a script without spaces: kana, Han, Thai, Lao, Khmer, Burmese.
fn is_word_by_itself(character: char) -> bool {
    matches!(
        u32::from(character),
        0xe00..=0xeff
            | 0x1000..=0x109f
            | 0x1780..=0x17ff
            | 0x3040..=0x30ff
            | 0x3400..=0x4dbf
            | 0x4e00..=0x9fff
            | 0xf900..=0xfaff
            | 0x20000..=0x3ffff
    )
}

/// A word while it is read.
#[derive(Default)]
struct Word {
    text: String,
    /// Where its parts in `camelCase` begin, but for the first one.
    parts: Vec<usize>,
    previous: Option<char>,
}

impl Word {
    /// Notes that a part begins before `character`: `getUser`, `HTTPServer`, `v2Api`. `IDs` is one
    /// part.
    fn divide_before(&mut self, character: char, mut rest: std::str::Chars<'_>) {
        let Some(previous) = self.previous else { return };
        let next = rest.next().filter(|next| next.is_lowercase());
        let is_plural = next == Some('s') && !rest.next().is_some_and(char::is_lowercase);
        let is_before_lower = next.is_some() && !is_plural;
        let is_after_lower = previous.is_lowercase() || previous.is_numeric();
        let is_divided = is_after_lower || (previous.is_uppercase() && is_before_lower);
        if character.is_uppercase() && is_divided {
            self.parts.push(self.text.len());
        }
    }

    fn push(&mut self, character: char) {
        self.previous = Some(character);
        if self.text.len() >= WORD_BYTES_MAX {
            return;
        }
        if character.is_ascii() {
            self.text.push(character.to_ascii_lowercase());
        } else {
            self.text.extend(character.to_lowercase().filter(|it| !is_mark(*it)));
        }
    }

    fn end(&mut self, found: &mut impl FnMut(&str)) {
        if !self.parts.is_empty() {
            let mut start = 0;
            for end in self.parts.drain(..).chain([self.text.len()]) {
                if start < end {
                    found(singular(&self.text[start..end]));
                }
                start = end;
            }
        }
        if !self.text.is_empty() {
            found(singular(&self.text));
        }
        self.text.clear();
        self.previous = None;
    }
}

/// Removes the `s` at the end of a word: `files` becomes `file`. Words of up to three letters, and
/// those that end in `ss`, stay as they are.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(rest) if rest.len() >= 3 && !rest.ends_with('s') => rest,
        _ => word,
    }
}

#[cfg(test)]
mod tests;
