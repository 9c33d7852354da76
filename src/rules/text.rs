//! Texts of the cluster, made fit for a line that is read at night.

use std::fmt::{self, Write as _};

/// How many characters of a message are shown. Image and scheduling messages say what matters within it; runtimes write pages.
const MESSAGE_CHARS: usize = 240;

/// Shows a message on one line, and at most [`MESSAGE_CHARS`] of it.
pub(super) struct Line<'a>(pub(super) &'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = MESSAGE_CHARS;
        let mut first = true;
        for word in self.0.split(|c: char| c.is_whitespace() || c.is_control()) {
            if word.is_empty() {
                continue;
            }
            if !first {
                f.write_char(' ')?;
                room = room.saturating_sub(1);
            }
            first = false;
            for c in word.chars() {
                if room == 0 {
                    return f.write_char('…');
                }
                f.write_char(c)?;
                room -= 1;
            }
        }
        Ok(())
    }
}

/// How many names a summary lists.
pub(super) const LISTED: usize = 5;

/// Names, the first [`LISTED`] of them.
pub(super) struct List<'a>(pub(super) &'a [Box<str>]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.0.iter().take(LISTED).enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{}", Line(name))?;
        }
        if self.0.len() > LISTED {
            f.write_str(", ...")?;
        }
        Ok(())
    }
}

/// Appends to a text.
pub(super) fn push(text: &mut String, more: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(more);
}

/// The text, or the other one if it is empty.
pub(super) fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// A count with its noun: `1 restart`, `7 restarts`.
pub(super) struct Count(pub(super) i32, pub(super) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)?;
        if self.0 == 1 {
            Ok(())
        } else {
            f.write_char('s')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_one_short_line_that_is_cut_between_characters() {
        let shown = Line("  rpc error:\n\tcode = Unknown\u{1b}[31m  desc ").to_string();
        assert_eq!(shown, "rpc error: code = Unknown [31m desc");
        let long = Line(&"ü".repeat(MESSAGE_CHARS + 1)).to_string();
        assert_eq!(long, "ü".repeat(MESSAGE_CHARS) + "…");
        assert_eq!(
            Line(&"ü".repeat(MESSAGE_CHARS)).to_string().chars().count(),
            MESSAGE_CHARS
        );
        assert_eq!(Line("").to_string(), "");
    }

    #[test]
    fn a_long_list_is_cut() {
        let names = ["a", "b", "c", "d", "e", "f"].map(Box::from);
        assert_eq!(List(&names[..1]).to_string(), "a");
        assert_eq!(List(&names[..5]).to_string(), "a, b, c, d, e");
        assert_eq!(List(&names).to_string(), "a, b, c, d, e, ...");
    }
}
