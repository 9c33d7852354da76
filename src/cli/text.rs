//! Text from the cluster, made fit to show.

use std::time::Duration;

/// The text on one line, without anything that a terminal would act upon.
pub fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    shown.collect::<String>().trim().to_owned()
}

/// A duration as people say it: two units at most (`45s`, `5m`, `1h 20m`, `3d 4h`).
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, m) => format!("{m}m"),
        (0, h, 0) => format!("{h}h"),
        (0, h, m) => format!("{h}h {m}m"),
        (d, 0, _) => format!("{d}d"),
        (d, h, _) => format!("{d}d {h}h"),
    }
}

/// `1 pod`, `3 pods`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}
