//! Tables for people: aligned, coloured on a terminal, plain elsewhere.

use std::io::{self, Write};

/// How a cell stands out on a terminal (ANSI SGR parameters). The colours are the eight of every terminal, so that they fit its theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// The table's head, and totals.
    Bold,
    /// What matters less.
    Dim,
    /// What wakes someone.
    Red,
    /// What waits until morning.
    Yellow,
    /// What is only said.
    Cyan,
    /// What is well.
    Green,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "1;31",
            Self::Yellow => "33",
            Self::Cyan => "36",
            Self::Green => "32",
        }
    }
}

/// A cell: a text on one line, and how it stands out.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    style: Style,
    right: bool,
}

impl Cell {
    /// A text, aligned to the left.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
            right: false,
        }
    }

    /// A plain text, aligned to the left.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::Plain)
    }

    /// A plain number, aligned to the right.
    pub fn number(text: &impl ToString) -> Self {
        Self {
            right: true,
            ..Self::plain(text.to_string())
        }
    }
}

/// Writes a table: two spaces between columns, none at the end of a line.
///
/// # Errors
///
/// The output cannot be written to.
pub fn write<const N: usize>(
    out: &mut dyn Write,
    colour: bool,
    head: [&str; N],
    rows: &[[Cell; N]],
) -> io::Result<()> {
    let right = |column: usize| rows.first().is_some_and(|row| row[column].right);
    let mut at = 0;
    let head = head.map(|text| {
        at += 1;
        Cell {
            right: right(at - 1),
            ..Cell::new(text, Style::Bold)
        }
    });
    let mut widths = [0; N];
    for row in rows.iter().chain([&head]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.text.chars().count().max(*width);
        }
    }
    for row in [&head].into_iter().chain(rows) {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width - cell.text.chars().count());
            let last = column == N - 1;
            let (before, after) = match (cell.right, last) {
                (true, _) => (pad.as_str(), ""),
                (false, true) => ("", ""),
                (false, false) => ("", pad.as_str()),
            };
            write!(out, "{before}")?;
            styled(out, colour, cell.style, &cell.text)?;
            write!(out, "{after}{}", if last { "\n" } else { "  " })?;
        }
    }
    Ok(())
}

/// Writes a text in a style.
///
/// # Errors
///
/// The output cannot be written to.
pub fn styled(out: &mut dyn Write, colour: bool, style: Style, text: &str) -> io::Result<()> {
    if colour && style != Style::Plain {
        write!(out, "\x1b[{}m{text}\x1b[0m", style.code())
    } else {
        out.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(colour: bool) -> String {
        let rows = [
            [
                Cell::new("ä", Style::Red),
                Cell::number(&7),
                Cell::plain("x"),
            ],
            [Cell::plain("long"), Cell::number(&100), Cell::plain("")],
        ];
        let mut out = Vec::new();
        write(&mut out, colour, ["NAME", "N", "WHY"], &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            written(false),
            "NAME    N  WHY\nä       7  x\nlong  100  \n"
        );
    }

    #[test]
    fn colours_change_no_width() {
        let written = written(true);
        assert!(
            written.contains("\x1b[1;31mä\x1b[0m       7  x"),
            "{written:?}"
        );
    }
}
