//! Questions about the whole process are asked in a process of their own.

use std::process::Command;

use serde_json::Value;

use super::{flood, memory, pauses};
use crate::flags::number;

/// The first argument of such a process.
pub const CHILD: &str = "--child";

/// Asks `question` about a contestant in a new process.
pub fn ask(question: &str, name: &str, keys: usize) -> Value {
    let program = std::env::current_exe().expect("this program has a path");
    let args = [CHILD, question, name, &keys.to_string()];
    let output = Command::new(program).args(args).output().expect("this program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the child answers in JSON")
}

/// Answers in the new process.
pub fn answer(args: &[String]) {
    let [question, name, keys] = args else { panic!("question, name and keys") };
    let keys = number(keys).expect("a number of keys");
    let answer = match question.as_str() {
        memory::QUESTION => memory::answer(name, keys),
        pauses::QUESTION => pauses::answer(name, keys),
        flood::QUESTION => flood::answer(keys),
        _ => panic!("no such question: {question}"),
    };
    println!("{answer}");
}
