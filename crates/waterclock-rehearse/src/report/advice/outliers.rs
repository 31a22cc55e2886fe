//! Clients that are set aside before the others are asked what they need.

/// With fewer clients, nobody stands out.
const LEAST_CLIENTS: u64 = 20;
/// How many times as much as the next client below.
const STEP: u64 = 4;

/// The rule, for people.
pub(in crate::report) const RULE: &str = "a client stands out if it needs at least 4 times as much of any one limit as the next one below it, within the 5 % of clients that need most; all above it stand out too; of fewer than 20 clients none does";

/// Where the clients begin that are set aside, of needs in ascending order with how many clients have each.
///
/// A gap tells abuse from heavy use: the needs of users grow little by little, up to the largest of them. It is looked
/// for only at the end, so that a few clients are set aside and never the ones that advice is for.
pub(super) fn first_outlier(needs: &[(u64, u64)]) -> usize {
    let all = needs.iter().fold(0, |sum: u64, (_, clients)| sum.saturating_add(*clients));
    let mut below = 0_u64;
    for (place, pair) in needs.windows(2).enumerate() {
        let ((need, clients), (next, _)) = (pair[0], pair[1]);
        below = below.saturating_add(clients);
        let is_end = all >= LEAST_CLIENTS && all.saturating_sub(below) <= all / 20;
        // Those that no number suits need the same, which no step divides.
        if is_end && next > need && next >= need.saturating_mul(STEP) {
            return place + 1;
        }
    }
    needs.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_at_the_end_sets_clients_aside() {
        let users = [(1, 9_000), (2, 200), (5, 100), (12, 40), (30, 10), (60, 1)];
        let most = |needs: &[(u64, u64)]| needs[first_outlier(needs) - 1].0;
        let with = |more: &[(u64, u64)]| most(&[&users[..], more].concat());
        assert_eq!(with(&[]), 60, "their needs grow little by little");
        assert_eq!(with(&[(1_200, 1)]), 60, "one bot");
        assert_eq!(with(&[(1_200, 1), (1_300, 90), (9_000, 2)]), 60, "and several");
        assert_eq!(with(&[(239, 1)]), 239, "a busy user");
        assert_eq!(with(&[(240, 1)]), 60);
        assert_eq!(with(&[(1_200, 2_000)]), 1_200, "too many to be set aside");
    }

    #[test]
    fn equal_needs_are_not_divided() {
        let beyond = u64::MAX;
        assert_eq!(first_outlier(&[(1, 2), (beyond, 30), (beyond, 1)]), 3);
        assert_eq!(first_outlier(&[(1, 60), (beyond, 1), (beyond, 1)]), 1);
        assert_eq!(first_outlier(&[(0, 30), (0, 1)]), 2);
    }

    #[test]
    fn few_clients_are_all_asked() {
        assert_eq!(first_outlier(&[(1, 18), (1_000, 1)]), 2);
        assert_eq!(first_outlier(&[(1, 19), (1_000, 1)]), 1);
        assert_eq!((first_outlier(&[(7, 1)]), first_outlier(&[])), (1, 0));
    }
}
