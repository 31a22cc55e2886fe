//! Tiers and rollouts that change while the server is at work.

use super::Scene;

fn file(settings: &str) -> String {
    format!(
        "[policies.login]\n{settings}\nlimits = [{{ name = \"a\", algorithm = \"gcra\", limit = 10, per = \"365d\" }}]\n"
    )
}

async fn check(scene: &Scene, key: &str, tier: Option<&str>, cost: u64) -> u16 {
    let body = serde_json::json!({ "policy": "login", "key": key, "tier": tier, "cost": cost });
    scene.server.http().await.post("/v1/check", &body.to_string()).await.status
}

#[tokio::test]
async fn tiers_come_and_go_and_what_is_spent_stays() {
    let scene = Scene::new(&file("")).await;
    let (pro, other) = (Some("pro"), Some("other"));
    assert_eq!(check(&scene, "k", None, 8).await, 200);
    assert_eq!(check(&scene, "k", None, 8).await, 429);
    assert_eq!(check(&scene, "k", pro, 8).await, 400);
    scene.write("waterclock.toml", &file("tiers = { pro = { factor = 0.5 } }"));
    scene.generation(2).await;
    assert_eq!(check(&scene, "k", pro, 8).await, 200);
    assert_eq!(check(&scene, "k", pro, 5).await, 429);
    scene.write("waterclock.toml", &file("tiers = { pro = { factor = 0.25 } }"));
    scene.generation(3).await;
    assert_eq!(check(&scene, "k", pro, 24).await, 200);
    assert_eq!(check(&scene, "k", pro, 1).await, 429);
    scene.write("waterclock.toml", &file("tiers = { other = { factor = 2 } }"));
    scene.generation(4).await;
    assert_eq!(check(&scene, "k", pro, 1).await, 400);
    assert_eq!(check(&scene, "k", None, 1).await, 429);
    assert_eq!(check(&scene, "fresh", other, 5).await, 200);
    assert_eq!(check(&scene, "fresh", other, 1).await, 429);
    let settings = "tiers = { other = { factor = 2 } }\ndefault_tier = \"other\"";
    scene.write("waterclock.toml", &file(settings));
    scene.generation(5).await;
    assert_eq!(check(&scene, "fresh", pro, 1).await, 429);
    assert_eq!(check(&scene, "fresh", None, 5).await, 200);
}

#[tokio::test]
async fn a_factor_changes_what_is_left() {
    let scene = Scene::new(&file("")).await;
    assert_eq!(scene.check("login", "k", 6).await, 200);
    scene.write("waterclock.toml", &file("factor = 0.5"));
    scene.generation(2).await;
    assert_eq!(scene.remaining("login", "k").await, 14);
    scene.write("waterclock.toml", &file("factor = -1"));
    let why = scene.turned_down().await;
    assert!(why.contains(":2:10: `factor` must not be negative"), "{why}");
    assert_eq!(scene.remaining("login", "k").await, 14);
}

/// alice drew 6 986 of 10 000: what she spent while she was watched is spent when her turn comes.
#[tokio::test]
async fn a_larger_share_finds_what_was_spent() {
    let scene = Scene::new(&file("rollout = \"50%\"")).await;
    for _ in 0..3 {
        assert_eq!(scene.check("login", "alice", 4).await, 200);
    }
    scene.write("waterclock.toml", &file("rollout = \"69.87%\""));
    scene.generation(2).await;
    assert_eq!(scene.check("login", "alice", 4).await, 429);
    assert_eq!(scene.remaining("login", "alice").await, 2);
    scene.write("waterclock.toml", &file("rollout = \"69.86%\""));
    scene.generation(3).await;
    assert_eq!(scene.check("login", "alice", 4).await, 200);
}

/// No check fails while tiers come and go under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_check_fails_in_between() {
    let scene = Scene::new(&file("tiers = { pro = { factor = 0.5 } }")).await;
    let mut client = scene.server.http().await;
    let asking = tokio::spawn(async move {
        let body = r#"{"policy":"login","key":"k","tier":"pro"}"#;
        let mut seen = Vec::new();
        for _ in 0..3_000 {
            seen.push(client.post("/v1/check", body).await.status);
        }
        seen
    });
    for generation in 2..22 {
        let same = "default_tier = \"same\"\ntiers = { same = { factor = 1 }";
        let without = format!("{same} }}");
        let others = format!("{same}, new = {{ factor = 2 }} }}");
        let tiers = ["tiers = { pro = { factor = 0.5 } }", &without, &others];
        let generations = usize::try_from(generation).unwrap();
        scene.write("waterclock.toml", &file(tiers[generations % 3]));
        scene.generation(generation).await;
    }
    let seen = asking.await.unwrap();
    assert!(seen.iter().all(|status| [200, 429].contains(status)), "{seen:?}");
    let admitted = seen.iter().filter(|status| **status == 200).count();
    // A lower limit finds a key exhausted at most: each time the tier has been away and comes back, what lies
    // between the two limits can be spent once more.
    let times_back = (2..22).filter(|generation| generation % 3 == 0).count();
    assert!(admitted <= 20 + 10 * times_back, "{admitted}");
}
