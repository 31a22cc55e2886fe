//! Planted bugs, of kinds that real limiters have: each must be caught by its property. A suite that cannot fail proves
//! nothing.

use waterclock_conformance::reference::{Algorithm, Align, Answer, Mode, PolicySpec, Verb};
use waterclock_conformance::{Core, Event, Family, Subject, property, verdict};

/// The core with a bug around it.
struct Bugged(fn(&PolicySpec, &[Event], bool) -> Vec<Answer>);

impl Subject for Bugged {
    const TICK_NS: u64 = 1;

    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer> {
        (self.0)(spec, trace, sweep)
    }
}

/// Asserts that the property fails.
fn caught(family: Family, property: &str, bug: fn(&PolicySpec, &[Event], bool) -> Vec<Answer>) {
    let mut all = property::all();
    all.retain(|one| one.name.starts_with(property));
    let counterexample = verdict(&Bugged(bug), family, &all, 10_000).expect_err("it is a bug");
    assert!(counterexample.contains(" fails for "), "{counterexample}");
}

/// Runs the core with the policy changed.
fn with_spec(spec: &PolicySpec, trace: &[Event], change: impl Fn(&mut Algorithm)) -> Vec<Answer> {
    let mut spec = spec.clone();
    spec.limits.iter_mut().for_each(|limit| change(&mut limit.algorithm));
    Core.run(&spec, trace, false)
}

/// Runs the core with one verb taken for another.
fn with_verb(spec: &PolicySpec, trace: &[Event], verb: Verb, taken_for: Verb) -> Vec<Answer> {
    with_events(spec, trace, |event| Event {
        verb: if event.verb == verb { taken_for } else { event.verb },
        ..*event
    })
}

/// Runs the core with every event changed.
fn with_events(
    spec: &PolicySpec,
    trace: &[Event],
    change: impl Fn(&Event) -> Event,
) -> Vec<Answer> {
    let trace: Vec<Event> = trace.iter().map(change).collect();
    Core.run(spec, &trace, false)
}

/// Runs the core and changes every answer.
fn with_answers(spec: &PolicySpec, trace: &[Event], change: impl Fn(&mut Answer)) -> Vec<Answer> {
    let mut answers = Core.run(spec, trace, false);
    answers.iter_mut().for_each(change);
    answers
}

/// Runs the core with a reset before each event the predicate picks.
fn with_resets(spec: &PolicySpec, trace: &[Event], picks: impl Fn(usize) -> bool) -> Vec<Answer> {
    let mut events = Vec::new();
    let mut kept = Vec::new();
    for (i, event) in trace.iter().enumerate() {
        if picks(i) {
            events.push(Event { verb: Verb::Reset, ..*event });
        }
        kept.push(events.len());
        events.push(*event);
    }
    let answers = Core.run(spec, &events, false);
    kept.iter().map(|i| answers[*i].clone()).collect()
}

#[test]
fn interval_truncated_to_a_whole_number() {
    caught(Family::Gcra, "reference", |spec, trace, _| {
        with_spec(spec, trace, |algorithm| {
            if let Algorithm::Gcra { limit, per_ns, .. } = algorithm {
                (*limit, *per_ns) = (1, (*per_ns / *limit).max(1));
            }
        })
    });
}

#[test]
fn retry_time_too_early() {
    caught(Family::Gcra, "P1", |spec, trace, _| {
        with_answers(spec, trace, |answer| {
            answer.retry_after_ns = answer.retry_after_ns.map(|retry| retry.saturating_sub(1));
        })
    });
}

#[test]
fn retry_time_too_late() {
    caught(Family::Sliding, "P2", |spec, trace, _| {
        with_answers(spec, trace, |answer| {
            answer.retry_after_ns = answer.retry_after_ns.map(|retry| retry + 1);
        })
    });
}

#[test]
fn next_same_too_early_or_too_late() {
    caught(Family::Several, "next same", |spec, trace, _| {
        with_answers(spec, trace, |answer| {
            answer.next_same_ns = answer.next_same_ns.map(|wait| wait.saturating_sub(1));
        })
    });
    caught(Family::Quota, "next same", |spec, trace, _| {
        with_answers(spec, trace, |answer| {
            answer.next_same_ns = answer.next_same_ns.map(|wait| wait + 1);
        })
    });
}

#[test]
fn boundary_that_does_not_admit() {
    caught(Family::FixedFirst, "P1", |spec, trace, _| {
        let first = trace.first().map_or(0, |event| event.at_ns);
        with_events(spec, trace, |event| Event {
            at_ns: if event.at_ns > first { event.at_ns - 1 } else { first },
            ..*event
        })
    });
}

#[test]
fn remaining_that_counts_one_too_many() {
    caught(Family::Quota, "P3", |spec, trace, _| {
        with_answers(spec, trace, |answer| {
            answer.remaining = answer.remaining.map(|left| left + 1);
        })
    });
}

#[test]
fn expiry_in_whole_seconds() {
    caught(Family::LeakyStaircase, "P4", |spec, trace, _| {
        with_answers(spec, trace, |answer| {
            answer.reset_after_ns = answer.reset_after_ns / 1_000_000_000 * 1_000_000_000;
        })
    });
}

#[test]
fn sweep_that_drops_live_state() {
    caught(Family::RollingExact, "P5", |spec, trace, sweep| with_resets(spec, trace, |_| sweep));
}

#[test]
fn peek_that_charges() {
    caught(Family::Sliding, "P6", |spec, trace, _| with_verb(spec, trace, Verb::Peek, Verb::Check));
}

#[test]
fn debit_that_stops_at_the_limit() {
    caught(Family::Sliding, "reference", |spec, trace, _| {
        with_verb(spec, trace, Verb::Debit, Verb::Check)
    });
}

#[test]
fn debit_that_is_dropped() {
    caught(Family::Gcra, "P5", |spec, trace, sweep| {
        with_verb(spec, trace, Verb::Debit, if sweep { Verb::Peek } else { Verb::Debit })
    });
}

#[test]
fn breaker_that_opens_one_too_late() {
    caught(Family::ErrorRate, "reference", |spec, trace, _| {
        with_spec(spec, trace, |algorithm| {
            if let Algorithm::ErrorRate { min_samples, .. } = algorithm {
                *min_samples += 1;
            }
        })
    });
}

#[test]
fn peek_that_is_taken_for_the_probe() {
    caught(Family::ErrorRate, "P6", |spec, trace, _| {
        with_verb(spec, trace, Verb::Peek, Verb::Check)
    });
}

#[test]
fn breaker_that_is_dropped_too_early() {
    caught(Family::ErrorRate, "P4", |spec, trace, _| {
        with_answers(spec, trace, |answer| answer.reset_after_ns /= 2)
    });
}

#[test]
fn refusal_that_charges() {
    caught(Family::FixedEpoch, "P7", |spec, trace, _| {
        let spec = PolicySpec { mode: Mode::CountRefusals, ..spec.clone() };
        let mut answers = Core.run(&spec, trace, false);
        answers.iter_mut().filter(|answer| !answer.allowed).for_each(|answer| answer.granted = 0);
        answers
    });
}

#[test]
fn batch_charged_as_one() {
    caught(Family::RollingBuckets, "P8", |spec, trace, _| {
        with_events(spec, trace, |event| Event { cost: event.cost.min(1), ..*event })
    });
}

#[test]
fn step_back_that_opens_a_new_window() {
    caught(Family::FixedFirst, "P9", |spec, trace, _| {
        with_resets(spec, trace, |i| i > 0 && trace[i].at_ns < trace[i - 1].at_ns)
    });
}

#[test]
fn time_in_floating_point() {
    caught(Family::Gcra, "P10", |spec, trace, _| {
        with_events(spec, trace, |event| {
            #[expect(clippy::cast_possible_truncation, reason = "that is the bug")]
            let at_ns = (event.at_ns as f64 / 1e9 * 1e9) as u64;
            Event { at_ns, ..*event }
        })
    });
}

#[test]
fn leaky_bucket_that_drips_late() {
    caught(Family::LeakyOneByOne, "P11", |spec, trace, _| {
        with_spec(spec, trace, |algorithm| {
            if let Algorithm::LeakyBucket { every_ns, .. } = algorithm {
                *every_ns += 1;
            }
        })
    });
}

#[test]
fn window_counter_sold_as_exact() {
    caught(Family::RollingExact, "P13", |spec, trace, _| {
        with_spec(spec, trace, |algorithm| {
            if let Algorithm::RollingWindow { limit, per_ns, .. } = *algorithm {
                *algorithm = Algorithm::FixedWindow { limit, per_ns, align: Align::Epoch };
            }
        })
    });
}

#[test]
fn cost_that_wraps() {
    caught(Family::Several, "reference", |spec, trace, _| {
        with_events(spec, trace, |event| Event { cost: event.cost & 0xffff_ffff, ..*event })
    });
}
