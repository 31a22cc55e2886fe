//! The policies that are compared: limits in a few words, policies of a file, or every algorithm at the same rate.

use waterclock::{Algorithm, CalendarUnit, Limit, MAX_LOG};
use waterclock_config::{Config, Invalid, Micros, PolicyConfig};

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
fn limit_of_words(name: &str, text: &str) -> Result<PolicyConfig, Error> {
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

/// A policy of this name with several limits in a few words, each with a name of its own.
pub fn limits_of_words(name: &str, texts: &[String]) -> Result<PolicyConfig, Error> {
    if let [only] = texts {
        return limit_of_words(name, only);
    }
    // Each alone first, so that an error is about one limit.
    texts.iter().try_for_each(|text| limit_of_words(name, text).map(drop))?;
    // TOML escapes as JSON does, not as Rust.
    let quoted = |text: &String| serde_json::Value::from(&**text).to_string();
    let limits: Vec<String> = texts.iter().map(quoted).collect();
    let file = format!("policies.{name}.limits = [{}]", limits.join(", "));
    let without_place = |invalid: Invalid| {
        let messages = invalid.problems().iter().map(|problem| problem.message.clone());
        messages.collect::<Vec<String>>().join("\n")
    };
    let mut config = Config::read("the limits", &file).map_err(without_place)?;
    Ok(config.choose(Some(name))?)
}

/// The limits in the arguments of a command: `10/s 1000/1h sliding-window` are two. A limit begins with a number and its
/// period; quotes around it are not needed.
#[must_use]
pub fn split_limits(arguments: &[String]) -> Vec<String> {
    let words: Vec<&str> = arguments.iter().flat_map(|text| text.split_whitespace()).collect();
    let is_number = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let begins = |at: usize| match words[at].split_once('/') {
        Some((amount, _)) => is_number(amount),
        None => is_number(words[at]) && words.get(at + 1).is_some_and(|next| *next == "per"),
    };
    let mut limits: Vec<Vec<&str>> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match limits.last_mut() {
            Some(limit) if !begins(at) => limit.push(word),
            _ => limits.push(vec![word]),
        }
    }
    limits.iter().map(|words| words.join(" ")).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_limits() {
        let split = |arguments: &[&str]| {
            split_limits(&arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(split(&["5", "per", "10", "seconds"]), ["5 per 10 seconds"]);
        assert_eq!(split(&["10/1h", "30m", "quota"]), ["10/1h 30m quota"]);
        let two = ["10/s", "1_000/1h sliding-window"];
        assert_eq!(split(&two), two);
        assert_eq!(split(&["10/s", "1_000/1h", "sliding-window"]), two);
        assert_eq!(split(&["5 per second 100 per minute"]), ["5 per second", "100 per minute"]);
        assert_eq!(split(&["nonsense", "10/s"]), ["nonsense", "10/s"]);
    }

    #[test]
    fn limits_of_one_kind_have_names_of_their_own() {
        let texts = ["10/s".to_owned(), "100/m".to_owned()];
        let policy = limits_of_words("limits", &texts).unwrap();
        let names: Vec<&str> = policy.limits().iter().map(Limit::name).collect();
        assert!(names.len() == 2 && names[0] != names[1], "{names:?}");
        let many = vec!["1/s".to_owned(); 17];
        let error = limits_of_words("limits", &many).map(drop).unwrap_err().to_string();
        assert!(error.contains("16") && !error.contains("the limits:"), "{error}");
    }
}
