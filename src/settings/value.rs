//! Values of variables: what is valid, and what to say if one is not.

use std::{net::SocketAddr, str::FromStr, time::Duration};

use jiff::SignedDuration;
use reqwest::Url;

use super::NotOneOf;
use crate::notify::Secret;

/// A DNS label (RFC 1123), as Kubernetes wants it: it becomes part of names and the value of a label.
pub(super) fn dns_label(text: &str) -> Result<String, String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if valid {
        Ok(text.to_owned())
    } else {
        Err(
            "must be 1 to 63 lower-case letters, digits or '-', and neither begin nor end with '-'"
                .to_owned(),
        )
    }
}

/// The name of a pod: a DNS subdomain (RFC 1123).
pub(super) fn dns_subdomain(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(|label| dns_label(label).is_ok()) {
        Ok(text.to_owned())
    } else {
        Err(
            "must be the name of a pod: lower-case letters, digits, '-' and '.', 253 of them at most"
                .to_owned(),
        )
    }
}

/// Nothing if there is no text.
pub(super) fn optional<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| (!text.is_empty()).then(|| parse(text)).transpose()
}

/// A duration with units, such as `15s` or `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "must be a duration with its unit, such as 15s or 1m30s".to_owned())
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

/// The value of an alert's label: any text on one line.
pub(super) fn label_value(text: &str) -> Result<String, String> {
    if text.contains(char::is_control) {
        Err("must be on one line, without control characters".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "must be an IP address and a port, such as 0.0.0.0:8080 or [::]:8080".into())
}

/// An http or https URL. The reason never quotes it.
pub(super) fn http_url(text: &str) -> Result<Secret, String> {
    const VALID: &str = "must be an http or https URL, such as https://example.com/path";
    if text.is_empty() {
        return Err("is empty: set it to an http or https URL, or unset it".to_owned());
    }
    if text.contains(|c: char| c.is_control() || c == ' ') {
        // The parser would drop some of them without a word.
        return Err(format!("{VALID}, without white space"));
    }
    let url = Url::parse(text).map_err(|error| format!("{VALID} ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(VALID.to_owned());
    }
    Ok(Secret::new(text))
}

pub(super) fn word<T: FromStr<Err = NotOneOf>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: NotOneOf| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_a_dns_label() {
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(dns_label(name).is_err(), "{name}");
        }
        for name in ["a", "0", "a-b", &"a".repeat(63)] {
            assert_eq!(dns_label(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn a_duration_has_a_unit_and_is_not_negative() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("15s", ms(15_000)),
            ("1m30s", ms(90_000)),
            ("1m 30s", ms(90_000)),
            ("1.5s", ms(1_500)),
            ("250ms", ms(250)),
            ("1h", ms(3_600_000)),
            ("PT15S", ms(15_000)),
        ] {
            assert_eq!(duration(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "15",
            "s",
            "-15s",
            "15s ago",
            "1y",
            "soon",
            "99999999999999999999s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
