//! What to read, and as what: flags that several verbs share.

use std::path::Path;

use tollgate_server::config::PolicySpec;

use super::input::Input;
use super::own::OwnTrace;
use super::{Source, Trace};
use crate::failure::Failure;

/// How events are read.
#[derive(clap::Args)]
pub(crate) struct Reading {}

impl Reading {
    /// Opens a trace for a policy; `-` or nothing is standard input, and what begins as gzip does is
    /// decompressed. On a terminal, a bar shows how far it is.
    pub(crate) fn open(&self, path: Option<&Path>, spec: &PolicySpec) -> Result<Trace, Failure> {
        Reading::begin(Input::open(path, true)?, spec)
    }

    /// The same without a bar, for those who write on the terminal themselves.
    pub(crate) fn open_quietly(
        &self,
        path: Option<&Path>,
        spec: &PolicySpec,
    ) -> Result<Trace, Failure> {
        Reading::begin(Input::open(path, false)?, spec)
    }

    fn begin(input: Input, spec: &PolicySpec) -> Result<Trace, Failure> {
        let source = Source::Own(OwnTrace::new(input, spec.built.takes_reports()));
        Ok(Trace { source })
    }
}
