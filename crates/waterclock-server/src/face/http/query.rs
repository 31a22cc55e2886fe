//! The part of a URL after the question mark.

use std::borrow::Cow;

use waterclock_config::did_you_mean;

use super::problem::Problem;

/// The parameters of a URL, decoded.
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(super) fn read(query: &'a str) -> Query<'a> {
        Query(form_urlencoded::parse(query.as_bytes()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| Cow::Borrowed(&**value))
    }

    /// The value of a parameter, which must not be given twice.
    pub(super) fn get_once(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, Problem> {
        if self.0.iter().filter(|(known, _)| known == name).count() > 1 {
            return Err(Problem::bad(name, format!("`{name}` is given twice")));
        }
        Ok(self.get(name))
    }

    /// Rejects unknown parameters, and parameters that are given twice.
    pub(super) fn allow_only(&self, known: &[&'static str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&&**name) {
                let hint = did_you_mean(name, known.iter().copied());
                return Err(Problem::bad(&**name, format!("unknown parameter `{name}`{hint}")));
            }
            if self.0[..at].iter().any(|(before, _)| before == name) {
                return Err(Problem::bad(&**name, format!("`{name}` is given twice")));
            }
        }
        Ok(())
    }
}
