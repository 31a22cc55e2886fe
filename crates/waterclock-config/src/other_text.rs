//! Limits that come from elsewhere than a file, read by the same rules.

use std::fmt::Write as _;

use serde_json::Value;

use super::spec::LimitSpec;
use super::{Config, Source};

/// Limits in JSON: shorthand, or tables with the keys that a file takes. The complaint is a sentence.
pub fn read_limits(limits: &[Value], mode: &str) -> Result<Vec<LimitSpec>, String> {
    let mut text = format!("policies.it.mode = \"{mode}\"\npolicies.it.limits = [");
    for limit in limits {
        write_toml(limit, &mut text)?;
        text.push(',');
    }
    text.push(']');
    let config = Config::parse(&Source::new("limits", text)).map_err(|invalid| {
        let first = invalid.into_lines().into_iter().next().unwrap_or_default();
        // The place is one in a text that nobody has seen.
        first.split_once(": ").map_or(first.clone(), |(_, sentence)| sentence.to_owned())
    })?;
    Ok(config.policies.into_iter().next().map(|policy| policy.limits).unwrap_or_default())
}

fn write_toml(value: &Value, text: &mut String) -> Result<(), String> {
    match value {
        // Every JSON string and every JSON key, escapes included, is one of TOML as well.
        Value::String(_) | Value::Number(_) | Value::Bool(_) => _ = write!(text, "{value}"),
        Value::Object(entries) => {
            text.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                _ = write!(text, "{} = ", Value::String(key.clone()));
                write_toml(value, text)?;
            }
            text.push('}');
        }
        Value::Array(_) | Value::Null => {
            return Err("a limit must be shorthand such as \"100/s\", or a table".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_what_a_file_would_say() {
        let limits = [json!("100/s"), json!({"algorithm": "quota", "limit": 5, "per": "1m"})];
        assert_eq!(read_limits(&limits, "binary").unwrap().len(), 2);
        let complaint =
            read_limits(&[json!({"algorithm": "quota", "limt": 5, "per": "1m"})], "binary");
        assert!(complaint.unwrap_err().starts_with("unknown key `limt`"));
        assert!(read_limits(&[json!(null)], "binary").is_err());
        assert!(read_limits(&[json!("1/s\"]\nx=1")], "binary").is_err());
    }
}
