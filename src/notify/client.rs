//! HTTP towards receivers: one client, one way to send.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use reqwest::{Client, Response, redirect::Policy};

use super::{Secret, SendError};

/// How long a connection may take, and how long an exchange: one attempt to send. A receiver that takes longer is as good as away.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of an answer is read, at most.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// The HTTP client for receivers: with time-outs, without redirects (a redirected POST becomes a GET), and without the proxy of the environment, which is
/// for other programs: a proxy is set per receiver.
///
/// # Errors
///
/// TLS cannot be set up, for example for want of root certificates.
pub fn http_client() -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(concat!("alertkube/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(SEND_TIMEOUT)
        .timeout(SEND_TIMEOUT)
        .redirect(Policy::none())
        .no_proxy()
        .build()
}

/// Posts a JSON body. Any status of the 2xx is success.
///
/// # Errors
///
/// There was no answer, or one that is no success.
pub(super) async fn post_json(
    client: &Client,
    url: &Secret,
    body: Vec<u8>,
) -> Result<(), SendError> {
    let json = HeaderValue::from_static("application/json");
    let response = client
        .post(url.expose())
        .header(header::CONTENT_TYPE, json)
        .body(body)
        .send()
        .await
        .map_err(|error| SendError::request(error, url))?;
    let status = response.status();
    let after = retry_after(response.headers());
    // Read also after a success: only then can the connection be used again.
    let answer = read(response).await;
    if status.is_success() {
        Ok(())
    } else {
        Err(refusal(status, after, &answer, url))
    }
}

fn refusal(
    status: StatusCode,
    after: Option<Duration>,
    answer: &[u8],
    secret: &Secret,
) -> SendError {
    SendError::status(status, after, &String::from_utf8_lossy(answer), secret)
}

/// The beginning of the answer's body. The status has decided already, so an answer that breaks off is no failure.
async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_ANSWER_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_ANSWER_BYTES {
            break;
        }
    }
    body
}

/// What `Retry-After` asks for: a number of seconds, or a date (RFC 9110, section 10.2.3). A date is compared with the answer's own `Date`, because our clock
/// may be wrong; without that it says nothing.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large for its type is a very long time.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let wait = http_date(value)?.duration_since(http_date(date)?);
    Some(wait.try_into().unwrap_or(Duration::ZERO))
}

/// A date as HTTP writes it: RFC 2822's form, always in GMT.
fn http_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_timestamp(text.trim())
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(retry_after: &str, date: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, retry_after.parse().unwrap());
        if let Some(date) = date {
            headers.insert(header::DATE, date.parse().unwrap());
        }
        headers
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_relative_to_the_answers_own() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, date, seconds) in [
            ("0", None, Some(0)),
            (" 120 ", None, Some(120)),
            ("99999999999999999999999", None, Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:51:37 GMT", date, Some(120)),
            // A wrong weekday is the server's fault, but the date is plain.
            ("Mon, 06 Nov 1994 08:51:37 GMT", date, Some(120)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", date, Some(0)),
            ("Sun, 06 Nov 1994 08:51:37 GMT", None, None),
            ("-1", date, None),
            ("soon", date, None),
            ("", date, None),
        ] {
            assert_eq!(
                retry_after(&headers(value, date)),
                seconds.map(Duration::from_secs),
                "{value:?}"
            );
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    /// The environment of a process cannot be changed safely while it runs, so another process runs a test that needs a way to its receiver.
    #[test]
    fn the_proxy_of_the_environment_is_not_for_receivers() {
        let other = "notify::receivers::webhook::tests::a_redirect_is_not_followed";
        let nobody = "http://127.0.0.1:1";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", other])
            .envs(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, nobody)))
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
    }
}
