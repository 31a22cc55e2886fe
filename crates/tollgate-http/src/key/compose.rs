/// Several values as one key: each with its length before it, so that no value can pass for two.
///
/// ```
/// assert_eq!(tollgate_http::compose_key(["a", "b,1:c"]), b"1:a,5:b,1:c,");
/// ```
#[must_use]
pub fn compose_key(values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut key = Vec::new();
    for value in values {
        let value = value.as_ref();
        key.extend_from_slice(value.len().to_string().as_bytes());
        key.push(b':');
        key.extend_from_slice(value);
        key.push(b',');
    }
    key
}
