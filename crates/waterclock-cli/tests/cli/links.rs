//! Links between the pages of the repository lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// Pages below a folder, but for what is built or installed there.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
                pages(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The text without fenced blocks: prose, where brackets are links, and the code that stands in it.
fn prose_and_code(text: &str) -> (String, Vec<&str>) {
    let (mut prose, mut code, mut fenced) = (String::new(), Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
            code.extend(line.split('`').skip(1).step_by(2));
        }
    }
    (prose, code)
}

/// Code that is the path of a file of the repository, such as `docs/server.md`.
fn paths(text: &str) -> Vec<&str> {
    const FOLDERS: [&str; 8] =
        ["bench/", "clients/", "crates/", "deploy/", "docs/", "fuzz/", "scripts/", ".github/"];
    let is_path = |code: &&str| {
        FOLDERS.iter().any(|folder| code.starts_with(folder))
            && !code.contains([' ', '*', '{', '…', '<'])
    };
    prose_and_code(text).1.into_iter().filter(is_path).collect()
}

/// The targets of `[text](target)` and `[name]: target`.
fn targets(text: &str) -> Vec<String> {
    let (prose, _) = prose_and_code(text);
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let named = prose.lines().filter(|line| line.starts_with('[')).filter_map(|line| {
        line.split_once("]: ").and_then(|(_, target)| target.split_whitespace().next())
    });
    inline.chain(named).map(str::to_owned).collect()
}

/// What a forge makes of headings: lower case, hyphens for spaces, no other punctuation.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        found.insert(kept.collect::<String>().replace(' ', "-"));
    }
    found
}

/// Links of guides to items, which rustdoc resolves and checks.
fn is_item(page: &Path, target: &str) -> bool {
    page.components().any(|part| part.as_os_str() == "crates") && !target.contains(['/', '.', '#'])
}

/// The reason why a link is dead.
fn fault(page: &Path, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.to_owned(),
        _ => page.parent().expect("a page is in a folder").join(file),
    };
    if !path.exists() {
        return Some(format!("{}: {target}: no such file", page.display()));
    }
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    if anchor.is_empty() || !is_page {
        return None;
    }
    let text = fs::read_to_string(&path).expect("a page is text");
    let missing = !anchors(&text).contains(anchor);
    missing.then(|| format!("{}: {target}: no such heading", page.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut found = Vec::new();
    pages(&repository(), &mut found);
    assert!(found.len() > 30, "only {} pages were found", found.len());
    let mut dead = Vec::new();
    for page in &found {
        let text = fs::read_to_string(page).expect("a page is text");
        for target in targets(&text) {
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !is_elsewhere && !is_item(page, &target) {
                dead.extend(fault(page, &target));
            }
        }
        for path in paths(&text) {
            if !repository().join(path).exists() {
                dead.push(format!("{}: {path}: no such file", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn dead_links_are_found() {
    let page = repository().join("README.md");
    assert_eq!(targets("see [a](b.md) and `[no](code)`\n[c]: d.md#e\n"), ["b.md", "d.md#e"]);
    assert_eq!(paths("in `docs/a.md`, not `docs/*.md` nor `a/b`\n"), ["docs/a.md"]);
    assert!(fault(&page, "docs/nothing.md").is_some());
    assert!(fault(&page, "docs/server.md#nothing").is_some());
    assert_eq!(fault(&page, "docs/server.md#the-dashboard"), None);
}
