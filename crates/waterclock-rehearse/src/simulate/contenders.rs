//! The policies that are compared: limits in a few words, policies of a file, or every algorithm at the same rate.

use waterclock::{Algorithm, CalendarUnit, Limit, MAX_LOG};
use waterclock_config::{Config, Micros, PolicyConfig};

use super::refuse_concurrency;
use crate::Error;

/// A policy under the name it has in the picture.
pub struct Contender {
    /// How the picture and the table call it.
    pub name: String,
    /// The policy.
    pub config: PolicyConfig,
}

impl Contender {
    /// A policy of one limit in a few words, such as `1000/1h sliding-window`.
    pub fn of_words(text: &str) -> Result<Contender, Error> {
        Ok(Contender { name: text.to_owned(), config: limit_of_words(text, text)? })
    }

    /// The policies of a file with these names, or all of them; and warnings about those that are left out.
    pub fn of_file(
        mut config: Config,
        names: &[String],
    ) -> Result<(Vec<Contender>, Vec<String>), Error> {
        let (policies, left_out) = if names.is_empty() {
            if config.policies.is_empty() {
                return Err(format!("{}: there is no policy in it", config.file).into());
            }
            std::mem::take(&mut config.policies)
                .into_iter()
                .partition::<Vec<PolicyConfig>, _>(|policy| !policy.policy().reserves_only())
        } else {
            let chosen = names.iter().map(|name| config.choose(Some(name)));
            (chosen.collect::<Result<Vec<_>, _>>()?, Vec::new())
        };
        let warning = |policy: &PolicyConfig| {
            format!(
                "policy `{}` is left out: concurrency limits cannot be simulated",
                policy.name()
            )
        };
        let warnings = left_out.iter().map(warning).collect();
        let contender = |config: PolicyConfig| Contender { name: config.name().to_owned(), config };
        let contenders: Vec<Contender> = policies.into_iter().map(contender).collect();
        refuse_concurrency(&contenders)?;
        Ok((contenders, warnings))
    }

    /// Every algorithm that limits a rate, at the rate of this limit.
    pub fn of_every_algorithm(text: &str) -> Result<Vec<Contender>, Error> {
        let config = limit_of_words("example", text)?;
        let Some(Rate { units, per }) = config.limits().first().and_then(Rate::of) else {
            return Err(format!("`{text}` has no rate; write one such as \"10/s\"").into());
        };
        // Half a limit per drip where that is whole, so that the bucket does not behave like gcra.
        let (drip, every) = if units % 2 == 0 && per.0 % 2 == 0 {
            (units / 2, Micros(per.0 / 2))
        } else {
            (units, per)
        };
        let gap = Micros(per.0.div_ceil(units));
        let mut file = String::new();
        for algorithm in Algorithm::NAMES {
            let numbers = match *algorithm {
                // They limit no rate.
                "concurrency" | "error-rate" => continue,
                // Half a slot must be at least a nanosecond.
                "even-slots" if u128::from(units) > 500 * u128::from(per.0) => continue,
                "leaky-bucket" => format!("capacity = {units}, drip = {drip}, every = \"{every}\""),
                "fixed-window" => format!("limit = {units}, per = \"{per}\", align = \"epoch\""),
                "min-interval" => format!("every = \"{gap}\""),
                // Too many for an exact log.
                "rolling-window" if units > MAX_LOG => {
                    format!("limit = {units}, per = \"{per}\", buckets = 100")
                }
                _ => format!("limit = {units}, per = \"{per}\""),
            };
            file.push_str(&format!(
                "policies.{algorithm}.limits = [{{ algorithm = \"{algorithm}\", {numbers} }}]\n"
            ));
        }
        Ok(Contender::of_file(Config::read("every algorithm", &file)?, &[])?.0)
    }
}

/// A policy of this name with one limit in a few words. The error advises what can be typed.
pub fn limit_of_words(name: &str, text: &str) -> Result<PolicyConfig, Error> {
    PolicyConfig::of_shorthand(name, text).map_err(|invalid| {
        let sentence = invalid.to_string();
        match sentence.rsplit_once("; ") {
            // A table cannot be typed here.
            Some((why, advice)) if advice.contains("a table") => format!(
                "{why}; here a limit is a rate such as \"20/s\", alone or followed by gcra, fixed-window, sliding-window, rolling-window, quota or even-slots; others go into a file, which -c names"
            )
            .into(),
            _ => sentence.into(),
        }
    })
}

/// The rate of the first policy that has one.
pub(super) fn pace(contenders: &[Contender]) -> Result<Rate, Error> {
    let limits = contenders.iter().flat_map(|contender| contender.config.limits());
    let pace = limits.filter_map(Rate::of).next();
    pace.ok_or_else(|| "no limit here limits a rate, so there is nothing to simulate".into())
}

/// Units per time, in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many units.
    pub units: u64,
    /// In which time.
    pub per: Micros,
}

impl Rate {
    /// Reads a rate such as `15/s` or `100 per minute`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Rate> {
        PolicyConfig::of_shorthand("example", text).ok()?.limits().first().and_then(Rate::of)
    }

    /// The rate of a limit, if it limits one.
    fn of(limit: &Limit) -> Option<Rate> {
        if limit.threshold().is_some() {
            return None;
        }
        let units = limit.limit().or(limit.drip()).unwrap_or(1);
        let days = |unit: CalendarUnit| match unit {
            CalendarUnit::Day => 1,
            CalendarUnit::Week => 7,
            CalendarUnit::Month => 30,
            CalendarUnit::Year => 365,
        };
        let per = match limit.calendar().and_then(|calendar| calendar.unit()) {
            Some(unit) => Micros(days(unit) * 86_400_000_000),
            None => Micros::from(limit.period().or(limit.every())?),
        };
        Some(Rate { units, per })
    }
}
