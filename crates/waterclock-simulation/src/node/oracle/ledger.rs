//! Keys of which nothing comes back by itself: what callers were told is what a ledger says, to the unit, across reloads,
//! reservations and restarts.
//!
//! Where nobody can know what became of it, the ledger goes on with each possibility; a history is explained if one is left.

use std::collections::{BTreeMap, BTreeSet};

use super::super::plan::{
    Action, HELD_FOR_MS, KEYS, Line, Numbers, QUOTA, Reserve, Rule, What, capacity,
};
use super::super::run::{History, Noted, Outcome, Told};

/// What a key remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    used: u64,
    numbers: Option<usize>,
    rule: Option<Rule>,
}

/// Units that are held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    units: u64,
    until_ms: i64,
    releases: bool,
    /// Its policy was gone in between.
    is_void: bool,
}

/// One possibility.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Page {
    key: Key,
    held: BTreeMap<u32, Held>,
    /// Waits that were charged, and whose callers were not told so far.
    untold: BTreeMap<usize, u64>,
    /// How many of the reloads of this life are in force.
    reloads: usize,
    /// What snapshots say.
    in_place: Key,
    lasting: Key,
}

impl Key {
    fn capacity(&self) -> u64 {
        self.numbers.map_or(0, |numbers| capacity(QUOTA, numbers))
    }

    /// Under other numbers: at most exhausted, what was owed beyond is owed still.
    fn migrate(&mut self, numbers: Option<usize>) {
        let before = self.capacity();
        let was = std::mem::replace(&mut self.numbers, numbers);
        if was.is_none() || numbers.is_none() {
            (self.used, self.rule) = (0, None);
        } else if self.used > self.capacity() {
            self.used = self.capacity() + self.used.saturating_sub(before.max(self.capacity()));
        }
    }

    /// Whether this was told after the key was as it is.
    fn says(&self, told: &Told) -> bool {
        self.rule.is_some() || told.remaining == Some(self.capacity().saturating_sub(self.used))
    }
}

impl Page {
    /// Puts the next of these reloads in force.
    fn reload(&mut self, reloads: &[Numbers]) {
        let Some(numbers) = reloads.get(self.reloads) else { return };
        let is_gone = self.key.numbers.is_none() || numbers[QUOTA].is_none();
        self.key.migrate(numbers[QUOTA]);
        self.held.values_mut().for_each(|held| held.is_void |= is_gone);
        self.reloads += 1;
    }

    fn give_back(&mut self, units: u64) {
        self.key.used = self.key.used.saturating_sub(units);
    }

    fn start(&mut self, numbers: Option<usize>) {
        self.key = self.in_place.clone();
        self.key.migrate(numbers);
        self.held.clear();
        self.untold.clear();
        self.reloads = 0;
        self.lasting = self.in_place.clone();
    }
}

struct Ledger<'h> {
    history: &'h History,
    key: usize,
    pages: BTreeSet<Page>,
    ahead_ms: i64,
    /// Whether the clock has stepped back since the start: it then stands still for some keys.
    has_stepped_back: bool,
    /// The reloads of this life, and how many of them are over.
    reloads: Vec<Numbers>,
    reloaded: usize,
    /// Waits that are not over.
    waits: BTreeMap<usize, u64>,
    /// Waits whose callers have left, and when: what was charged is given back at once.
    left: BTreeMap<usize, u64>,
}

/// What no ledger explains.
pub(super) fn unexplained(history: &History) -> Option<String> {
    (0..KEYS.len()).find_map(|key| {
        let mut ledger = Ledger {
            history,
            key,
            pages: BTreeSet::from([Page::default()]),
            ahead_ms: 0,
            has_stepped_back: false,
            reloads: Vec::new(),
            reloaded: 0,
            waits: BTreeMap::new(),
            left: BTreeMap::new(),
        };
        history.noted.iter().find_map(|(at_ms, noted)| {
            let before = ledger.pages.clone();
            ledger.go_on(*at_ms, noted);
            ledger.pages.is_empty().then(|| {
                let keys: BTreeSet<&Key> = before.iter().map(|page| &page.key).collect();
                let line = history.line(*at_ms, noted);
                format!("quota/{} was {keys:?} before {}", KEYS[key], line.trim())
            })
        })
    })
}

impl Ledger<'_> {
    fn go_on(&mut self, at_ms: u64, noted: &Noted) {
        self.meanwhile(at_ms);
        match noted {
            Noted::Started(numbers, ahead_ms) => {
                self.ahead_ms = *ahead_ms;
                self.has_stepped_back = false;
                self.reloads.clear();
                self.reloaded = 0;
                self.waits.clear();
                self.left.clear();
                self.change(|page| page.start(numbers[QUOTA]));
            }
            Noted::ClockStepped(ms) => {
                self.ahead_ms += ms;
                self.has_stepped_back |= *ms < 0;
            }
            Noted::ReloadBegan(Some(numbers)) => self.reloads.push(*numbers),
            Noted::ReloadEnded(true) => {
                self.reloaded += 1;
                self.pages.retain(|page| page.reloads >= self.reloaded);
            }
            Noted::InPlace => self.change(|page| page.in_place = page.key.clone()),
            Noted::Lasting => self.change(|page| page.lasting = page.in_place.clone()),
            // A name that was not synced may have outlasted it all the same.
            Noted::Crashed(true) => self.fork(|page| page.in_place = page.lasting.clone()),
            Noted::Stopped if !self.is_disk_full() => {
                self.change(|page| page.in_place = page.key.clone());
            }
            Noted::Spoilt => self.change(|page| page.in_place = Key::default()),
            Noted::Called(call) => {
                if let (Action::Wait(..), Some((_, line))) =
                    (&self.history.calls[*call].action, self.history.at(*call, QUOTA, self.key))
                {
                    self.waits.insert(*call, line.cost);
                }
            }
            Noted::Returned(call, outcome) => match self.waits.remove(call) {
                Some(_) => self.waited(at_ms, *call, outcome),
                None => self.returned(at_ms, *call, outcome),
            },
            _ => {}
        }
    }

    /// What may have happened by itself since something was noted last, in any order: reservations end, reloads take
    /// effect one after the other, and waits are charged before their callers are told.
    fn meanwhile(&mut self, at_ms: u64) {
        loop {
            let before = self.pages.clone();
            self.release(at_ms, false);
            let reloads = self.reloads.clone();
            self.fork(|page| page.reload(&reloads));
            self.charge_waits(at_ms);
            if self.pages == before {
                break;
            }
        }
    }

    /// Waits are charged, and what was charged for those who left is given back, before anybody is told.
    fn charge_waits(&mut self, at_ms: u64) {
        for (call, cost) in self.waits.clone() {
            self.fork(|page| {
                let fits = page.key.used + cost <= page.key.capacity();
                if fits && page.key.rule.is_none() && !page.untold.contains_key(&call) {
                    page.key.used += cost;
                    page.untold.insert(call, cost);
                }
            });
        }
        for (call, left_ms) in self.left.clone() {
            let give_back = |page: &mut Page| {
                if let Some(cost) = page.untold.remove(&call) {
                    page.give_back(cost);
                }
            };
            if at_ms > left_ms {
                self.left.remove(&call);
                self.change(give_back);
            } else {
                self.fork(give_back);
            }
        }
    }

    fn waited(&mut self, at_ms: u64, call: usize, outcome: &Outcome) {
        match outcome {
            Outcome::Left => _ = self.left.insert(call, at_ms),
            Outcome::Replies(told) if told[0].is_allowed => {
                let is_charged = |page: &Page| page.untold.contains_key(&call);
                self.pages.retain(|page| page.key.rule.is_some() || is_charged(page));
                self.change(|page| _ = page.untold.remove(&call));
            }
            _ => self.pages.retain(|page| !page.untold.contains_key(&call)),
        }
    }

    /// Whether the last snapshot may not have been written.
    fn is_disk_full(&self) -> bool {
        self.history.plan.steps.iter().any(|step| matches!(step.what, What::DiskFull(_)))
    }

    fn change(&mut self, change: impl Fn(&mut Page)) {
        self.pages = std::mem::take(&mut self.pages)
            .into_iter()
            .map(|mut page| {
                change(&mut page);
                page
            })
            .collect();
    }

    /// It may have happened, or not.
    fn fork(&mut self, change: impl Fn(&mut Page)) {
        let before = self.pages.clone();
        self.change(change);
        self.pages.extend(before);
    }

    /// Gives back what is due. Must have, if the key is asked about.
    fn release(&mut self, at_ms: u64, must: bool) {
        let now_ms = i64::try_from(at_ms).unwrap_or(0) + self.ahead_ms;
        let is_due = |held: &Held| held.until_ms <= now_ms;
        let due: BTreeSet<u32> = self
            .pages
            .iter()
            .flat_map(|page| page.held.iter().filter(|(_, held)| is_due(held)))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let is_certain =
                must && !self.has_stepped_back && !self.pages.iter().any(|page| page.is_void(id));
            let release = |page: &mut Page| {
                if let Some(held) = page.held.remove(&id)
                    && held.releases
                {
                    page.give_back(held.units);
                }
            };
            if is_certain { self.change(release) } else { self.fork(release) }
        }
    }

    fn returned(&mut self, at_ms: u64, call: usize, outcome: &Outcome) {
        let action = &self.history.calls[call].action;
        if let (Action::Settle(id, used), Outcome::Done) = (action, outcome) {
            return self.settled(*id, used.as_deref());
        }
        let Some((at, line)) = self.history.at(call, QUOTA, self.key) else { return };
        let line = *line;
        // An override asks for nothing.
        if matches!(outcome, Outcome::Replies(_) | Outcome::Reserved(..)) {
            self.release(at_ms, true);
        }
        match (action, outcome) {
            (Action::Check(lines), Outcome::Replies(told)) => {
                let is_charged = told.iter().all(|one| one.is_allowed);
                self.asked(&line, &told[at], lines.len(), is_charged, true);
            }
            (Action::Reserve(reserve), Outcome::Reserved(is_held, told)) => {
                self.asked(&line, &told[at], reserve.lines.len(), *is_held, true);
                if *is_held {
                    self.hold(at_ms, reserve, &line);
                }
            }
            (Action::Peek(_), Outcome::Replies(told)) => {
                let fits = told[0].is_allowed;
                self.asked(&line, &told[0], 1, fits, false);
            }
            (Action::Refund(_), Outcome::Replies(told)) => {
                self.change(|page| page.give_back(line.cost));
                self.pages.retain(|page| page.key.says(&told[0]));
            }
            (Action::Reset(_), Outcome::Replies(told)) => {
                self.change(|page| page.key.used = 0);
                self.pages.retain(|page| page.key.says(&told[0]));
            }
            (Action::Override(_, rule), Outcome::Done) => {
                self.change(|page| page.key.rule = *rule);
            }
            _ => {}
        }
    }

    /// A check, a reservation or a peek. One of several keys is refused for reasons of another.
    fn asked(&mut self, line: &Line, told: &Told, lines: usize, is_granted: bool, charges: bool) {
        let is_explained = |page: &Page| {
            let fits = match page.key.rule {
                Some(rule) => rule == Rule::Exempt,
                None => page.key.used + line.cost <= page.key.capacity(),
            };
            fits == is_granted || (fits && lines > 1) || told.is_held_up
        };
        self.pages.retain(is_explained);
        if is_granted && charges {
            self.change(|page| {
                if page.key.rule.is_none() {
                    page.key.used += line.cost;
                }
            });
        }
        self.pages.retain(|page| page.key.says(told));
    }

    fn hold(&mut self, at_ms: u64, reserve: &Reserve, line: &Line) {
        let now_ms = i64::try_from(at_ms + HELD_FOR_MS).unwrap_or(0) + self.ahead_ms;
        let (units, releases) = (line.cost, reserve.releases);
        self.change(|page| {
            // Of an exempt key nothing is held.
            if page.key.rule.is_none() {
                let held = Held { units, until_ms: now_ms, releases, is_void: false };
                page.held.insert(reserve.id, held);
            }
        });
    }

    fn settled(&mut self, id: u32, used: Option<&[u64]>) {
        let reserves = self.history.calls.iter().find_map(|made| match &made.action {
            Action::Reserve(reserve) if reserve.id == id => Some(&reserve.lines),
            _ => None,
        });
        let of_key = |line: &Line| (line.policy, line.key) == (QUOTA, self.key);
        let Some(at) = reserves.and_then(|lines| lines.iter().position(of_key)) else { return };
        let used = used.map_or(0, |used| used[at]);
        let settle = |page: &mut Page| {
            if let Some(held) = page.held.remove(&id) {
                page.give_back(held.units.saturating_sub(used));
                page.key.used += used.saturating_sub(held.units);
            }
        };
        let is_void = self.pages.iter().any(|page| page.is_void(id));
        if is_void { self.fork(settle) } else { self.change(settle) }
    }
}

impl Page {
    fn is_void(&self, id: u32) -> bool {
        self.held.get(&id).is_some_and(|held| held.is_void)
    }
}
