//! Commands as bytes, written before anything is measured.

/// Some commands that are sent together.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    pub bytes: Vec<u8>,
    pub commands: usize,
}

impl Exchange {
    pub fn of<'a>(commands: impl IntoIterator<Item = &'a Vec<u8>>) -> Self {
        let mut exchange = Self::default();
        for command in commands {
            exchange.bytes.extend_from_slice(command);
            exchange.commands += 1;
        }
        exchange
    }
}

/// One command as clients write it: an array of bulk strings.
pub fn command(words: &[&str]) -> Vec<u8> {
    let each = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), each.collect::<String>()).into_bytes()
}
