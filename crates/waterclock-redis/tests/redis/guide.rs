//! The guide names the test that measures each bound: there are such tests.

use std::path::Path;

const GUIDE: &str = include_str!("../../docs/guide.md");

#[test]
fn the_tests_that_it_names_exist() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis");
    let is_path = |word: &&str| {
        let letters = |c: char| c.is_ascii_lowercase() || c == '_' || c == ':';
        word.contains("::") && word.chars().all(letters)
    };
    let named: Vec<&str> = GUIDE.split('`').skip(1).step_by(2).filter(is_path).collect();
    for name in &named {
        let (module, test) = name.rsplit_once("::").unwrap();
        let path = tests.join(module.replace("::", "/"));
        let source = std::fs::read_to_string(path.with_extension("rs"))
            .or_else(|_| std::fs::read_to_string(path.join("mod.rs")))
            .unwrap_or_default();
        assert!(source.contains(&format!("fn {test}()")), "the guide names `{name}`");
    }
    assert!(named.len() >= 15, "{named:?}");
}
