//! The command line that all families share.

use std::path::PathBuf;

#[derive(Debug)]
pub struct Flags {
    /// Short measurements: a smoke test.
    pub quick: bool,
    /// How often each contestant is measured; the median counts.
    pub rounds: usize,
    /// The names after `--only`; empty: everything.
    pub only: Vec<String>,
    pub json: Option<PathBuf>,
}

impl Flags {
    /// Also returns the arguments that it does not know.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<(Self, Vec<String>), String> {
        let (mut quick, mut rounds, mut only, mut json) = (false, None, vec![], None);
        let mut others = vec![];
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => quick = true,
                "--rounds" => rounds = Some(number(&value()?)?.max(1)),
                "--only" => only = value()?.split(',').map(str::to_owned).collect(),
                "--json" => json = Some(PathBuf::from(value()?)),
                _ => others.push(arg),
            }
        }
        let rounds = rounds.unwrap_or(if quick { 3 } else { 5 });
        Ok((Self { quick, rounds, only, json }, others))
    }

    /// Whether `--only` leaves this in.
    pub fn selects(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// # Errors
    ///
    /// If `--only` has a name that is not among these.
    pub fn expect_only(&self, known: &[&str]) -> Result<(), String> {
        match self.only.iter().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(format!("no {unknown:?} among {known:?}")),
            None => Ok(()),
        }
    }
}

/// # Errors
///
/// If there are any: arguments that neither [`Flags`] nor the family knows.
pub fn expect_none(others: &[String]) -> Result<(), String> {
    others.first().map_or(Ok(()), |arg| Err(format!("unknown argument {arg}")))
}

/// A number with an optional `k` or `m` behind it.
pub fn number(text: &str) -> Result<usize, String> {
    let (digits, scale) = match text.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if text.ends_with('k') { 1_000 } else { 1_000_000 }),
        None => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text:?} is not a number"))?;
    Ok(number * scale)
}
