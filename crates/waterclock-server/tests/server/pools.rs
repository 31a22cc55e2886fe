//! The table of pools in the documentation: every row names tests, and there are such tests.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

const DOCS: &str = include_str!("../../../../docs/server.md");

/// The rows of the table, as cells.
fn rows() -> Vec<Vec<&'static str>> {
    let table = DOCS.split("| pool | bound |").nth(1).expect("there is a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Where a module's tests may be: with the code, among the tests of the server, or of the library.
fn sources(module: &str) -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
    let server = crates.join("waterclock-server");
    let path = module.replace("::", "/");
    let with_endings =
        |base: PathBuf| [base.with_extension("rs"), base.join("mod.rs"), base.join("tests.rs")];
    let bases = match path.strip_prefix("library/") {
        Some(path) => vec![crates.join("waterclock/tests/library").join(path)],
        None => vec![server.join("tests/server").join(&path), server.join("src").join(&path)],
    };
    bases.into_iter().flat_map(with_endings).collect()
}

#[test]
fn every_pool_has_a_bound_an_owner_and_a_test() {
    let rows = rows();
    assert!(rows.len() >= 14, "{rows:?}");
    for row in rows {
        let [pool, bound, _share, when_full, tests] = &row[..] else { panic!("{row:?}") };
        assert!(!bound.is_empty() && !when_full.is_empty(), "{pool}");
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test tries the bound of {pool}");
        for name in names {
            let (module, test) = name.rsplit_once("::").expect("module::test");
            let has_it = |path: &PathBuf| {
                read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {test}()")))
            };
            assert!(sources(module).iter().any(has_it), "{pool}: there is no test `{name}`");
        }
    }
}
