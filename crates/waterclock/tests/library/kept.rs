//! Policies that a store keeps as text: versions, bounds, and a restart.

use waterclock::store::{MAX_KEPT_BYTES, MAX_KEPT_POLICIES, MAX_KEPT_TEXT};
use waterclock::{
    DynStore, Limit, ManualClock, MemoryStore, Policy, RestoreError, Store, StoreError,
};

fn texts(changes: &[(String, Option<String>)]) -> Vec<(&str, &str)> {
    changes.iter().map(|(name, text)| (&**name, text.as_deref().unwrap_or("-"))).collect()
}

#[tokio::test]
async fn the_same_text_again_changes_nothing() {
    let store = DynStore::new(MemoryStore::default());
    let first = store.keep_policy("a", "one").await.unwrap();
    assert!(!first.existed && first.is_change());
    let again = store.keep_policy("a", "one").await.unwrap();
    assert!(again.existed && !again.is_change());
    let other = store.keep_policy("a", "two").await.unwrap();
    assert!(other.existed && other.is_change() && other.before == first.version);
    let found = store.kept_policies(0).await.unwrap();
    assert_eq!((texts(&found.changes), found.starts_over), (vec![("a", "two")], true));
    assert!(store.kept_policies(found.version).await.unwrap().changes.is_empty());

    let dropped = store.drop_kept_policy("a").await.unwrap();
    assert!(dropped.existed && dropped.is_change());
    assert!(!store.drop_kept_policy("a").await.unwrap().existed);
    let found = store.kept_policies(found.version).await.unwrap();
    assert!(found.starts_over && found.changes.is_empty(), "{found:?}");
}

#[tokio::test]
async fn what_is_kept_is_bounded() {
    let store = MemoryStore::default();
    for (name, text) in [("", "x"), ("a", ""), (&*"n".repeat(65), "x")] {
        let error = store.keep_policy(name, text).await.unwrap_err();
        assert!(matches!(error, StoreError::Unfit(_)), "{error}");
    }
    let long = "x".repeat(MAX_KEPT_TEXT + 1);
    let error = store.keep_policy("a", &long).await.unwrap_err().to_string();
    assert!(error.contains(&MAX_KEPT_TEXT.to_string()), "{error}");

    for at in 0..MAX_KEPT_POLICIES {
        store.keep_policy(&format!("p{at}"), "x").await.unwrap();
    }
    let full = store.keep_policy("more", "x").await.unwrap_err();
    assert_eq!(full, StoreError::KeptFull("more".to_owned()));
    assert!(store.keep_policy("p0", "y").await.unwrap().is_change(), "in another's place");
    store.drop_kept_policy("p1").await.unwrap();
    store.keep_policy("more", "x").await.unwrap();

    let store = MemoryStore::default();
    let text = "x".repeat(MAX_KEPT_TEXT);
    let mut kept = 0;
    while store.keep_policy(&format!("p{kept}"), &text).await.is_ok() {
        kept += 1;
        assert!(kept <= MAX_KEPT_BYTES / MAX_KEPT_TEXT);
    }
    assert!(kept >= MAX_KEPT_BYTES / MAX_KEPT_TEXT - 10, "{kept}");
    store.keep_policy("p0", "short").await.unwrap();
    assert!(store.keep_policy("last", "short").await.is_ok(), "what was freed is free");
}

/// First the policies, then what was spent under them.
#[tokio::test]
async fn a_snapshot_has_what_is_kept() {
    let clock = ManualClock::default();
    let login = || Policy::new("login", [Limit::per_hour(5)]).unwrap();
    let store = MemoryStore::new(1_000, clock.clone());
    let (text, odd) = (r#"{"limits":["5/h"]}"#, "ü, not a multiple of eight");
    store.keep_policy("login", text).await.unwrap();
    store.keep_policy("odd", odd).await.unwrap();
    store.set_policy(login()).await.unwrap();
    assert!(store.check_n("login", "alice", 3).await.unwrap().is_allowed());
    let mut file = Vec::new();
    store.snapshot(&mut file).unwrap();

    let next = MemoryStore::new(1_000, clock.clone());
    assert_eq!(next.restore_kept_policies(&mut &*file).unwrap(), 2);
    let found = next.kept_policies(0).await.unwrap();
    assert_eq!(texts(&found.changes), [("login", text), ("odd", odd)]);
    next.set_policy(login()).await.unwrap();
    assert_eq!(next.restore(&mut &*file).unwrap().keys, 1);
    assert_eq!(next.peek_n("login", "alice", 0).await.unwrap().remaining(), Some(2));

    // At once, for a caller that knows the policies without that.
    let next = MemoryStore::new(1_000, clock);
    next.keep_policy("login", "newer").await.unwrap();
    next.restore(&mut &*file).unwrap();
    let found = next.kept_policies(0).await.unwrap();
    assert_eq!(texts(&found.changes), [("login", "newer"), ("odd", odd)]);

    // Whatever is cut off or changed is noticed.
    for at in (8..file.len()).step_by(7) {
        let mut bad = file.clone();
        bad[at] ^= 1;
        let error = MemoryStore::default().restore_kept_policies(&mut &*bad).unwrap_err();
        assert!(matches!(error, RestoreError::Damaged | RestoreError::Version(_)), "{at}: {error}");
        let error = MemoryStore::default().restore_kept_policies(&mut &file[..at]).unwrap_err();
        assert!(matches!(error, RestoreError::Damaged), "{at}: {error}");
    }
}

/// Without any, a snapshot is one that older programs can read.
#[tokio::test]
async fn a_snapshot_without_any_is_of_the_first_version() {
    let store = MemoryStore::default();
    let version = |file: &[u8]| u64::from_le_bytes(file[8..16].try_into().unwrap());
    let mut file = Vec::new();
    store.snapshot(&mut file).unwrap();
    assert_eq!(version(&file), 1);
    assert_eq!(store.restore_kept_policies(&mut &*file).unwrap(), 0);
    store.keep_policy("a", "x").await.unwrap();
    file.clear();
    store.snapshot(&mut file).unwrap();
    assert_eq!(version(&file), 2);
}
