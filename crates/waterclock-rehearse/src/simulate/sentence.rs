//! One sentence per policy that says what its lane shows, from the numbers.

use waterclock::Algorithm;
use waterclock_config::Micros;

use super::report::bound;
use super::{Contender, Played};
use crate::report::grouped;

/// What the policy did to this traffic: how its busiest time came about, and what it refused.
pub(super) fn sentence(contender: &Contender, played: &Played) -> String {
    let mut text = busiest(contender, played);
    let refused = played.refused();
    if refused > 0 {
        let wait = played.longest_wait().map_or_else(String::new, |wait| match wait.us() {
            Some(_) => format!(", and asks for a wait of up to {wait}"),
            None => ", some of it for good".to_owned(),
        });
        let (refused, requests) = (grouped(refused), grouped(played.requests));
        text.push_str(&format!(" Refuses {refused} of {requests}{wait}."));
    } else {
        text.push_str(" Refuses nothing.");
    }
    if played.in_shadow > 0 {
        let in_shadow = grouped(played.in_shadow);
        text.push_str(&format!(" Shadow limits would refuse {in_shadow}."));
    }
    text
}

fn busiest(contender: &Contender, played: &Played) -> String {
    let (worst, window_us) = (played.most.worst(), played.most.window_us());
    let (all, units) = (worst.requests, played.most.units());
    let what = match units == all {
        true => grouped(all),
        false => format!("{} requests ({} units)", grouped(all), grouped(units)),
    };
    let in_words = |us: u64| Micros(us).rounded().in_words();
    let lets = format!("Lets {what} through in its worst {}", Micros(window_us).in_words());
    let (soon, soon_us) = (worst.soon, played.most.soon_us());
    match played.most.shortest_gap_us() {
        _ if played.allowed == 0 => "Lets nothing through.".to_owned(),
        // Only keys that the limits do not count.
        _ if all == 0 => format!("Lets {} through.", grouped(played.allowed)),
        _ if all == 1 => format!("{lets}."),
        // Nothing is ever close to its neighbour.
        Some(gap_us) if u128::from(gap_us) * u128::from(all) * 10 >= u128::from(window_us) * 8 => {
            format!("{lets}: one at a time, at least {} apart.", in_words(gap_us))
        }
        _ if is_across_windows(contender, played) => {
            let span = in_words(worst.last_us - worst.first_us);
            format!("{lets}, within {span}: the end of one window and the beginning of the next.")
        }
        _ if soon == all => format!("{lets}, all within {}.", in_words(soon_us)),
        _ if soon * 5 >= all => format!(
            "{lets}: {} within {} and {} more over the rest of it.",
            grouped(soon),
            in_words(soon_us),
            grouped(all - soon)
        ),
        _ => match saved_up(contender, played).filter(|_| units == all) {
            Some(saved) => format!(
                "{lets}: at least {} saved up before it, the rest as they return.",
                grouped(saved)
            ),
            None => format!("{lets}."),
        },
    }
}

/// How many of those that a bucket lets through cannot have returned during the window. None where keys have limits of
/// their own.
fn saved_up(contender: &Contender, played: &Played) -> Option<u64> {
    let [only] = contender.config.limits() else { return None };
    let is_bucket = matches!(only.algorithm(), Algorithm::Gcra(_));
    if !is_bucket || contender.config.scope.names_keys() || bound(contender, played).is_none() {
        return None;
    }
    let (limit, period) = (u128::from(only.limit()?), only.period()?.as_micros());
    let returned = (limit * u128::from(played.most.window_us())).div_ceil(period.max(1));
    u64::try_from(u128::from(played.most.units()).checked_sub(returned)?)
        .ok()
        .filter(|saved| *saved > 0)
}

/// Whether one fixed window cannot explain so many, and two can.
fn is_across_windows(contender: &Contender, played: &Played) -> bool {
    let [only] = contender.config.limits() else { return false };
    let is_fixed = matches!(only.algorithm(), Algorithm::FixedWindow(_));
    let is_two = |limit: u64| {
        let is_bound = bound(contender, played).is_some_and(|most| most <= limit.saturating_mul(2));
        is_bound && played.most.units() > limit
    };
    is_fixed && only.limit().is_some_and(is_two)
}
