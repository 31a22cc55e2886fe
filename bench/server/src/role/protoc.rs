//! A stand-in for `protoc`, which the build of throttlecrab's server asks for and few machines have.

use std::path::Path;
use std::process::Command;

use prost::Message;
use protox::Compiler;

use crate::Error;

const ASKED: &str = "WATERCLOCK_BENCH_IS_PROTOC";

/// Lets what this command starts find the stand-in, unless there is the real one.
pub fn stand_in_for_protoc(command: &mut Command, itself: &Path) {
    let is_there = Command::new("protoc").arg("--version").output().is_ok();
    if !is_there && std::env::var_os("PROTOC").is_none() {
        command.env("PROTOC", itself).env(ASKED, "1");
    }
}

pub(super) fn is_asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

/// Understands what builds written in Rust ask of `protoc`: files, where they include from, and
/// where to put their description.
pub(super) fn compile(mut args: impl Iterator<Item = String>) -> Result<(), Error> {
    let (mut includes, mut files, mut output) = (vec![], vec![], None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-I" => includes.extend(args.next()),
            "-o" => output = args.next(),
            flag if flag.starts_with('-') => {}
            _ => files.push(arg),
        }
    }
    let mut compiler = Compiler::new(includes)?;
    compiler.include_imports(true).include_source_info(true).open_files(files)?;
    let described = compiler.file_descriptor_set().encode_to_vec();
    Ok(std::fs::write(output.ok_or("no -o")?, described)?)
}
