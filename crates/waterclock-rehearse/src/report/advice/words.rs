//! Limits as people write them: in a few words, and as TOML.

use serde_json::{Map, Value};
use waterclock::{Algorithm, Limit};
use waterclock_config::english::in_short;
use waterclock_config::{LimitFields, Micros};

use crate::terminal::grouped;

/// Its numbers: `30/min, capacity 5`.
pub(in crate::report) fn words(limit: &Limit) -> String {
    let unit = limit.unit();
    let units = if unit == "requests" { String::new() } else { format!(" {unit}") };
    let (Some(number), Some(period), None) = (limit.limit(), limit.period(), limit.lease()) else {
        return in_short(limit);
    };
    if matches!(limit.algorithm(), Algorithm::ErrorRate(_)) {
        return in_short(limit);
    }
    let period = Micros::from(period).in_words();
    // One minute is `min`; others have their number.
    let one = period.strip_prefix("1 ").filter(|unit| !unit.contains(' '));
    let capacity = limit.capacity().filter(|capacity| *capacity != number);
    let capacity =
        capacity.map_or_else(String::new, |most| format!(", capacity {}", grouped(most)));
    format!("{}{units}/{}{capacity}", grouped(number), one.unwrap_or(&period))
}

/// The keys of a limit in a file, in the order in which people write them.
const KEYS: [&str; 17] = [
    "name",
    "algorithm",
    "limit",
    "per",
    "capacity",
    "drip",
    "every",
    "buckets",
    "threshold",
    "min_samples",
    "cool_down",
    "lease",
    "align",
    "timezone",
    "overdraft",
    "min_interval",
    "unit",
];

/// As an entry of `limits` in a configuration.
pub(in crate::report) fn toml(limit: &Limit) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(LimitFields::from(limit)) else {
        return String::new();
    };
    if fields.get("name") == fields.get("algorithm") {
        fields.remove("name");
    }
    if fields.get("capacity") == fields.get("limit") {
        fields.remove("capacity");
    }
    let keys = KEYS.iter().chain(&["shadow"]);
    let pairs: Vec<String> =
        keys.filter_map(|key| Some(format!("{key} = {}", value(&fields, key)?))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// A value as TOML has it, which writes strings and numbers as JSON does, and durations with their units.
fn value(fields: &Map<String, Value>, key: &str) -> Option<String> {
    let in_micros = || Some(Micros(fields.get(&format!("{key}_us"))?.as_u64()?).to_string());
    in_micros().map(Value::from).as_ref().or(fields.get(key)).map(Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waterclock_config::Config;

    #[test]
    fn words_and_text_that_configurations_take() {
        let cases = [
            ("\"60/m\"", "60/min"),
            (
                "{ algorithm = \"gcra\", limit = 6000, per = \"1h\", capacity = 50 }",
                "6,000/h, capacity 50",
            ),
            (
                "{ algorithm = \"gcra\", limit = 5, per = \"90m\", overdraft = true }",
                "5/1 h 30 min",
            ),
            (
                "{ name = \"day\", algorithm = \"rolling-window\", limit = 9, per = \"1d\", buckets = 24 }",
                "9/d",
            ),
            (
                "{ algorithm = \"fixed-window\", limit = 9, per = \"10s\", align = \"epoch\", shadow = true }",
                "9/10 s",
            ),
            (
                "{ algorithm = \"fixed-window\", limit = 9, per = \"month\", align = \"calendar\", timezone = \"Europe/Berlin\" }",
                "9 per month",
            ),
            (
                "{ algorithm = \"leaky-bucket\", capacity = 6, drip = 2, every = \"4s\" }",
                "capacity 6, drip 2 every 4 s",
            ),
            (
                "{ algorithm = \"gcra\", limit = 9, per = \"1s\", min_interval = \"20ms\", unit = \"tokens\" }",
                "9 tokens/s",
            ),
            ("{ algorithm = \"min-interval\", every = \"1.5s\" }", "one every 1.5 s"),
            ("{ algorithm = \"concurrency\", limit = 4, lease = \"10s\" }", "4 at the same time"),
            (
                "{ algorithm = \"error-rate\", threshold = \"12.5%\", per = \"1m\", min_samples = 9, cool_down = \"5s\" }",
                "12.5% errors within 1 min",
            ),
        ];
        for (text, expected) in cases {
            let read = |text: &str| {
                let file = format!("policies.p.limits = [{text}]");
                let mut config =
                    Config::read("test", &file).unwrap_or_else(|e| panic!("{text}: {e}"));
                config.choose(Some("p")).unwrap().limits()[0].clone()
            };
            let limit = read(text);
            assert_eq!(words(&limit), expected);
            let again = read(&toml(&limit));
            assert_eq!(LimitFields::from(&again), LimitFields::from(&limit), "{}", toml(&limit));
        }
    }
}
