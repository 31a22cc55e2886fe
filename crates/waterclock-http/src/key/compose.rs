/// Several values as one key: each with its length before it, so that no value can pass for two.
///
/// ```
/// assert_eq!(waterclock_http::compose_key(["a", "b,1:c"]), b"1:a,5:b,1:c,");
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

#[cfg(test)]
mod tests {
    use super::compose_key;

    #[test]
    fn no_value_passes_for_two() {
        assert_ne!(compose_key(["a", "b"]), compose_key(["a,1:b"]));
        assert_ne!(compose_key(["", "ab"]), compose_key(["ab", ""]));
        assert_eq!(compose_key(["é", ""]), "2:é,0:,".as_bytes());
    }
}
