/// All keys, in hundredths of a percent.
const ALL: u16 = 10_000;

/// The share of a policy's keys that is really limited.
///
/// Whether a key belongs to it is a fixed function of the policy's name and the key: the same on every
/// node and after every restart. Raising the share only ever adds keys, and each policy draws its own.
///
/// The function is published so that other programs can compute which keys are enrolled: FNV-1a with 64 bits over the length
/// of the policy's name (eight bytes, the lowest first), the name and the key; then the last three steps
/// of SplitMix64, because FNV alone spreads short keys unevenly; the remainder of that by 10 000 must be
/// below the share in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    hundredths: u16,
}

impl Rollout {
    /// Every key is limited.
    pub const EVERYBODY: Self = Self { hundredths: ALL };
    /// No key is.
    pub const NOBODY: Self = Self { hundredths: 0 };

    /// A share in hundredths of a percent; `None` above 10 000.
    #[must_use]
    pub const fn new(hundredths: u16) -> Option<Self> {
        if hundredths <= ALL { Some(Self { hundredths }) } else { None }
    }

    /// The share in hundredths of a percent.
    #[must_use]
    pub const fn hundredths(self) -> u16 {
        self.hundredths
    }

    /// Whether every key is limited.
    #[must_use]
    #[inline]
    pub const fn is_everybody(self) -> bool {
        self.hundredths == ALL
    }

    /// Whether this key of this policy is limited.
    #[must_use]
    pub fn enrols(self, policy: &str, key: &[u8]) -> bool {
        draw(policy, key) < u64::from(self.hundredths)
    }
}

/// What a key drew, below 10 000.
fn draw(policy: &str, key: &[u8]) -> u64 {
    let length = u64::try_from(policy.len()).unwrap_or(u64::MAX).to_le_bytes();
    let bytes = length.iter().chain(policy.as_bytes()).chain(key);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    stir(hash) % u64::from(ALL)
}

/// How SplitMix64 makes each bit of its output depend on each bit of its state.
fn stir(state: u64) -> u64 {
    let once = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    const KEYS: u64 = 100_000;

    fn share(percent: u16) -> Rollout {
        Rollout::new(percent * 100).unwrap()
    }

    fn enrolled(rollout: Rollout, policy: &str) -> Vec<bool> {
        (0..KEYS).map(|n| rollout.enrols(policy, format!("user-{n}").as_bytes())).collect()
    }

    fn count(flags: impl IntoIterator<Item = bool>) -> u64 {
        flags.into_iter().map(u64::from).sum()
    }

    /// Worked out by a second program from the published description.
    #[test]
    fn keys_draw_what_is_published() {
        for (policy, key, drawn) in [
            ("login", &b"alice"[..], 6_986),
            ("login", b"bob", 3_740),
            ("search", b"alice", 8_715),
            ("login", b"", 7_285),
            ("a", b"\x00\xff", 8_966),
            ("p", "é".as_bytes(), 791),
            ("ab", b"c", 6_871),
            ("a", b"bc", 8_535),
        ] {
            assert_eq!(draw(policy, key), drawn, "{policy} {key:?}");
            assert!(!Rollout::new(u16::try_from(drawn).unwrap()).unwrap().enrols(policy, key));
            assert!(Rollout::new(u16::try_from(drawn + 1).unwrap()).unwrap().enrols(policy, key));
        }
    }

    #[test]
    fn nobody_and_everybody_are_exact() {
        assert_eq!(count(enrolled(Rollout::NOBODY, "login")), 0);
        assert_eq!(count(enrolled(Rollout::EVERYBODY, "login")), KEYS);
        assert!(Rollout::new(10_001).is_none());
    }

    #[test]
    fn a_larger_share_only_adds_keys() {
        let mut before = enrolled(Rollout::NOBODY, "login");
        for hundredths in (0..=10_000).step_by(500) {
            let now = enrolled(Rollout::new(hundredths).unwrap(), "login");
            assert!(before.iter().zip(&now).all(|(before, now)| *now || !*before));
            before = now;
        }
    }

    /// 100 000 keys with a deviation of at most 158 each: five of those are never seen by chance.
    #[test]
    fn shares_are_what_they_say() {
        for percent in [1, 10, 25, 50, 75, 99] {
            for policy in ["login", "a", "search-v2"] {
                let found = count(enrolled(share(percent), policy));
                let meant = u64::from(percent) * KEYS / 100;
                assert!(found.abs_diff(meant) < 800, "{policy} {percent} %: {found}");
            }
        }
    }

    /// All ten thousand draws come up about as often: 100 times each with a deviation of 10.
    #[test]
    fn draws_are_even() {
        let mut seen = Vec::from([0u32; 10_000]);
        for n in 0..1_000_000u32 {
            seen[usize::try_from(draw("p", &n.to_be_bytes())).unwrap()] += 1;
        }
        let chi: u64 = seen.iter().map(|n| u64::from(n.abs_diff(100).pow(2))).sum::<u64>() / 100;
        // 9 999 degrees of freedom have a mean of 9 999 and a deviation of 141.
        assert!((9_300..10_700).contains(&chi), "{chi}");
    }

    /// The draws of two policies are independent.
    #[test]
    fn policies_draw_on_their_own() {
        let names = ["login", "logim", "search", "l", "ogin"];
        for (i, one) in names.iter().enumerate() {
            for other in &names[..i] {
                let (a, b) = (enrolled(share(50), one), enrolled(share(50), other));
                let both = count(a.iter().zip(&b).map(|(a, b)| *a && *b));
                assert!(both.abs_diff(KEYS / 4) < 800, "{one} and {other}: {both}");
            }
        }
    }
}
