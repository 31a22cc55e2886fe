//! Random trees: an imported file sends every descriptor where the reference service would.

use fastrand::Rng;

use super::model::{Node, fate, yaml};
use super::{Fate, Imported};

const TREES: u64 = 150;

const KEYS: [&str; 2] = ["a", "b"];
const VALUES: [Option<&str>; 7] =
    [None, Some("x"), Some("xy"), Some("x*"), Some("xy*"), Some("*"), Some("z")];

fn nodes(rng: &mut Rng, depth: u32, requests: &mut u32) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..rng.usize(1..5) {
        let key = rng.choice(KEYS).unwrap().to_owned();
        let value = rng.choice(VALUES).unwrap().map(str::to_owned);
        if nodes.iter().any(|node| node.key == key && node.value == value) {
            continue;
        }
        // Every limit is another number, so that a number tells the rule.
        let limit = rng.u8(0..10);
        *requests += 1;
        let requests_here = (limit < 6).then_some(if limit == 0 { 0 } else { *requests });
        let is_inner = depth > 0 && rng.bool();
        let below = if is_inner { self::nodes(rng, depth - 1, requests) } else { Vec::new() };
        nodes.push(Node { key, value, requests: requests_here, below });
    }
    nodes
}

#[tokio::test]
async fn imported_trees_decide_as_the_originals() {
    let mut rng = Rng::with_seed(0x00e5_4047);
    let (mut limited, mut free) = (0, 0);
    for tree in 0..TREES {
        let mut requests = 0;
        let nodes = nodes(&mut rng, 2, &mut requests);
        let mut text = "domain: d\ndescriptors:\n".to_owned();
        yaml(&nodes, 2, &mut text);
        if !text.contains("rate_limit") {
            continue;
        }
        let imported = Imported::new(&[&text]).await;
        for _ in 0..400 {
            let descriptor: Vec<(&str, &str)> = (0..rng.usize(1..4))
                .map(|_| {
                    let key = rng.choice(KEYS).unwrap();
                    (key, rng.choice(["x", "xy", "xyz", "z", "w", ""]).unwrap())
                })
                .collect();
            let expected = fate(&nodes, &descriptor);
            let found = imported.fate("d", &descriptor);
            assert_eq!(found, expected, "tree {tree}: {descriptor:?}\n{text}\n{}", imported.text());
            if expected == Fate::Free { free += 1 } else { limited += 1 }
        }
    }
    assert!(limited > 5_000 && free > 5_000, "{limited} limited, {free} free");
}
