//! The policies that the server has, and this process's own definitions of them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use waterclock::{Detail, Limit, Policy, StoreError};

/// By name.
#[derive(Debug, Default)]
pub(super) struct KnownPolicies(RwLock<HashMap<Box<str>, Entry>>);

#[derive(Debug)]
struct Entry {
    /// As the server describes it, or why it cannot be used here.
    served: Result<Arc<Policy>, Detail>,
    /// As this process defines it: callers name its limits by their place in it.
    own: Option<Arc<Policy>>,
}

impl Entry {
    fn here(&self) -> Result<Arc<Policy>, StoreError> {
        let served = || self.served.clone().map_err(StoreError::unfit);
        self.own.clone().map_or_else(served, Ok)
    }
}

impl KnownPolicies {
    /// Replaces the policies of the server. Returns the names of those it no longer has.
    pub(super) fn replace(
        &self,
        served: impl IntoIterator<Item = (String, Result<Policy, Detail>)>,
    ) -> Vec<Box<str>> {
        let mut entries = self.0.write();
        let mut before = std::mem::take(&mut *entries);
        for (name, policy) in served {
            let own = before.remove(&*name).and_then(|entry| entry.own);
            let entry = Entry { served: policy.map(Arc::new), own };
            entries.insert(name.into(), entry);
        }
        before.into_keys().collect()
    }

    /// The policies by which this process falls back.
    pub(super) fn here(&self) -> Vec<Arc<Policy>> {
        self.0.read().values().filter_map(|entry| entry.here().ok()).collect()
    }

    /// A policy as callers know it.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Policy>, StoreError> {
        let unknown = || StoreError::UnknownPolicy(name.to_owned());
        self.0.read().get(name).ok_or_else(unknown)?.here()
    }

    /// A policy as the server describes it.
    pub(super) fn served(&self, name: &str) -> Option<Arc<Policy>> {
        self.0.read().get(name)?.served.clone().ok()
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.0.read().contains_key(name)
    }

    /// Takes this process's own definition, if it differs from the server's in numbers only.
    pub(super) fn define(&self, policy: &Policy) -> Result<(), StoreError> {
        let name = policy.name();
        let mut entries = self.0.write();
        let Some(entry) = entries.get_mut(name) else {
            return Err(StoreError::unfit(format!(
                "the server has no policy `{name}`; add it to the server's configuration"
            )));
        };
        if let Ok(served) = &entry.served {
            fits(policy, served)?;
        }
        entry.own = Some(Arc::new(policy.clone()));
        Ok(())
    }
}

/// Answers name limits, and a partial grant is a refusal in one mode and none in another: in these two
/// both sides must agree.
fn fits(own: &Policy, served: &Policy) -> Result<(), StoreError> {
    let name = own.name();
    let instead = "take the policy from the store, or change the server's configuration";
    if own.mode() != served.mode() {
        let (here, there) = (own.mode(), served.mode());
        return Err(StoreError::unfit(format!(
            "policy `{name}` is {here:?} here and {there:?} on the server; {instead}"
        )));
    }
    let names = |policy: &Policy| -> Vec<String> {
        policy.limits().iter().map(Limit::name).map(str::to_owned).collect()
    };
    let (here, there) = (names(own), names(served));
    if here != there {
        let (here, there) = (here.join(", "), there.join(", "));
        return Err(StoreError::unfit(format!(
            "policy `{name}` has the limits ({here}) here and ({there}) on the server; {instead}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use waterclock::store::Persist as _;
    use waterclock::{Gcra, Mode};

    use super::*;

    fn policy(name: &str, limit: &str) -> Policy {
        Policy::new(name, [Limit::per_second(5).with_name(limit)]).unwrap()
    }

    fn known() -> KnownPolicies {
        let known = KnownPolicies::default();
        let odd = Err("it is odd".into());
        known.replace([("p".to_owned(), Ok(policy("p", "l"))), ("odd".to_owned(), odd)]);
        known
    }

    #[test]
    fn numbers_may_differ_and_names_may_not() {
        let known = known();
        let slower = Policy::new("p", [Limit::per_minute(1).with_name("l")]).unwrap();
        known.define(&slower).unwrap();
        assert_eq!(known.find("p").unwrap().definition(), slower.definition());
        assert_ne!(known.served("p").unwrap().definition(), slower.definition());
        let nary = policy("p", "l").with_mode(Mode::Partial).unwrap();
        let gcra = Policy::new("p", [Gcra::new(1, std::time::Duration::from_secs(1)).unwrap()]);
        for (unfit, says) in [
            (policy("q", "l"), "add it to the server's configuration"),
            (policy("p", "m"), "has the limits (m) here and (l) on the server"),
            (gcra.unwrap(), "has the limits (gcra) here"),
            (nary, "is Partial here and Binary on the server"),
        ] {
            let error = known.define(&unfit).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(known.find("p").unwrap().definition(), slower.definition());
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let known = known();
        assert_eq!(known.find("odd").unwrap_err(), StoreError::unfit("it is odd"));
        assert_eq!(known.find("q").unwrap_err(), StoreError::UnknownPolicy("q".to_owned()));
        assert!(known.served("odd").is_none());
        let gone = known.replace([("odd".to_owned(), Ok(policy("odd", "l")))]);
        assert_eq!(gone, ["p".into()]);
        assert!(known.find("odd").is_ok() && !known.holds("p"));
    }
}
