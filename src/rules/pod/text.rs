//! Texts of the cluster, made fit for a line that is read at night.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use crate::cluster::Terminated;

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

/// Shows how a run ended: `exit 1 (Error)`. Never its message, which may be the last of its output.
pub(super) struct End<'a>(pub(super) &'a Terminated);

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}", self.0.exit_code)?;
        if !self.0.reason.is_empty() {
            write!(f, " ({})", Line(&self.0.reason))?;
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

/// The back-off in the kubelet's message, as it is written and as a duration: `back-off 2m40s restarting failed container=...`.
pub(super) fn back_off(message: &str) -> Option<(&str, Duration)> {
    let (_, rest) = message.split_once("back-off ")?;
    let (written, _) = rest.split_once(' ')?;
    Some((written, go_duration(written)?))
}

/// Reads a duration as Go prints it, such as `5m0s` or `1.5s`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
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
    fn the_back_off_is_read_from_the_kubelets_message() {
        let seconds = |message: &str| back_off(message).map(|(_, back_off)| back_off.as_secs_f64());
        let message = |duration| {
            format!("back-off {duration} restarting failed container=app pod=web_shop(1)")
        };
        assert_eq!(seconds(&message("10s")), Some(10.0));
        assert_eq!(seconds(&message("2m40s")), Some(160.0));
        assert_eq!(seconds(&message("5m0s")), Some(300.0));
        assert_eq!(seconds(&message("1h0m0.5s")), Some(3600.5));
        assert_eq!(seconds(&message("500ms")), Some(0.5));
        for nonsense in [
            "",
            "10",
            "s",
            "-10s",
            "1e400s",
            "..s",
            "ten s",
            "99999999999999999999h",
        ] {
            assert_eq!(seconds(&message(nonsense)), None, "{nonsense}");
        }
        assert_eq!(seconds("Back-off pulling image \"nginx\""), None);
    }
}
