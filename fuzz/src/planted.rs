//! Mistakes that a target must find: a comparison that cannot fail proves nothing. See `scripts/fuzz --planted`.

use std::sync::LazyLock;

/// Whether `FUZZ_PLANT` names this mistake.
pub fn planted(name: &str) -> bool {
    static PLANT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("FUZZ_PLANT").ok());
    PLANT.as_deref() == Some(name)
}
