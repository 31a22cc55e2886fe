//! How often two limiters agree, by client, and which differences there are.

use waterclock::Action;

use crate::report::{Checked, Keys, Record};

/// What two limiters decided about the checks of one client, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Both {
    pub(super) checks: u64,
    pub(super) both_refuse: u64,
    pub(super) only_old: u64,
    pub(super) only_new: u64,
    /// Of those that only the old one refuses: the policy exempts the key.
    pub(super) exempt: u64,
    /// Of those that only the new one refuses: the policy blocks the key.
    pub(super) blocked: u64,
}

impl Both {
    pub(super) fn both_allow(&self) -> u64 {
        self.checks - self.both_refuse - self.only_old - self.only_new
    }

    pub(super) fn differences(&self) -> u64 {
        self.only_old + self.only_new
    }
}

impl Record for Both {
    fn weight(&self) -> (u64, u64) {
        (self.differences(), self.both_refuse + self.checks)
    }
}

/// Counts of all checks and by client.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) all: Both,
    pub(super) clients: Keys<Both>,
    /// Of those that only the new one refuses, by the position of its limit.
    pub(super) only_new_by: Vec<u64>,
}

impl Tally {
    pub(super) fn add(&mut self, new: &Checked<'_>, old_refused: bool) {
        let resolution = new.resolved.resolution();
        let policy = new.resolved.policy();
        // A policy in shadow is compared by what it would refuse.
        let in_shadow = policy.is_shadow() && !new.decision.shadow_refused_by().is_empty();
        let new_refused = new.is_refused() || in_shadow;
        let add = |counts: &mut Both| {
            let count = |is: bool| u64::from(is);
            counts.checks += 1;
            counts.both_refuse += count(old_refused && new_refused);
            counts.only_old += count(old_refused && !new_refused);
            counts.only_new += count(!old_refused && new_refused);
            let is_exempt = resolution.action == Action::Exempt;
            counts.exempt += count(old_refused && !new_refused && is_exempt);
            let is_blocked = resolution.action == Action::Block;
            counts.blocked += count(!old_refused && new_refused && is_blocked);
        };
        add(&mut self.all);
        self.clients.note(new.key, add);
        if new_refused && !old_refused && !new.resolved.is_by_key() {
            let by = match in_shadow {
                true => new.decision.shadow_refused_by(),
                false => new.decision.refused_by(),
            };
            for limit in by.iter() {
                if let Some(count) = self.only_new_by.get_mut(limit) {
                    *count += 1;
                }
            }
        }
    }

    /// The differences by what explains them; those that are none are left out.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let mut found = Class::ALL.map(|class| Difference { class, checks: 0, clients: 0 });
        for (_, client) in self.clients.iter() {
            for difference in &mut found {
                let checks = difference.class.checks_of(client);
                difference.checks += checks;
                difference.clients += u64::from(checks > 0);
            }
        }
        found.into_iter().filter(|difference| difference.checks > 0).collect()
    }

    /// How many checks differ that no [difference](Self::differences) has, as their clients were evicted.
    pub(super) fn uncounted(&self) -> u64 {
        let counted: u64 = self.differences().iter().map(|difference| difference.checks).sum();
        self.all.differences() - counted
    }
}

/// One kind of difference.
pub(super) struct Difference {
    pub(super) class: Class,
    pub(super) checks: u64,
    pub(super) clients: u64,
}

/// What explains a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    OldOnlyExempt,
    OldOnlyLooser,
    OldOnlyMoment,
    NewOnlyBlocked,
    NewOnlyStricter,
    NewOnlyMoment,
}

impl Class {
    const ALL: [Class; 6] = [
        Class::OldOnlyExempt,
        Class::OldOnlyLooser,
        Class::OldOnlyMoment,
        Class::NewOnlyBlocked,
        Class::NewOnlyStricter,
        Class::NewOnlyMoment,
    ];

    /// How many checks of a client are of this class.
    fn checks_of(self, client: &Both) -> u64 {
        let old_refuses = client.both_refuse + client.only_old > 0;
        let new_refuses = client.both_refuse + client.only_new > 0;
        let when = |is: bool, checks: u64| if is { checks } else { 0 };
        match self {
            Class::OldOnlyExempt => client.exempt,
            Class::OldOnlyLooser => when(!new_refuses, client.only_old - client.exempt),
            Class::OldOnlyMoment => when(new_refuses, client.only_old - client.exempt),
            Class::NewOnlyBlocked => client.blocked,
            Class::NewOnlyStricter => when(!old_refuses, client.only_new - client.blocked),
            Class::NewOnlyMoment => when(old_refuses, client.only_new - client.blocked),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::OldOnlyExempt => "only-old-exempt",
            Class::OldOnlyLooser => "only-old-looser",
            Class::OldOnlyMoment => "only-old-other-moment",
            Class::NewOnlyBlocked => "only-new-blocked",
            Class::NewOnlyStricter => "only-new-stricter",
            Class::NewOnlyMoment => "only-new-other-moment",
        }
    }

    /// Why they differ.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Class::OldOnlyExempt => {
                "Only the old limiter refuses: the policy exempts these clients."
            }
            Class::OldOnlyLooser => {
                "Only the old limiter refuses: the new policy never refuses these clients, so it is looser for them."
            }
            Class::OldOnlyMoment => {
                "Only the old limiter refuses: the new policy refuses these clients at other moments, as windows or refills differ."
            }
            Class::NewOnlyBlocked => "Only the new policy refuses: it blocks these clients.",
            Class::NewOnlyStricter => {
                "Only the new policy refuses: the old limiter never refuses these clients, so the policy is stricter for them."
            }
            Class::NewOnlyMoment => {
                "Only the new policy refuses: the old limiter refuses these clients at other moments, as windows or refills differ."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_evicted_clients_are_left_over() {
        let both = |only_old, only_new| Both { checks: 9, only_old, only_new, ..Both::default() };
        let mut tally = Tally { all: both(5, 3), ..Tally::default() };
        tally.clients.note("kept", |counts| *counts = both(4, 2));
        let counts: Vec<u64> = tally.differences().iter().map(|found| found.checks).collect();
        assert_eq!((counts, tally.uncounted()), (vec![4, 2], 2));
    }
}
