//! The query of a URL.

use std::borrow::Cow;

use super::problem::Problem;
use waterclock_config::did_you_mean;

/// Names and values, decoded.
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(super) fn read(query: &'a str) -> Query<'a> {
        Query(form_urlencoded::parse(query.as_bytes()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| Cow::Borrowed(&**value))
    }

    /// Complains about names nobody knows, and about names that come twice.
    pub(super) fn only(&self, known: &[&'static str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&&**name) {
                let hint = did_you_mean(name, known.iter().copied());
                return Err(Problem::bad(&**name, format!("unknown parameter `{name}`{hint}")));
            }
            if self.0[..at].iter().any(|(before, _)| before == name) {
                return Err(Problem::bad(&**name, format!("`{name}` is there twice")));
            }
        }
        Ok(())
    }

    pub(super) fn whole(&self, name: &'static str) -> Result<Option<u64>, Problem> {
        let whole = |text: Cow<'_, str>| {
            let complain = || Problem::bad(name, format!("`{name}` must be a whole number from 0"));
            text.parse().map_err(|_| complain())
        };
        self.get(name).map(whole).transpose()
    }
}
