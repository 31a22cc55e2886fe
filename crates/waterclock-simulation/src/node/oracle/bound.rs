//! Over-admission across reloads and restarts: what callers were granted, by their own logs alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::plan::{Action, HELD, HELD_FOR_MS, KEYS, NAMES, Reserve, capacity, limit};
use super::super::run::{History, Noted};
use super::is_granted;

/// Units that a caller was granted.
struct Granted {
    units: u64,
    at_ms: u64,
    /// Where it is noted.
    at: usize,
    /// Where the restart is noted that has forgotten it.
    lost_at: Option<usize>,
}

/// How more was admitted of a key than its bound allows.
pub(super) fn admitted_too_much(history: &History) -> Option<String> {
    too_many_held(history).or_else(|| {
        (0..HELD).find_map(|policy| (0..KEYS.len()).find_map(|key| check(history, policy, key)))
    })
}

fn check(history: &History, policy: usize, key: usize) -> Option<String> {
    let all = grants(history, policy, key);
    for (i, first) in all.iter().enumerate() {
        let mut units = 0;
        for last in &all[i..] {
            units += last.units;
            let is_lost = |one: &&Granted| one.lost_at.is_some_and(|at| at < last.at);
            let lost: u64 = all[i..].iter().filter(is_lost).map(|one| one.units).sum();
            let most = allowed(history, policy, key, first, last) + lost;
            if units > most {
                return Some(format!(
                    "{units} units of {}/{} were granted between {} ms and {} ms, and {most} are the most",
                    NAMES[policy], KEYS[key], first.at_ms, last.at_ms
                ));
            }
        }
    }
    None
}

fn grants(history: &History, policy: usize, key: usize) -> Vec<Granted> {
    let mut all: Vec<Granted> = Vec::new();
    let (mut in_place, mut lasting) = (None, None);
    for (at, (at_ms, noted)) in history.noted.iter().enumerate() {
        let mut lose = |since: Option<usize>| {
            for one in all.iter_mut().filter(|one| since.is_none_or(|since| one.at > since)) {
                one.lost_at.get_or_insert(at);
            }
        };
        match noted {
            Noted::InPlace => in_place = Some(at),
            Noted::Lasting => lasting = in_place,
            Noted::Crashed(is_power_loss) => lose(if *is_power_loss { lasting } else { in_place }),
            // It says when it cannot write the last snapshot.
            Noted::Stopped => lose(in_place),
            Noted::Spoilt => {
                lose(None);
                (in_place, lasting) = (None, None);
            }
            Noted::Started(..) => lasting = in_place,
            Noted::Returned(call, outcome) => {
                let action = &history.calls[*call].action;
                let asks =
                    matches!(action, Action::Check(_) | Action::Wait(..) | Action::Reserve(_));
                if let Some((_, line)) = history.at(*call, policy, key)
                    && asks
                    && is_granted(outcome)
                {
                    let (units, at_ms) = (line.cost, *at_ms);
                    all.push(Granted { units, at_ms, at, lost_at: None });
                }
            }
            _ => {}
        }
    }
    all
}

/// The bound of a window: of its limits, and what reloads and callers give back.
fn allowed(history: &History, policy: usize, key: usize, start: &Granted, end: &Granted) -> u64 {
    let mut length = Duration::from_millis(end.at_ms - start.at_ms) + Duration::from_micros(1);
    let mut extra = 0;
    let mut numbers = Vec::new();
    let mut ahead_ms = 0;
    let most = (0..3).map(|numbers| capacity(policy, numbers)).max().unwrap_or(0);
    for (at, (at_ms, noted)) in history.noted.iter().enumerate().take(end.at) {
        // A waiting caller gets its answer a turn after it was charged, so a refund in between is noted first.
        let is_within = at > start.at || *at_ms == start.at_ms;
        match noted {
            Noted::Started(now, ahead) => {
                if at > start.at && *ahead > ahead_ms {
                    length += Duration::from_millis(ahead.abs_diff(ahead_ms));
                }
                ahead_ms = *ahead;
                numbers.push((at, now[policy]));
            }
            Noted::ClockStepped(ms) => {
                // After a step back, shards that were asked before it are ahead of the others. A check of several keys
                // takes the latest of their instants, which lets time pass for some: see the findings in the README.
                if is_within || *ms < 0 {
                    length += Duration::from_millis(ms.unsigned_abs());
                }
                ahead_ms += ms;
            }
            Noted::ReloadBegan(Some(now)) => numbers.push((at, now[policy])),
            Noted::Returned(call, _) => {
                let line = history.at(*call, policy, key).map(|(_, line)| line);
                match (&history.calls[*call].action, line) {
                    (Action::Refund(_), Some(line)) if is_within => extra += line.cost,
                    (Action::Reset(_), Some(_)) if is_within => extra += most,
                    // Those that are exempt are not charged.
                    (Action::Override(..), Some(_)) => extra += 100_000,
                    (Action::Reserve(_), Some(line)) => extra += line.cost,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    // Those in force when it begins: a reload may have been on its way.
    let before = numbers.partition_point(|(at, _)| *at <= start.at).saturating_sub(2);
    let in_force: Vec<Option<usize>> = numbers[before..].iter().map(|(_, one)| *one).collect();
    let is_bucket = policy < 2;
    let of = |numbers: &usize| {
        let most = limit(policy, *numbers).most_within(length, 3).unwrap_or(u64::MAX / 4);
        most - if is_bucket { capacity(policy, *numbers) } else { 0 }
    };
    let bound = in_force.iter().flatten().map(of).max().unwrap_or(0);
    // What is raised keeps the units spent; a policy that was gone is fresh.
    let raised = in_force.windows(2).map(|two| match (two[0], two[1]) {
        (Some(old), Some(new)) => capacity(policy, new).saturating_sub(capacity(policy, old)),
        (None, Some(new)) => capacity(policy, new),
        _ => 0,
    });
    let first = in_force.first().copied().flatten().map_or(0, |one| capacity(policy, one));
    let fresh = in_force.windows(2).filter(|two| two[0].is_none()).count() as u64 * most;
    bound + extra + if is_bucket { first + raised.sum::<u64>() } else { fresh }
}

/// How more places are held of a key than there are.
fn too_many_held(history: &History) -> Option<String> {
    // By number of the reservation: until when, which key, how many.
    let mut held: BTreeMap<u32, (u64, usize, u64)> = BTreeMap::new();
    let mut back_ms = 0;
    let mut numbers = Vec::new();
    for (at_ms, noted) in &history.noted {
        match noted {
            Noted::Started(now, _) => {
                held.clear();
                back_ms = 0;
                numbers = vec![now[HELD]];
            }
            Noted::ReloadBegan(Some(now)) => numbers.push(now[HELD]),
            // Time may be over sooner than it seems, and a policy that was gone holds nothing.
            Noted::ClockStepped(ms) => {
                held.clear();
                // As in a window: a call about several keys may let so much time pass for one of them.
                back_ms += ms.min(&0).unsigned_abs();
            }
            Noted::Returned(call, outcome) if is_granted(outcome) => {
                let Action::Reserve(Reserve { id, lines, .. }) = &history.calls[*call].action
                else {
                    continue;
                };
                let Some(line) = lines.iter().find(|line| line.policy == HELD) else { continue };
                if numbers.iter().any(Option::is_none) {
                    held.clear();
                }
                let until_ms = at_ms + HELD_FOR_MS.saturating_sub(back_ms);
                held.insert(*id, (until_ms, line.key, line.cost));
                let live =
                    held.values().filter(|(until, key, _)| until > at_ms && *key == line.key);
                let live: u64 = live.map(|(_, _, units)| units).sum();
                let most = numbers.iter().flatten().map(|one| capacity(HELD, *one)).max();
                if live > most.unwrap_or(0) {
                    return Some(format!("{live} places of held/{} are held", KEYS[line.key]));
                }
            }
            Noted::Returned(call, _) => {
                if let Action::Settle(id, _) = &history.calls[*call].action {
                    held.remove(id);
                }
            }
            _ => {}
        }
    }
    None
}
