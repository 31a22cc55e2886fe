//! Policies of a server that its clients define.

use waterclock::{Failure, Store, StoreError};

use super::{check, patient, url_of};
use crate::at_work::{AtWork, auth};

#[tokio::test]
async fn a_program_defines_its_policies() {
    let tokens = auth(&[("root", "admin")]);
    let file = format!("{tokens}[policies.file]\nlimits = [\"1/d\"]\n");
    let server = AtWork::serving(&file).await;
    let store = patient(&url_of(&server)).token("root").connect().await.unwrap();
    let unknown = check(&store, "notes", b"alice", 1).await.unwrap_err();
    assert!(matches!(unknown, StoreError::UnknownPolicy(_)), "{unknown}");
    for _ in 0..2 {
        store.define_policy("notes", r#"{"limits":["5/d"]}"#).await.unwrap();
        assert!(check(&store, "notes", b"alice", 1).await.unwrap().decision.is_allowed());
    }
    store.define_policy("notes", r#"{"limits":["10/d"]}"#).await.unwrap();
    assert_eq!(store.policy("notes").unwrap().limits()[0].limit(), Some(10));
    assert_eq!(store.peek_n("notes", "alice", 0).await.unwrap().remaining(), Some(8));

    for (name, policy, part) in [
        ("file", r#"{"limits":["5/d"]}"#, "configuration file, which wins"),
        ("notes", r#"{"limit":["5/d"]}"#, "unknown key `limit`"),
    ] {
        let error = store.define_policy(name, policy).await.unwrap_err();
        assert!(matches!(error, StoreError::Unfit(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    store.delete_policy("notes").await.unwrap();
    assert!(store.policy("notes").is_none());
    let error = store.delete_policy("notes").await.unwrap_err();
    assert!(error.to_string().contains("keeps no policy `notes`"), "{error}");

    let other = AtWork::serving("[policies.file]\nlimits = [\"1/d\"]\n").await;
    let open = patient(&url_of(&other)).connect().await.unwrap();
    let error = open.define_policy("notes", r#"{"limits":["5/d"]}"#).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Auth), "{error}");
}
