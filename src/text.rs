//! Text made fit to show: from the cluster, from a receiver, for people.

use std::{fmt::Write as _, time::Duration};

use crate::alert::Labels;

/// The text on one line, without anything that a terminal would act upon: each control character (also of the C1 set, which some
/// terminals obey) and each character that reorders text becomes a space or `�`, so that a message of a container can neither move the cursor nor fake a line.
pub fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() || is_format(c) => '\u{fffd}',
        c => c,
    });
    shown.collect::<String>().trim().to_owned()
}

/// Line separators, and the characters by which text can be shown in another order than it is written in (Unicode TR 36).
const fn is_format(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most `limit` characters of the text; if it is cut, it ends with `…`.
pub fn shorten(text: &str, limit: usize) -> String {
    if text.char_indices().nth(limit).is_none() {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(limit.saturating_sub(1)).collect();
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// The text in lines of at most `width` characters, broken at its spaces. A word that is longer stays whole, so that it can be copied.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in text.split(' ') {
        let chars = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + chars <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + chars;
            }
            _ => {
                lines.push(word.to_owned());
                length = chars;
            }
        }
    }
    lines
}

/// A duration as people say it: two units at most (`45s`, `5m`, `1h 20m`, `3d 4h`).
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let units = [
        (days, "d"),
        (hours, "h"),
        (minutes, "m"),
        (seconds % 60, "s"),
    ];
    let first = units
        .iter()
        .position(|(n, _)| *n > 0)
        .unwrap_or(units.len() - 1);
    let (n, unit) = units[first];
    match units.get(first + 1) {
        // A condition that stands for minutes needs no seconds.
        Some((next, next_unit)) if *next > 0 && *next_unit != "s" => {
            format!("{n}{unit} {next}{next_unit}")
        }
        _ => format!("{n}{unit}"),
    }
}

/// A label set as Prometheus writes it: `{alertname="KubePodCrashLooping", namespace="shop"}`. Harmless on a terminal.
pub fn label_set(labels: &Labels) -> String {
    let mut text = String::from("{");
    for (at, (name, value)) in labels.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                // Writing to a String cannot fail.
                c if c.is_control() || is_format(c) => {
                    let _ = write!(text, "\\u{:04x}", u32::from(c));
                }
                c => text.push(c),
            }
        }
        text.push('"');
    }
    text.push('}');
    text
}

/// `1 pod`, `3 pods`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let text = one_line("a\x1b[31mred\x1b[0m\r\nb\x07\u{9b}2J\u{202e}evil\u{2028}c");
        assert!(
            !text.contains(|c: char| c.is_control() || is_format(c)),
            "{text:?}"
        );
        assert!(text.starts_with("a\u{fffd}[31mred") && text.ends_with("evil\u{fffd}c"));
    }

    #[test]
    fn a_label_set_is_written_as_prometheus_does() {
        let labels = Labels::new()
            .with("namespace", "shop")
            .with("alertname", "A \"b\" \\ \n\x1b");
        assert_eq!(
            label_set(&labels),
            r#"{alertname="A \"b\" \\ \n\u001b", namespace="shop"}"#
        );
    }

    #[test]
    fn text_is_broken_at_its_spaces_and_long_words_stay_whole() {
        let text = "éé bb cc registry.example.com/shop/web d";
        let lines = ["éé bb", "cc", "registry.example.com/shop/web", "d"];
        assert_eq!(wrap(text, 5), lines);
        assert_eq!(wrap(text, 1000), [text]);
        assert_eq!(wrap("a  b", 2), ["a ", "b"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn cut_text_says_so_and_keeps_its_limit() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
        assert_eq!(shorten("x", 0), "…");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, shown) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m"),
            (3_600, "1h"),
            (4_830, "1h 20m"),
            (277_200, "3d 5h"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), shown);
        }
    }
}
