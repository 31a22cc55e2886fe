//! Who is compared: limits in a few words, policies of a file, or every algorithm at the same rate.

use waterclock::MAX_LOG;
use waterclock_config::{AlgorithmSpec, Config, LimitSpec, Micros, PolicyConfig, Window};

use crate::failure::{Failure, say};
use crate::words::limit_in_words;

/// A policy under the name it has in the picture.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) spec: PolicyConfig,
}

/// A policy of one limit in a few words, under these words.
pub(super) fn in_words(text: &str) -> Result<Subject, Failure> {
    let spec = PolicyConfig { name: text.to_owned(), ..limit_in_words(text)? };
    Ok(Subject { name: text.to_owned(), spec })
}

/// These policies of a file, or all of them.
pub(super) fn of_file(mut config: Config, names: &[String]) -> Result<Vec<Subject>, Failure> {
    let specs = if names.is_empty() {
        if config.policies.is_empty() {
            return Err(format!("{}: there is no policy in it", config.file).into());
        }
        let (held, checked): (Vec<PolicyConfig>, Vec<PolicyConfig>) =
            std::mem::take(&mut config.policies)
                .into_iter()
                .partition(|spec| spec.built.reserves_only());
        for spec in &held {
            let name = &spec.name;
            say(&format!(
                "warning: policy `{name}` is left out: what it limits is held, and nobody holds here"
            ));
        }
        checked
    } else {
        names.iter().map(|name| config.choose(Some(name))).collect::<Result<_, _>>()?
    };
    specs.into_iter().map(|spec| Ok(Subject { name: spec.name.clone(), spec })).collect()
}

/// Every algorithm that limits a rate, with the rate of this one limit.
pub(super) fn every_algorithm(text: &str) -> Result<Vec<Subject>, Failure> {
    let spec = limit_in_words(text)?;
    let Some((units, per)) = spec.limits.first().and_then(rate) else {
        return Err(format!("`{text}` has no rate; write one such as \"10/s\"").into());
    };
    // Half a limit at a time where that is whole, so that a drip is not a token.
    let (drip, every) = if units % 2 == 0 && per.0 % 2 == 0 {
        (units / 2, Micros(per.0 / 2))
    } else {
        (units, per)
    };
    let gap = Micros(per.0.div_ceil(units));
    let mut file = String::new();
    for algorithm in [
        "gcra",
        "leaky-bucket",
        "fixed-window",
        "sliding-window",
        "rolling-window",
        "quota",
        "even-slots",
        "min-interval",
    ] {
        // Half a slot is at least a nanosecond, and so are slots at most.
        if algorithm == "even-slots" && u128::from(units) > 500 * u128::from(per.0) {
            continue;
        }
        let numbers = match algorithm {
            "leaky-bucket" => format!("capacity = {units}, drip = {drip}, every = \"{every}\""),
            "fixed-window" => format!("limit = {units}, per = \"{per}\", align = \"epoch\""),
            "min-interval" => format!("every = \"{gap}\""),
            // A log of so many would not be kept by anybody.
            "rolling-window" if units > MAX_LOG => {
                format!("limit = {units}, per = \"{per}\", buckets = 100")
            }
            _ => format!("limit = {units}, per = \"{per}\""),
        };
        file.push_str(&format!(
            "policies.{algorithm}.limits = [{{ algorithm = \"{algorithm}\", {numbers} }}]\n"
        ));
    }
    of_file(Config::read("every algorithm", &file)?, &[])
}

/// How many units a limit lets through in the long run, and in which time.
pub(super) fn rate(limit: &LimitSpec) -> Option<(u64, Micros)> {
    const SHORTEST_YEAR: Micros = Micros(365 * 86_400_000_000);
    Some(match &limit.algorithm {
        AlgorithmSpec::Gcra { limit, per, .. }
        | AlgorithmSpec::SlidingWindow { limit, per }
        | AlgorithmSpec::RollingWindow { limit, per, .. }
        | AlgorithmSpec::Quota { limit, per }
        | AlgorithmSpec::EvenSlots { limit, per } => (*limit, *per),
        AlgorithmSpec::LeakyBucket { drip, every, .. } => (*drip, *every),
        AlgorithmSpec::FixedWindow { limit, window: Window::First(per) | Window::Epoch(per) } => {
            (*limit, *per)
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, .. } } => {
            let days = match *per {
                "day" => 1,
                "week" => 7,
                "month" => 30,
                _ => return Some((*limit, SHORTEST_YEAR)),
            };
            (*limit, Micros(days * 86_400_000_000))
        }
        AlgorithmSpec::MinInterval { every } => (1, *every),
        AlgorithmSpec::ErrorRate { .. } | AlgorithmSpec::Concurrency { .. } => return None,
    })
}
