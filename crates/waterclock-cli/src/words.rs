//! A limit in a few words, as it can be typed.

use waterclock_config::PolicyConfig;

use crate::failure::Failure;

/// A policy of one limit. Where a file would be advised to use a table, which cannot be typed, it is told what can.
pub(crate) fn limit_in_words(text: &str) -> Result<PolicyConfig, Failure> {
    PolicyConfig::of_shorthand(text).map_err(|invalid| {
        let sentence = invalid.to_string();
        match sentence.rsplit_once("; ") {
            Some((why, advice)) if advice.contains("a table") => format!(
                "{why}; here a limit is a rate such as \"20/s\", alone or followed by gcra, fixed-window, sliding-window, rolling-window, quota or even-slots; others go into a file, which -c names"
            )
            .into(),
            _ => sentence.into(),
        }
    })
}
