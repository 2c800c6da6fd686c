//! The heads of answers, held against what was asked: which status may answer what, and when.

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;

use super::guest::{Facts, Guest};
use super::line::{Asked, Kind};
use crate::web::checks::book::Book;
use crate::web::checks::reading::Head;

impl Guest {
    pub(super) fn hear_head(
        &mut self,
        asked: &Asked,
        head: &Head,
        now: Moment,
        facts: Facts,
    ) -> Result<(), String> {
        let status = head.status;
        let must_be_gone = match asked.session {
            Some(session) => {
                let book = &mut self.books[session];
                let was_gone = book.gone.is_some_and(|gone| gone <= asked.said);
                if status == 404 {
                    let ttl = facts.ttl.filter(|_| !self.is_slow && !self.was_deaf);
                    book.miss(now, ttl)?;
                }
                was_gone
            }
            None => false,
        };
        let is_fine = match (asked.kind, status) {
            (Kind::Plain(expected) | Kind::Bare(expected), _) => status == expected,
            (_, 503) if facts.drains || facts.ttl.is_none() || facts.is_crowded => true,
            (Kind::Begin | Kind::Modern | Kind::Pair | Kind::Subscribe, 200) => true,
            // More messages at once than may be in flight.
            (Kind::Request, 400) => facts.is_crowded && self.is_batch(asked),
            (Kind::Request, 202) => facts.strict.is_some() && self.is_taken_back(asked, facts),
            // The shard that keeps a task is slow.
            (Kind::Modern, 503) => asked.id.is_some_and(|id| self.chores.contains_key(&id)),
            (Kind::Modern, _) => false,
            (_, 404) => asked.session.is_some(),
            _ if must_be_gone => false,
            (Kind::Request | Kind::Listen | Kind::Resume(_), 200) => true,
            (Kind::Notice | Kind::Confirm, 202) | (Kind::Delete, 204) => true,
            (Kind::Listen, 409) => self.listens(asked) > 1,
            (Kind::Listen, 400) => asked.carried.last.is_some() && facts.forgets,
            (Kind::Resume(stream), 400) => self.lose(asked, stream, now),
            _ => false,
        };
        if asked.kind == Kind::Delete
            && status == 204
            && let Some(session) = asked.session
        {
            self.books[session].gone.get_or_insert(now);
        }
        if asked.kind == Kind::Confirm && status == 202 {
            self.session = asked.session;
        }
        if asked.kind == Kind::Begin && status == 200 {
            self.begin_session(head, now, facts)?;
        }
        if let Some(strict) = facts.strict {
            self.hear_strict_head(asked, head, strict)?;
        }
        if is_fine { Ok(()) } else { Err(format!("status {status} answers {asked:?}")) }
    }

    /// Every answer of a strict server is whole, and names the revision and the session.
    fn hear_strict_head(&self, asked: &Asked, head: &Head, strict: Revision) -> Result<(), String> {
        let session = asked.session.map(|session| &self.books[session].id);
        let is_named = head.session.as_ref() == session || asked.session.is_none();
        let is_named = is_named || !matches!(head.status, 200..=204);
        if head.is_stream || head.version.as_deref() != Some(strict.as_str()) || !is_named {
            return Err(format!("{head:?} is not strict, to {asked:?}"));
        }
        Ok(())
    }

    fn is_batch(&self, asked: &Asked) -> bool {
        let session = asked.session.map(|session| &self.books[session]);
        session.zip(asked.id).is_some_and(|(book, id)| book.is_part(id))
    }

    /// Whether nothing is to be answered because a client or the server takes its leave.
    fn is_taken_back(&self, asked: &Asked, facts: Facts) -> bool {
        let session = asked.session.map(|session| &self.books[session]);
        let is_over = |(book, id): (&Book, u64)| {
            book.is_settled(id) || book.is_deleted || book.gone.is_some()
        };
        facts.drains || session.zip(asked.id).is_some_and(is_over)
    }

    fn listens(&self, asked: &Asked) -> u32 {
        asked.session.map_or(0, |session| self.books[session].listens)
    }

    /// There is nothing more of a stream: whether that may be.
    pub(super) fn lose(&mut self, asked: &Asked, stream: u32, now: Moment) -> bool {
        let Some(session) = asked.session else { return false };
        let book = &mut self.books[session];
        if book.must_be_open(stream, now) || book.must_be_kept(stream, now) {
            return false;
        }
        book.streams.entry(stream).or_default().is_lost = true;
        true
    }

    fn begin_session(&mut self, head: &Head, now: Moment, facts: Facts) -> Result<(), String> {
        let id = head.session.clone().ok_or("a session begins without a name")?;
        self.chronicle.borrow_mut().begin(&id)?;
        let revision = Revision::LATEST_LEGACY;
        let mut book = Book::new(self.number, id, revision, now);
        book.forgets = facts.forgets;
        self.books.push(book);
        self.tally.sessions += 1;
        Ok(())
    }
}
