//! As much of a terminal as our binary needs: characters, and where they go.

use std::fmt;

/// Rows of characters.
pub(crate) struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Screen {
    /// What is to be seen after all of this was written.
    pub(crate) fn of(text: &str) -> Screen {
        let mut screen = Screen { rows: Vec::new(), row: 0, column: 0 };
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\u{1b}' => screen.escape(&mut characters),
                '\r' => screen.column = 0,
                '\n' => screen.row += 1,
                character if character.is_control() => {}
                character => screen.put(character),
            }
        }
        screen
    }

    fn put(&mut self, character: char) {
        let (row, column) = (self.row, self.column);
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Vec::new());
        }
        if self.rows[row].len() <= column {
            self.rows[row].resize(column + 1, ' ');
        }
        self.rows[row][column] = character;
        self.column += 1;
    }

    fn escape(&mut self, characters: &mut std::str::Chars<'_>) {
        if characters.next() != Some('[') {
            return;
        }
        let mut numbers = String::new();
        for character in characters.by_ref() {
            if ('@'..='~').contains(&character) {
                return self.obey(character, &numbers);
            }
            numbers.push(character);
        }
    }

    fn obey(&mut self, order: char, numbers: &str) {
        let mut parts =
            numbers.split(';').map(|number| number.parse().unwrap_or(1_usize).max(1) - 1);
        match order {
            'H' => (self.row, self.column) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0)),
            'J' => self.rows.clear(),
            'K' => {
                let column = self.column;
                if let Some(row) = self.rows.get_mut(self.row) {
                    row.truncate(column);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn text(&self) -> String {
        let row = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
        self.rows.iter().map(row).collect::<Vec<String>>().join("\n")
    }

    pub(crate) fn contains(&self, part: &str) -> bool {
        self.text().contains(part)
    }

    /// The number that follows a word.
    pub(crate) fn number_after(&self, word: &str) -> Option<f64> {
        let text = self.text();
        let rest = text.split_once(word)?.1.trim_start();
        rest.split_whitespace().next()?.parse().ok()
    }
}

impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
