use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

use super::*;
use crate::{
    alert::{Resolution, Severity},
    notify::{
        Reason, Verdict, test_client,
        test_support::{Hook, SECRET_PATH, mk_alert, mk_changed, mk_fired, mk_resolved},
    },
};

fn json(message: &Message) -> String {
    serde_json::to_string_pretty(&Payload::of(message, "https://alertkube.example")).unwrap()
}

#[test]
fn a_page_has_alertmanagers_shape() {
    insta::assert_snapshot!(json(&Message::of(&mk_fired("web"))));
}

#[test]
fn a_resolve_has_alertmanagers_shape() {
    insta::assert_snapshot!(json(&Message::of(&mk_resolved("web"))));
}

#[test]
fn a_change_resolves_the_old_label_set_and_fires_the_new_one() {
    let mut message = Message::of(&mk_changed("web"));
    message.stale = vec![Standing::from(&mk_alert("web", Severity::Warning))];
    message.transitions = 2;
    insta::assert_snapshot!(json(&message));
}

#[test]
fn the_group_is_the_same_over_the_alerts_whole_life() {
    let keys = [mk_fired("web"), mk_changed("web"), mk_resolved("web")]
        .map(|notice| Payload::of(&Message::of(&notice), "").group_key);
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[1], keys[2]);
}

#[test]
fn a_minimal_message_keeps_what_identifies_the_alert_and_little_else() {
    let mut notice = mk_fired("web");
    notice.alert.annotations.set("summary", "ä".repeat(5_000));
    let mut message = Message::of(&notice);
    message.minimal = true;
    let payload = Payload::of(&message, "");
    let alert = &payload.alerts[0];
    assert_eq!(alert.labels, &notice.alert.labels);
    assert_eq!(alert.annotations.get("description"), None);
    let summary = alert.annotations.get("summary").unwrap();
    assert_eq!(summary.chars().count(), MINIMAL_SUMMARY_LEN);
}

#[test]
fn an_alert_that_ended_unseen_has_both_its_times() {
    let mut message = Message::of(&mk_resolved("web"));
    message.event = Event::FiredAndResolved(Resolution::Recovered);
    assert_eq!(
        json(&message),
        json(&Message::of(&mk_resolved("web"))),
        "it is a resolve to who gets one message only"
    );
}

#[test]
fn only_an_http_address_will_do_and_a_bad_one_is_not_printed() {
    for bad in ["", "hooks.example/secret", "ftp://hooks.example/secret"] {
        let error = Webhook::new(test_client(), Secret::new(bad), String::new()).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

async fn send(client: &Client, url: &str) -> Result<(), SendError> {
    let webhook = Webhook::new(client.clone(), Secret::new(url), String::new()).unwrap();
    let result = webhook.send(&Message::of(&mk_fired("web"))).await;
    if let Err(error) = &result {
        for text in [format!("{error}"), format!("{error:?}")] {
            for part in SECRET_PATH.split('/').filter(|part| part.len() > 5) {
                assert!(!text.contains(part), "the secret is in {text}");
            }
        }
    }
    result.map(|_| ())
}

/// An answer that quotes the secret, as some receivers do.
fn answer(status: u16, headers: &[(header::HeaderName, &str)]) -> Response {
    let body = format!("no team for /{SECRET_PATH}");
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name.clone(), value.parse().unwrap());
    }
    response
}

#[tokio::test]
async fn each_status_has_its_verdict() {
    let client = test_client();
    let retry = Verdict::Retry { after: None };
    for (status, verdict) in [
        (200, None),
        (202, None),
        (400, Some(Verdict::Content)),
        (401, Some(Verdict::Permanent)),
        (404, Some(Verdict::Permanent)),
        (408, Some(retry)),
        (413, Some(Verdict::Content)),
        (425, Some(retry)),
        (429, Some(retry)),
        (500, Some(retry)),
        (503, Some(retry)),
    ] {
        let hook = Hook::start(move |_| async move { answer(status, &[]) }).await;
        let result = send(&client, &hook.url).await;
        assert_eq!(result.err().map(|error| error.verdict), verdict, "{status}");
        let bodies = hook.bodies();
        assert_eq!(bodies.len(), 1, "{status}");
        assert_eq!(bodies[0]["version"], "4");
    }
}

#[tokio::test]
async fn a_receiver_that_says_when_is_heard() {
    let client = test_client();
    let wait = async |answer: Response| {
        let answer = std::sync::Arc::new(std::sync::Mutex::new(Some(answer)));
        let hook = Hook::start(move |_| {
            let answer = answer.lock().unwrap().take().unwrap();
            async move { answer }
        })
        .await;
        send(&client, &hook.url).await.unwrap_err().verdict
    };
    let seconds = |seconds| Verdict::Retry {
        after: Some(Duration::from_secs(seconds)),
    };
    assert_eq!(
        wait(answer(429, &[(header::RETRY_AFTER, "77")])).await,
        seconds(77)
    );
    // The receiver's clock is years off; only the difference counts.
    let dates = [
        (header::DATE, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (header::RETRY_AFTER, "Sun, 06 Nov 1994 09:49:37 GMT"),
    ];
    assert_eq!(wait(answer(503, &dates)).await, seconds(3_600));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let client = test_client();
    for status in [301, 302, 303, 307, 308] {
        let hook =
            Hook::start(
                move |_| async move { answer(status, &[(header::LOCATION, "/elsewhere")]) },
            )
            .await;
        let error = send(&client, &hook.url).await.unwrap_err();
        assert_eq!(error.verdict, Verdict::Permanent);
        assert!(error.to_string().contains("redirect"), "{error}");
        assert_eq!(hook.bodies().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn nobody_there_is_tried_again_and_surely_did_not_arrive() {
    // A port that was free a moment ago.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = send(&test_client(), &format!("http://{address}/{SECRET_PATH}"))
        .await
        .unwrap_err();
    assert_eq!(error.verdict, Verdict::Retry { after: None });
    assert_eq!(error.reason, Reason::RequestError);
    assert!(!error.may_have_arrived);
}

#[tokio::test]
async fn no_answer_is_tried_again_and_may_have_arrived() {
    let hook = Hook::start(|_| std::future::pending::<Response>()).await;
    let client = reqwest::Client::builder()
        .timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let webhook = Webhook::new(client, Secret::new(&hook.url), String::new()).unwrap();
    let error = webhook
        .send(&Message::of(&mk_fired("web")))
        .await
        .unwrap_err();
    assert_eq!(error.verdict, Verdict::Retry { after: None });
    assert_eq!(error.reason, Reason::ContextDeadlineExceeded);
    assert!(error.may_have_arrived);
}

#[tokio::test]
async fn a_connection_that_breaks_is_tried_again_and_may_have_arrived() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        // Reads a little, so that the request is under way, and hangs up.
        let mut head = [0; 16];
        loop {
            stream.readable().await.unwrap();
            if stream.try_read(&mut head).is_ok() {
                break;
            }
        }
    };
    let url = format!("http://{address}/{SECRET_PATH}");
    let client = test_client();
    let (error, ()) = tokio::join!(send(&client, &url), server);
    let error = error.unwrap_err();
    assert_eq!(error.verdict, Verdict::Retry { after: None });
    assert_eq!(error.reason, Reason::RequestError);
    assert!(error.may_have_arrived);
}
