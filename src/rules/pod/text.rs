//! The kubelet's own texts.

use std::{fmt, time::Duration};

use crate::cluster::Terminated;

pub(super) use crate::rules::text::{Count, LISTED, Line, List, or, push};

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
