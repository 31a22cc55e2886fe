//! One sentence per policy that says what its lane shows, from the numbers.

use waterclock::{Algorithm, Limit};
use waterclock_config::Micros;

use super::{Contender, Played};
use crate::report::grouped;

/// What the policy did to this traffic: how its busiest time came about, and what it refused.
pub(super) fn sentence(contender: &Contender, played: &Played) -> String {
    let mut text = busiest(contender.config.limits(), played);
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

fn busiest(limits: &[Limit], played: &Played) -> String {
    let (worst, window_us) = (played.most.worst(), played.most.window_us());
    let (all, window) = (worst.requests, Micros(window_us).in_words());
    let lets = format!("Lets {} through in its worst {window}", grouped(all));
    let (at_once, rest) = (worst.at_once, all - worst.at_once);
    let span_us = worst.last_us - worst.first_us;
    match played.most.shortest_gap_us() {
        _ if all == 0 => "Lets nothing through.".to_owned(),
        _ if all == 1 => format!("{lets}."),
        // Nothing is ever close to its neighbour.
        Some(gap_us) if u128::from(gap_us) * u128::from(all) * 10 >= u128::from(window_us) * 8 => {
            let gap = Micros(gap_us).rounded().in_words();
            format!("{lets}: one at a time, at least {gap} apart.")
        }
        _ if is_across_windows(limits, all) => {
            let span = Micros(span_us).rounded().in_words();
            format!("{lets}, within {span}: the end of one window and the beginning of the next.")
        }
        _ if rest == 0 => format!("{lets}, all at once."),
        _ if at_once * 5 >= all * 4 => {
            format!("{lets}: {} at once, and hardly any more.", grouped(at_once))
        }
        _ if at_once * 5 >= all => format!(
            "{lets}: {} at once and {} more over the rest of it.",
            grouped(at_once),
            grouped(rest)
        ),
        _ => format!("{lets}."),
    }
}

/// Whether one fixed window cannot explain so many.
fn is_across_windows(limits: &[Limit], requests: u64) -> bool {
    let [only] = limits else { return false };
    matches!(only.algorithm(), Algorithm::FixedWindow(_))
        && only.limit().is_some_and(|limit| requests > limit)
}
