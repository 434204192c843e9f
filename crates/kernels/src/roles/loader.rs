//! The loading role: a warp that fills rings of shared memory by tensor copies.
//!
//! All its lanes wait for slots together; one thread issues the copies ([`Copier`]). In which order a work tile's
//! queries, keys and values come is the order in which the warps that multiply ask for them ([`Order`]).

use crate::call::index::KvTile;
use crate::call::task::{Keys, OpenTile};
use crate::moves::copies::{Counter, Panels, Runs, Tail};
use ptx::build::{Builder, Reg, Signals, TensorMapParam};

/// How a warp issues copies and publishes what they bring.
#[derive(Clone, Copy, Debug)]
pub struct Copier {
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    /// Publishes tiles whose last rows must be cleared first.
    tail: Tail,
}

/// What becomes of rows past the end of a sequence, where memory may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsPastEnd {
    /// Nothing: their scores are hidden.
    Stay,
    /// They are cleared: probabilities of zero are multiplied with them.
    Cleared,
}

impl RowsPastEnd {
    /// Cleared if `cleared`.
    pub fn cleared_if(cleared: bool) -> Self {
        if cleared { RowsPastEnd::Cleared } else { RowsPastEnd::Stay }
    }
}

impl Copier {
    /// The copies of the warp whose `lead` issues them; `signals` are its own, of one arrival each.
    #[track_caller]
    pub fn new(b: &mut Builder, lead: Reg<bool>, signals: &Signals) -> Self {
        Copier { lead, tail: Tail::new(b, lead, signals) }
    }

    /// Announces the bytes of `to` on `counter` and issues the copies that bring them, in one thread.
    #[track_caller]
    pub fn issue(
        &self,
        b: &mut Builder,
        to: Panels,
        counter: Counter,
        copies: impl Fn(&mut Builder, Counter),
    ) {
        b.if_(self.lead, |b| {
            counter.arrive_expect(b, to.total_bytes());
            copies(b, counter);
        });
    }

    /// Fills `to` with rows of KV tile `n`, and publishes it on `full`.
    #[track_caller]
    pub fn fill(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        to: Panels,
        full: impl Into<Counter>,
        past_end: RowsPastEnd,
        copies: impl Fn(&mut Builder, Counter),
    ) {
        let issue = |b: &mut Builder, counter| self.issue(b, to, counter, &copies);
        self.fill_by_warp(b, open, n, to, full, past_end, issue);
    }

    /// The same with copies that the whole warp issues, and announces.
    #[track_caller]
    pub fn fill_by_warp(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        to: Panels,
        full: impl Into<Counter>,
        past_end: RowsPastEnd,
        issue: impl Fn(&mut Builder, Counter),
    ) {
        match past_end {
            RowsPastEnd::Cleared => self.tail.publish(b, open, n, to, full, issue),
            RowsPastEnd::Stay => issue(b, full.into()),
        }
    }

    /// Fills `to` with the rows of KV tile `n`, whose runs in pages have been looked up, and publishes it on `full`.
    #[track_caller]
    pub fn fill_runs(
        &self,
        b: &mut Builder,
        (open, n): (&OpenTile, KvTile),
        to: Panels,
        full: impl Into<Counter>,
        past_end: RowsPastEnd,
        (keys, map, runs): (&Keys, TensorMapParam, Runs),
    ) {
        self.fill_by_warp(b, open, n, to, full, past_end, |b, counter| {
            b.if_(self.lead, |b| counter.arrive_expect(b, to.total_bytes()));
            keys.copy_runs(b, self.lead, open, runs, map, to, counter);
        });
    }
}

/// In which order a work tile's rows are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Queries; keys of the next KV tile, then values of this one.
    KeysFirst,
    /// Queries; values of a KV tile, then keys of the next.
    ValuesFirst,
    /// As [`Order::KeysFirst`], but queries come behind the first keys, and also where there are no keys.
    QueriesSecond,
}

/// A warp that brings queries, keys and values.
pub trait LoadRows {
    /// Loads the queries of a work tile.
    fn load_queries(&self, b: &mut Builder, open: &OpenTile);
    /// Loads the keys of KV tile `n`; rows end only within the `last` one.
    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile, last: bool);
    /// Loads the values of KV tile `n`, where they do not come with the keys.
    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile);

    /// Loads a work tile, last KV tile first.
    fn load_work_tile(&self, b: &mut Builder, open: &OpenTile, order: Order) {
        if order != Order::QueriesSecond {
            return open.range.if_any(b, |b, n| {
                self.load_queries(b, open);
                self.load_keys(b, open, n, true);
                self.load_rest(b, open, n, order);
            });
        }
        let n = open.range.end.before(b, 1);
        let any = open.range.reaches(b, n);
        b.if_(any, |b| self.load_keys(b, open, n, true));
        self.load_queries(b, open);
        b.if_(any, |b| self.load_rest(b, open, n, order));
    }

    /// Loads everything behind the keys of KV tile `n`.
    fn load_rest(&self, b: &mut Builder, open: &OpenTile, n: KvTile, order: Order) {
        open.range.while_more(b, n, |b, next| {
            if order == Order::ValuesFirst {
                self.load_values(b, open, n);
                return self.load_keys(b, open, next, false);
            }
            self.load_keys(b, open, next, false);
            self.load_values(b, open, n);
        });
        self.load_values(b, open, n);
    }
}
