//! The last good configuration on disk: the response that brought it, as it came.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use prost::Message;
use waterclock_config::read_file;

use crate::face::grpc::proto::DiscoveryResponse;
use crate::reference::{Domain, MAX_PARTS, count_parts, decode};

/// A response with its size looked at first.
pub(super) fn decode_response(bytes: &[u8]) -> Result<DiscoveryResponse, String> {
    if count_parts(bytes) > MAX_PARTS {
        return Err(format!(
            "more than {MAX_PARTS} resources, descriptors, replaced names and values of metadata"
        ));
    }
    DiscoveryResponse::decode(bytes).map_err(|error| format!("not a DiscoveryResponse: {error}"))
}

/// The version and the domains of a file; `None` if there is no file yet. Blocks.
pub(super) fn read(path: &Path, most: usize) -> Result<Option<(String, Vec<Domain>)>, String> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_file(path, most as u64)?;
    let response = decode_response(&bytes)?;
    Ok(Some((response.version_info.clone(), decode(&response)?)))
}

/// Replaces the file in one step, so that a reader finds the old one or the new one. Blocks.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
