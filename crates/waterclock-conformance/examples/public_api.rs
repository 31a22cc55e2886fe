//! Compares the public items of every published library with its `public-api.txt`. `scripts/publishable` runs it.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How Rust 1.95 describes items as JSON, which is what the library `public_api` reads. Other compilers do it
/// differently, so there is nothing to compare.
const FORMAT: &str = "\"format_version\":57";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (documentation, accept) = match arguments.as_slice() {
        [folder] => (Path::new(folder), false),
        [folder, flag] if flag == "--accept" => (Path::new(folder), true),
        _ => return Err("usage: public_api FOLDER-OF-JSON [--accept]".into()),
    };
    let mut changed = false;
    for library in libraries()? {
        let name = library.file_name().ok_or("a folder has a name")?.to_string_lossy();
        let json = documentation.join(format!("{}.json", name.replace('-', "_")));
        if !fs::read_to_string(&json)?.contains(FORMAT) {
            println!("{name}: not compared; that needs Rust 1.95");
            continue;
        }
        let (snapshot, items) = (library.join("public-api.txt"), public_items(&json)?);
        if accept {
            fs::write(snapshot, items)?;
        } else {
            let expected = fs::read_to_string(&snapshot)?;
            changed |= print_difference(&name, &expected, &items);
        }
    }
    if changed {
        eprintln!(
            "public items have changed; if you intend that: scripts/publishable --accept-api"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The crates with a library that are published.
fn libraries() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut libraries = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))? {
        let folder = entry?.path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        if folder.join("src/lib.rs").is_file() && !manifest.contains("publish = false") {
            libraries.push(folder);
        }
    }
    libraries.sort();
    Ok(libraries)
}

/// One item per line, without what every type has anyway.
fn public_items(json: &Path) -> Result<String, Box<dyn Error>> {
    let items = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(items.to_string())
}

/// Whether anything changed.
fn print_difference(name: &str, expected: &str, found: &str) -> bool {
    let (expected, found): (BTreeSet<_>, BTreeSet<_>) =
        (expected.lines().collect(), found.lines().collect());
    for (sign, item) in expected
        .difference(&found)
        .map(|item| ('-', item))
        .chain(found.difference(&expected).map(|item| ('+', item)))
    {
        println!("{name}: {sign} {item}");
    }
    expected != found
}
