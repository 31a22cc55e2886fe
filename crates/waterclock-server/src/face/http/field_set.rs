//! The fields of decisions that a caller chooses.

use super::problem::Problem;
use super::query::Query;

/// Fields of a decision; all of them where a caller names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldSet(Option<u32>);

macro_rules! fields {
    ($($name:literal: $at:literal,)*) => {
        /// The fields of a decision that callers can name, in the order in which answers have them.
        pub(super) const FIELDS: [&str; 17] = [$($name),*];

        /// The bit of a field; 0 if there is none. Inlined, so that the compiler knows it where it knows the name.
        #[inline(always)]
        fn bit(field: &str) -> u32 {
            match field {
                $($name => 1 << $at,)*
                _ => 0,
            }
        }
    };
}

fields! {
    "key": 0,
    "cost": 1,
    "allowed": 2,
    "granted": 3,
    "limit": 4,
    "remaining": 5,
    "retry_after_us": 6,
    "next_unit_us": 7,
    "reset_after_us": 8,
    "refused_by": 9,
    "shadow_refused_by": 10,
    "next_same_us": 11,
    "counter": 12,
    "policy": 13,
    "source": 14,
    "limits": 15,
    "limit_info": 16,
}

impl FieldSet {
    pub(super) const ALL: FieldSet = FieldSet(None);

    /// Those that a query asks for, as `fields=allowed,retry_after_us`.
    pub(super) fn of_query(query: &str) -> Result<FieldSet, Problem> {
        const FIELDS_OF: &str = "fields";
        // Mostly it is all there is, and nothing in it is encoded.
        let is_plain = |names: &&str| !names.bytes().any(|byte| matches!(byte, b'&' | b'%' | b'+'));
        if let Some(names) = query.strip_prefix("fields=").filter(is_plain)
            && let Ok(fields) = FieldSet::parse(names)
        {
            return Ok(fields);
        }
        let query = Query::read(query);
        let Some(names) = query.get_once(FIELDS_OF)? else { return Ok(FieldSet::ALL) };
        FieldSet::parse(&names).map_err(|unknown| {
            let unknown: String = unknown.chars().take(64).collect();
            let known = FIELDS.join(", ");
            Problem::bad(FIELDS_OF, format!("`fields` has no field `{unknown}`; there are {known}"))
        })
    }

    /// Reads names that are separated by commas. The error is the first that is unknown.
    pub(super) fn parse(names: &str) -> Result<FieldSet, &str> {
        names.split(',').try_fold(FieldSet(Some(0)), |FieldSet(set), name| {
            let bit = Some(bit(name)).filter(|bit| *bit != 0).ok_or(name)?;
            Ok(FieldSet(set.map(|set| set | bit)))
        })
    }

    #[inline(always)]
    pub(super) fn contains(self, field: &str) -> bool {
        self.0.is_none_or(|set| set & bit(field) != 0)
    }
}
