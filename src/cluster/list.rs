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
            label_selector: options.label_selector.clone(),
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
