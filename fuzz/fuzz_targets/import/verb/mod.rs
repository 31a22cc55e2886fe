pub(crate) mod import;
