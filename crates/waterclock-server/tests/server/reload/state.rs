//! What was spent stays spent.

use super::{Scene, yearly};

#[tokio::test]
async fn a_raised_limit_adds_only_what_it_is_raised_by() {
    let scene = Scene::new(&yearly(100)).await;
    assert_eq!(scene.check("p", "k", 100).await, 200);
    assert_eq!(scene.check("p", "k", 1).await, 429);
    scene.write("waterclock.toml", &yearly(1000));
    scene.generation(2).await;
    assert_eq!(scene.remaining("p", "k").await, 900);
    scene.write("waterclock.toml", &yearly(50));
    scene.generation(3).await;
    assert_eq!(scene.check("p", "k", 1).await, 429);
}

#[tokio::test]
async fn an_unchanged_limit_does_not_notice() {
    let with = |more: &str| format!("{}{more}", yearly(3));
    let scene = Scene::new(&with("")).await;
    assert_eq!(scene.check("p", "k", 3).await, 200);
    for (generation, more) in
        [(2, "[policies.q]\nlimits = [\"1/h\"]\n"), (3, "# a remark\n"), (4, "")]
    {
        scene.write("waterclock.toml", &with(more));
        scene.generation(generation).await;
        assert_eq!(scene.check("p", "k", 1).await, 429);
    }
}

#[tokio::test]
async fn policies_come_and_go() {
    let scene = Scene::new(&yearly(3)).await;
    assert_eq!(scene.check("q", "k", 1).await, 404);
    scene.write("waterclock.toml", "[policies.q]\nlimits = [\"1/h\"]\n");
    scene.generation(2).await;
    assert_eq!(scene.check("q", "k", 1).await, 200);
    assert_eq!(scene.check("q", "k", 1).await, 429);
    assert_eq!(scene.check("p", "k", 1).await, 404);
}
