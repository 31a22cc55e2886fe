//! The configuration: any text is a configuration that can be told, or problems with places in it.

use libfuzzer_sys::Corpus;
use waterclock_config::english::{describe, describe_rule, warnings};
use waterclock_config::{Config, LimitFields, PolicyJson, read_limits};

pub fn run(data: &[u8]) -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else { return Corpus::Reject };
    match Config::read("fuzz.toml", text) {
        Err(invalid) => {
            assert!(!invalid.problems().is_empty());
            for problem in invalid.problems() {
                assert!(!problem.message.is_empty());
                let Some(place) = &problem.place else { continue };
                let line = text.split('\n').nth(place.line.checked_sub(1).expect("from 1"));
                let line = line.unwrap_or_else(|| panic!("no such line: {problem}"));
                let columns = line.chars().count() + 1;
                assert!((1..=columns).contains(&place.column), "no such column: {problem}");
            }
        }
        Ok(config) => {
            told(&config);
            for policy in &config.policies {
                round_trip(policy);
            }
        }
    }
    Corpus::Keep
}

/// What `waterclock validate` prints.
fn told(config: &Config) {
    let lines = config.policies.iter().map(describe);
    let rules = config.rules.iter().map(|rule| describe_rule(rule, &config.policies));
    assert!(lines.chain(rules).all(|lines| !lines.is_empty()));
    assert!(warnings(config).iter().all(|warning| !warning.message.is_empty()));
}

/// What it prints with `--json` is the same policy again.
fn round_trip(policy: &waterclock_config::PolicyConfig) {
    let json = serde_json::to_value(PolicyJson::from(policy)).expect("JSON");
    let limits = json["limits"].as_array().expect("a list");
    assert_eq!(limits.len(), policy.limits().len());
    for (fields, limit) in limits.iter().zip(policy.limits()) {
        let fields: LimitFields = serde_json::from_value(fields.clone()).expect("its own JSON");
        // A calendar is not compared, but it has the same text.
        let again = fields.limit().unwrap_or_else(|error| panic!("{error}: {fields:?}"));
        let text = |limit| serde_json::to_string(&LimitFields::from(limit)).expect("JSON");
        assert_eq!(text(&again), text(limit));
    }
    _ = read_limits(limits, policy.policy().mode());
}
