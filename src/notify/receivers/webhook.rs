//! Alertmanager's webhook, version 4: what every consumer of Alertmanager's understands.

use jiff::Timestamp;
use reqwest::{Client, Url};
use serde::{Serialize, Serializer};

use crate::{
    alert::{Fingerprint, Labels},
    notify::{
        Event, Late, Message, Receiver, Reference, Secret, SendError, Standing, client::post_json,
    },
    text,
};

/// The receiver's name.
const NAME: &str = "webhook";

/// The end of an alert that has not ended: the zero value of Go's `time.Time`.
const NO_END: &str = "0001-01-01T00:00:00Z";

/// How long the summary may be in a minimal message, in characters.
const MINIMAL_SUMMARY_LEN: usize = 200;

/// Posts each message to an address, as Alertmanager's `webhook_configs` does.
///
/// A message is one group of one alert: the group key is the alert's identity, so it stays the same over the alert's whole life. The alert in it is known
/// by its label set, as in Alertmanager. So when severity or reason change, the message holds two: the old label set, resolved, and then the new one, firing.
/// What was over before it could be sent is sent as two messages, firing and then resolved.
#[derive(Debug)]
pub struct Webhook {
    client: Client,
    url: Secret,
    external_url: String,
}

/// An address that cannot be posted to. It does not say which: it is a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an http or https URL: {0}")]
pub struct InvalidUrl(String);

impl Webhook {
    /// A webhook at this address. `external_url`: where people find this program; empty if nowhere.
    ///
    /// # Errors
    ///
    /// The address is not an HTTP URL.
    pub fn new(client: Client, url: Secret, external_url: String) -> Result<Self, InvalidUrl> {
        let parsed = Url::parse(url.expose()).map_err(|error| InvalidUrl(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(InvalidUrl("it must begin with http:// or https://".into()));
        }
        Ok(Self {
            client,
            url,
            external_url,
        })
    }
}

impl Receiver for Webhook {
    fn name(&self) -> &'static str {
        NAME
    }

    fn late(&self) -> Late {
        Late::FireThenResolve
    }

    fn max_in_flight(&self) -> usize {
        4
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        let payload = Payload::of(message, &self.external_url);
        let body = serde_json::to_vec(&payload).map_err(|error| SendError::encode(&error))?;
        post_json(&self.client, &self.url, body).await?;
        Ok(None)
    }
}

/// The body: `webhook.Message` of Alertmanager, with its fields in the same order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    receiver: &'static str,
    status: Status,
    alerts: Vec<PayloadAlert<'a>>,
    #[serde(rename = "notification_reason")]
    notification_reason: &'static str,
    group_labels: Labels,
    common_labels: Labels,
    common_annotations: Labels,
    route_labels: Labels,
    #[serde(rename = "externalURL")]
    external_url: &'a str,
    version: &'static str,
    group_key: String,
    truncated_alerts: u64,
}

/// One alert: `template.Alert` of Alertmanager.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PayloadAlert<'a> {
    status: Status,
    labels: &'a Labels,
    annotations: Labels,
    starts_at: Timestamp,
    #[serde(serialize_with = "end")]
    ends_at: Option<Timestamp>,
    #[serde(rename = "generatorURL")]
    generator_url: &'static str,
    fingerprint: Fingerprint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Firing,
    Resolved,
}

impl<'a> Payload<'a> {
    fn of(message: &'a Message, external_url: &'a str) -> Self {
        let status = if message.event.is_firing() {
            Status::Firing
        } else {
            Status::Resolved
        };
        let alert = &message.alert;
        // What ends comes first, so that who goes through them in order ends up with what is true.
        let mut alerts: Vec<_> = message
            .stale
            .iter()
            .map(|old| PayloadAlert::stale(old, message))
            .collect();
        alerts.push(PayloadAlert {
            status,
            labels: &alert.labels,
            annotations: annotations(message),
            starts_at: alert.starts_at,
            ends_at: (status == Status::Resolved).then(|| message.ends_at()),
            generator_url: "",
            fingerprint: alert.fingerprint(),
        });
        let identity = alert.identity();
        Self {
            receiver: NAME,
            status,
            notification_reason: match message.event {
                Event::Fired => "first notification",
                Event::Changed => "new alerts added",
                Event::Resolved(_) | Event::FiredAndResolved(_) => "all alerts resolved",
            },
            common_labels: common(alerts.iter().map(|alert| alert.labels)),
            common_annotations: common(alerts.iter().map(|alert| &alert.annotations)),
            alerts,
            route_labels: Labels::new(),
            external_url,
            version: "4",
            // The route is the root, which has no matchers.
            group_key: format!("{{}}:{}", text::label_set(&identity)),
            group_labels: identity,
            truncated_alerts: 0,
        }
    }
}

impl<'a> PayloadAlert<'a> {
    /// The end of what the receiver still holds under an old label set.
    fn stale(old: &'a Standing, message: &Message) -> Self {
        Self {
            status: Status::Resolved,
            labels: &old.labels,
            annotations: if message.minimal {
                Labels::new()
            } else {
                old.annotations.clone()
            },
            starts_at: old.starts_at,
            ends_at: Some(message.ends_at()),
            generator_url: "",
            fingerprint: old.labels.fingerprint(),
        }
    }
}

/// The annotations to send. If the message stands for several transitions, it says for how many.
fn annotations(message: &Message) -> Labels {
    let annotations = &message.alert.annotations;
    let mut sent = if message.minimal {
        let summary = annotations.get("summary").unwrap_or_default();
        Labels::new().with("summary", text::shorten(summary, MINIMAL_SUMMARY_LEN))
    } else {
        annotations.clone()
    };
    if message.transitions > 1 {
        sent.set("transitions", message.transitions.to_string());
    }
    sent
}

/// The labels that all the sets share.
fn common<'a>(mut sets: impl Iterator<Item = &'a Labels>) -> Labels {
    let Some(first) = sets.next() else {
        return Labels::new();
    };
    let mut common = first.clone();
    for other in sets {
        for (name, value) in first.iter() {
            if other.get(name) != Some(value) {
                common.set(name.to_owned(), "");
            }
        }
    }
    common
}

/// An end as Go writes it.
#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn end<S: Serializer>(end: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match end {
        Some(end) => serializer.collect_str(end),
        None => serializer.serialize_str(NO_END),
    }
}

#[cfg(test)]
mod tests;
