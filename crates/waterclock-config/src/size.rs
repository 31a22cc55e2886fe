//! Sizes in bytes: `"64MiB"`.

use super::suggest::quoted;

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// The bytes of a text such as `64MiB`. The error is half a sentence.
pub(crate) fn read_size(text: &str) -> Result<u64, String> {
    let of_unit = |(unit, bytes): (&str, u64)| {
        let number = text.strip_suffix(unit)?.trim_end();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| number.parse::<u64>().ok()?.checked_mul(bytes)).flatten()
    };
    UNITS.into_iter().find_map(of_unit).ok_or_else(|| {
        format!("must be a size such as \"512KiB\", \"64MiB\" or \"1GiB\"; found {}", quoted(text))
    })
}

/// The size of a field that the schema has verified, where this machine can count so far.
pub(crate) fn size_of(text: &str) -> Option<usize> {
    usize::try_from(read_size(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("64MiB", 64 << 20), ("1 GiB", 1 << 30), ("512KiB", 512 << 10), ("7B", 7), ("0B", 0)]
        {
            assert_eq!(read_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "64",
            "64MB",
            "-1MiB",
            "1.5MiB",
            "+1B",
            "99999999999999999999B",
            "18446744073709551615KiB",
        ] {
            assert!(read_size(text).is_err(), "{text}");
        }
    }
}
