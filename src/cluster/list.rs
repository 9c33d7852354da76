//! A kind's objects, read once.

use std::{collections::VecDeque, time::Duration};

use futures::{Stream, stream};
use kube::{Api, Client, api::ListParams};

use super::{Failure, FailureReason, Kind, Object, WatchOptions, Wire};

/// Objects of a page; what client-go and kubectl ask for.
pub(super) const PAGE_SIZE: u32 = 500;

/// How long a page may take. The API server gives up on a request after 60 s (`--request-timeout`).
const PAGE_TIMEOUT: Duration = Duration::from_secs(65);

/// Reads every object of a kind once, page by page, with the number of its fields that are malformed. Only one page is held at a time. Ends after
/// the first failure.
///
/// # Errors
///
/// The list, or the rest of it, could not be read.
pub fn list<K>(
    client: Client,
    options: &WatchOptions,
) -> impl Stream<Item = Result<(Object, u32), Failure>> + Send + use<K>
where
    K: Kind,
    Object: From<K>,
{
    let pages = Pages::<K> {
        api: options.api(client),
        params: ListParams {
            label_selector: options.clone().into_selector::<K>(),
            ..ListParams::default().limit(PAGE_SIZE)
        },
        objects: VecDeque::new(),
        more: true,
    };
    stream::unfold(pages, |mut pages| async {
        let item = pages.next().await?;
        Some((item, pages))
    })
}

struct Pages<K> {
    api: Api<Wire<K>>,
    params: ListParams,
    objects: VecDeque<Wire<K>>,
    more: bool,
}

impl<K> Pages<K>
where
    K: Kind,
    Object: From<K>,
{
    async fn next(&mut self) -> Option<Result<(Object, u32), Failure>> {
        loop {
            if let Some(wire) = self.objects.pop_front() {
                return Some(Ok((wire.object.into(), wire.malformed)));
            }
            if !self.more {
                return None;
            }
            if let Err(failure) = self.read().await {
                self.more = false;
                return Some(Err(failure));
            }
        }
    }

    /// Reads the next page.
    async fn read(&mut self) -> Result<(), Failure> {
        let page = tokio::time::timeout(PAGE_TIMEOUT, self.api.list(&self.params))
            .await
            .map_err(|_| {
                let message = format!(
                    "cannot list {}: no answer within {} s",
                    K::KIND,
                    PAGE_TIMEOUT.as_secs()
                );
                Failure::new(FailureReason::Silent, message)
            })?
            .map_err(|error| Failure::of_client("list", K::KIND, &error))?;
        self.objects = page.items.into();
        self.params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.more = self.params.continue_token.is_some();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use futures::StreamExt as _;
    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;
    use crate::cluster::{EndpointSlice, Pod};

    /// Lists pods from a server that gives these answers, the last one never; what came of it, and what was asked.
    async fn listed(answers: &[(u16, &str)]) -> (Vec<Result<String, Failure>>, Vec<String>) {
        let mut answers: VecDeque<(u16, String)> = answers
            .iter()
            .map(|&(status, body)| (status, body.to_owned()))
            .collect();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let uris = asked.clone();
        let service = service_fn(move |request: Request<Body>| {
            uris.lock().unwrap().push(request.uri().to_string());
            let answer = answers.pop_front();
            async move {
                match answer {
                    Some((status, body)) => Response::builder()
                        .status(status)
                        .body(Full::new(Bytes::from(body))),
                    None => std::future::pending().await,
                }
            }
        });
        let client = Client::new(service, "default");
        let items = list::<Pod>(client, &WatchOptions::default())
            .map(|item| item.map(|(object, _)| object.meta().name.to_string()))
            .collect()
            .await;
        let asked = asked.lock().unwrap().clone();
        (items, asked)
    }

    #[test]
    fn of_endpoint_slices_only_those_of_services_with_a_selector_are_asked_for() {
        let of_kind = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io";
        let asked = |label_selector: Option<&str>| WatchOptions {
            label_selector: label_selector.map(str::to_owned),
            ..WatchOptions::default()
        };
        assert_eq!(asked(None).into_selector::<Pod>(), None);
        assert_eq!(asked(Some("a=b")).into_selector::<Pod>().unwrap(), "a=b");
        let selector = asked(None).into_selector::<EndpointSlice>();
        assert_eq!(selector.unwrap(), of_kind);
        let selector = asked(Some("a=b")).into_selector::<EndpointSlice>();
        assert_eq!(selector.unwrap(), format!("{of_kind},a=b"));
    }

    const FIRST: &str = r#"{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    const LAST: &str = r#"{"metadata":{"continue":""},"items":[{"metadata":{"name":"c"}}]}"#;

    #[tokio::test(start_paused = true)]
    async fn every_page_is_read() {
        let (items, asked) = listed(&[(200, FIRST), (200, LAST)]).await;
        assert_eq!(items, ["a", "b", "c"].map(|name| Ok(name.to_owned())));
        assert_eq!(
            asked,
            [
                "/api/v1/pods?&limit=500",
                "/api/v1/pods?&limit=500&continue=more"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_ends_it_after_what_was_read() {
        let (items, _) = listed(&[(200, FIRST), (403, "no")]).await;
        assert_eq!(items.len(), 3);
        assert_eq!(
            items[2].as_ref().unwrap_err().reason,
            FailureReason::Forbidden
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_given_up() {
        let started = Instant::now();
        let (items, _) = listed(&[(200, FIRST)]).await;
        assert_eq!(items[2].as_ref().unwrap_err().reason, FailureReason::Silent);
        assert_eq!(started.elapsed(), PAGE_TIMEOUT);
    }
}
