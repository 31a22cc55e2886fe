//! What must hold of a round, whatever was done to its servers.

use std::time::Duration;

use crate::history::{Call, Span};

/// The server of Redis counts whole microseconds.
const TICK: Duration = Duration::from_micros(1);
/// Two answers from a server's own share belong to one outage if no more than this lies between them.
const GAP: Duration = Duration::from_secs(2);

/// What a policy publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) policy: &'static str,
    pub(crate) capacity: u64,
    pub(crate) limit: u64,
    pub(crate) per: Duration,
    /// What all servers together may have taken in leases, and not spent.
    pub(crate) leased: u64,
}

/// Complains about a window in which a key was admitted more than its policy publishes: the bound, a capacity (and what was
/// leased) for each time that Redis lost its state, and for each outage in which servers served their shares twice the
/// capacity, and what a server that finds Redis later than the others admits beside them.
pub(crate) fn over_admission(
    calls: &[Call],
    published: &Published,
    losses: &[Span],
) -> Result<(), String> {
    let of_policy = |call: &&Call| call.policy == published.policy && call.granted > 0;
    let mut keys: Vec<&str> = calls.iter().filter(of_policy).map(|call| &*call.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let all: Vec<&Call> =
            calls.iter().filter(of_policy).filter(|call| call.key == key).collect();
        let by_store = all.iter().filter(|call| call.source != "local").copied().collect();
        let complain = |why| format!("over-admission of {}/{key}: {why}", published.policy);
        worst_window(by_store, published, losses, &[]).map_err(complain)?;
        let outages = outages(&all);
        worst_window(all, published, losses, &outages).map_err(complain)?;
    }
    Ok(())
}

/// The times in which servers answered from their own shares.
fn outages(calls: &[&Call]) -> Vec<Span> {
    let mut local: Vec<Span> = calls
        .iter()
        .filter(|call| call.source == "local")
        .map(|call| (call.invoked, call.returned))
        .collect();
    local.sort();
    let mut outages: Vec<Span> = Vec::new();
    for (from, to) in local {
        match outages.last_mut() {
            Some(last) if from <= last.1 + GAP => last.1 = last.1.max(to),
            _ => outages.push((from, to)),
        }
    }
    outages
}

fn worst_window(
    mut calls: Vec<&Call>,
    published: &Published,
    losses: &[Span],
    outages: &[Span],
) -> Result<(), String> {
    calls.sort_by_key(|call| call.returned);
    for first in &calls {
        let mut granted = 0;
        for last in calls.iter().filter(|call| call.invoked >= first.invoked) {
            granted += u128::from(last.granted);
            let window = (first.invoked, last.returned);
            let within = |spans: &[Span]| {
                let (from, to) = window;
                spans.iter().filter(|span| span.0 <= to && span.1 >= from).copied().collect()
            };
            let (losses, outages): (Vec<Span>, Vec<Span>) = (within(losses), within(outages));
            let capacity = u128::from(published.capacity);
            let leased = u128::from(published.leased);
            let lost = losses.len() as u128 * (capacity + leased);
            // Its end is when the last of them noticed; a second for calls that were under way.
            let beside = |(from, to): &Span| {
                3 * capacity + refilled(published, *to - *from + Duration::from_secs(1))
            };
            let shares: u128 = outages.iter().map(beside).sum();
            let time = window.1 - window.0 + TICK;
            let bound = capacity + leased + refilled(published, time) + lost + shares;
            if granted > bound {
                return Err(format!(
                    "{granted} in {time:?} from {:?} on, of at most {bound}; {} losses, {} outages",
                    window.0,
                    losses.len(),
                    outages.len()
                ));
            }
        }
    }
    Ok(())
}

/// What comes back in a time, rounded down.
fn refilled(published: &Published, time: Duration) -> u128 {
    u128::from(published.limit) * time.as_nanos() / published.per.as_nanos()
}

/// Complains if more is held at once than the limit: from the answer that it is held until it is given back.
pub(crate) fn held_at_once(held: &[Span], limit: usize, losses: &[Span]) -> Result<(), String> {
    for (at, _) in held {
        let now = held.iter().filter(|(from, to)| from <= at && to > at).count();
        let lost = losses.iter().filter(|(from, _)| from <= at).count();
        if now > limit * (1 + lost) {
            return Err(format!("{now} held at once at {at:?}, of {limit}; {lost} losses"));
        }
    }
    Ok(())
}

/// Complains about calls that passed while their key was blocked.
pub(crate) fn blocked(
    calls: &[Call],
    key: &str,
    spans: &[Span],
    losses: &[Span],
) -> Result<(), String> {
    for call in calls.iter().filter(|call| call.key == key && call.granted > 0) {
        let (from, to) = (call.invoked, call.returned);
        let is_blocked = spans.iter().find(|span| span.0 < from && to < span.1);
        // With its state, Redis loses the override.
        if let Some(span) = is_blocked
            && !losses.iter().any(|lost| lost.1 >= span.0 && lost.0 <= to)
        {
            return Err(format!("passed a block of {span:?}: {call:?}"));
        }
    }
    Ok(())
}

/// What was used by reservations: at least, and at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Used {
    pub(crate) fn add(&mut self, one: u64, other: u64) {
        self.least += one.min(other);
        self.most += one.max(other);
    }

    /// Complains if the store counts otherwise. What it lost it need not count.
    pub(crate) fn compare(self, counted: u64, losses: &[Span]) -> Result<(), String> {
        let least = if losses.is_empty() { self.least } else { 0 };
        if (least..=self.most).contains(&counted) {
            return Ok(());
        }
        Err(format!("conservation: {counted} used, not {least} to {}", self.most))
    }
}
