//! YAML files, as Kubernetes reads them.

use std::path::PathBuf;

use serde_json::Value;

use crate::installed::peer;
use crate::script;

/// Prints the documents of YAML files as one list of JSON.
const READ: &str = "import json, sys, yaml
files = [open(name) for name in sys.argv[1:]]
print(json.dumps([document for file in files for document in yaml.safe_load_all(file)]))";

/// The documents of files, one after the other.
#[track_caller]
pub(crate) fn documents(files: &[PathBuf]) -> Vec<Value> {
    let mut python = peer("python/bin/python");
    python.args(["-c", READ]).args(files);
    serde_json::from_str(&script::run(&mut python)).expect("it prints JSON")
}
