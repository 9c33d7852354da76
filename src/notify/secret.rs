//! Text that must never be printed: addresses that authorise whoever knows them, tokens, keys.

use std::fmt;

use reqwest::Url;
use serde::Deserialize;

/// What stands in place of a secret.
const HIDDEN: &str = "<secret>";

/// The length from which a part of a secret address is hidden in foreign text. Shorter parts (`v1`, `hook`) are no secrets.
const SECRET_PART_LEN: usize = 6;

/// A secret. It can be read only by name ([`Secret::expose`]); `Debug` and `Display` hide it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret. White space around it (a trailing newline is usual in files) is no part of it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The secret itself: for the request that needs it, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Hides the secret in text that comes from elsewhere, such as an answer that quotes the request. If the secret is a URL, its user, password,
    /// path, query and fragment are hidden as well, whole and in parts.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let mut hidden = text.replace(&self.0, HIDDEN);
        if let Ok(url) = Url::parse(&self.0) {
            hidden = hidden.replace(url.as_str(), HIDDEN);
            let whole = [
                Some(url.path()),
                url.query(),
                url.fragment(),
                url.password(),
                Some(url.username()),
            ];
            let parts = whole.iter().flatten().flat_map(|whole| {
                std::iter::once(*whole).chain(whole.split(['/', '?', '&', '=', '#']))
            });
            for part in parts.filter(|part| part.len() >= SECRET_PART_LEN) {
                hidden = hidden.replace(part, HIDDEN);
            }
        }
        hidden
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("https://hooks.example/T000/B000/s3cr3tpart\n");
        assert_eq!(format!("{secret} {secret:?}"), "<secret> <secret>");
        assert_eq!(
            secret.expose(),
            "https://hooks.example/T000/B000/s3cr3tpart"
        );
    }

    #[test]
    fn foreign_text_loses_every_part_of_a_secret_url() {
        let secret = Secret::new(
            "https://user:passw0rd@hooks.example/T00000/B00000/s3cr3tpart?token=abcdefgh#fragment",
        );
        for text in [
            "no such path /T00000/B00000/s3cr3tpart",
            "bad hook s3cr3tpart, token abcdefgh",
            "GET https://user:passw0rd@hooks.example/T00000/B00000/s3cr3tpart?token=abcdefgh#fragment",
            "passw0rd is wrong at #fragment of T00000",
        ] {
            let hidden = secret.hide_in(text);
            for part in ["s3cr3tpart", "abcdefgh", "passw0rd", "T00000", "fragment"] {
                assert!(!hidden.contains(part), "{part} is left in {hidden:?}");
            }
        }
        assert_eq!(secret.hide_in("invalid_payload"), "invalid_payload");
    }
}
