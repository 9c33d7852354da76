//! The routes: URLs and bodies to calls of the store, and back.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, StatusCode, header, request::Parts};
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    ApiError, DeleteOptions, Fault, Faults, Requests, Store, Verb, requests,
    selector::Selector,
    store::Page,
    target::{Query, Target, is_true},
    watch::{Watch, WatchRequest},
};

/// The largest body of a request, in bytes: that of the real server (`MaxRequestBodyBytes`).
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// What the routes need.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) store: Store,
    pub(super) faults: Faults,
    pub(super) requests: Requests,
    pub(super) stop: CancellationToken,
    pub(super) bookmark_interval: Duration,
}

pub(super) fn router(api: Arc<Api>) -> Router {
    Router::new().fallback(serve).with_state(api)
}

async fn serve(State(api): State<Arc<Api>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = tokio::select! {
        response = answer(&api, &parts, body) => response.unwrap_or_else(|error| refuse(&error)),
        () = api.stop.cancelled() => refuse(&ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")),
    };
    // Hyper leaves a date that is there already.
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&api.store.clock.now());
    if let Ok(Ok(date)) = date.map(HeaderValue::try_from) {
        response.headers_mut().insert(header::DATE, date);
    }
    response
}

async fn answer(api: &Api, parts: &Parts, body: Body) -> Result<Response, ApiError> {
    let path = parts.uri.path();
    let target = Target::parse(path);
    let query = axum::extract::Query::<Query>::try_from_uri(&parts.uri);
    let verb = match (&target, &query) {
        (Some(target), Ok(query)) => target.verb(&parts.method, query),
        _ => None,
    };
    api.requests.record(requests::Request {
        method: parts.method.clone(),
        uri: parts.uri.clone(),
        verb,
        resource: target.as_ref().map_or("", |target| target.resource.plural),
    });
    let Some(target) = target else {
        return unrelated(path);
    };
    let query = query
        .map_err(|error| ApiError::bad_request(error.body_text()))?
        .0;
    let Some(verb) = verb else {
        return Err(ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        ));
    };

    let plural = target.resource.plural;
    let strike = |pick: &dyn Fn(Fault) -> Option<Duration>| api.faults.strike(verb, plural, pick);
    if let Some(delay) = strike(&|fault| match fault {
        Fault::Slow(delay) => Some(delay),
        _ => None,
    }) {
        tokio::time::sleep(delay).await;
    }
    if let Some(error) = api.faults.strike(verb, plural, |fault| match fault {
        Fault::Refuse(code, retry_after) => Some(refusal(code, retry_after, &target, verb)),
        _ => None,
    }) {
        return Err(error);
    }
    let response = match verb {
        Verb::Watch => watch(api, &target, &query),
        Verb::List => list(api, &target, &query),
        Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            let body = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| {
                ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the body is over 3 MiB, or was cut",
                )
            })?;
            one(api, &target, verb, &query, parts, &body)
        }
    };
    if let Some(delay) = strike(&|fault| match fault {
        Fault::SlowAnswer(delay) => Some(delay),
        _ => None,
    }) {
        tokio::time::sleep(delay).await;
    }
    response
}

/// Paths that are not about a resource.
fn unrelated(path: &str) -> Result<Response, ApiError> {
    match path {
        "/readyz" | "/livez" | "/healthz" => {
            Ok(respond(StatusCode::OK, "text/plain", Body::from("ok")))
        }
        "/version" => {
            let version = json!({
                "major": "1", "minor": "37", "gitVersion": "v1.37.2", "gitCommit": "", "gitTreeState": "clean",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "in/memory",
            });
            Ok(respond(StatusCode::OK, JSON, version.to_string().into()))
        }
        _ => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "the server could not find the requested resource",
        )),
    }
}

/// The refusal that a fault asks for, in the words of the real server.
fn refusal(
    code: StatusCode,
    retry_after: Option<Duration>,
    target: &Target<'_>,
    verb: Verb,
) -> ApiError {
    let resource = target.resource;
    let message = match code.as_u16() {
        403 => format!(
            "{} is forbidden: User \"system:anonymous\" cannot {} resource \"{}\" in API group \"{}\"",
            resource.qualified(),
            format!("{verb:?}").to_lowercase(),
            resource.plural,
            resource.group,
        ),
        404 => "the server could not find the requested resource".to_owned(),
        410 => "The resourceVersion for the provided watch is too old.".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later"
            .to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        _ => format!("an error on the server ({code}) has prevented the request from succeeding"),
    };
    ApiError {
        retry_after_seconds: retry_after.map(|after| after.as_secs()),
        ..ApiError::new(code, message)
    }
}

fn watch(api: &Api, target: &Target<'_>, query: &Query) -> Result<Response, ApiError> {
    let resource = target.resource;
    let streaming_list = is_true(query.send_initial_events.as_ref());
    let not_older_than = query.resource_version_match.as_deref() == Some("NotOlderThan");
    if streaming_list {
        let refused = |fault| (fault == Fault::NoStreamingLists).then_some(());
        if api
            .faults
            .strike(Verb::Watch, resource.plural, refused)
            .is_some()
        {
            return Err(options_invalid(
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
        if !not_older_than {
            return Err(options_invalid(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
    } else if query.resource_version_match.is_some() {
        return Err(options_invalid(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    let empty = |fault| (fault == Fault::EmptyWatch).then_some(());
    if api
        .faults
        .strike(Verb::Watch, resource.plural, empty)
        .is_some()
    {
        return Ok(respond(
            StatusCode::OK,
            JSON,
            Body::from_stream(stream::empty::<std::io::Result<Bytes>>()),
        ));
    }
    let request = WatchRequest {
        resource,
        selector: selector(target, query)?,
        after: query.version()?.filter(|_| !streaming_list),
        streaming_list,
        bookmarks: is_true(query.allow_watch_bookmarks.as_ref()),
        timeout: query
            .timeout_seconds
            .filter(|t| *t > 0)
            .map(Duration::from_secs),
    };
    let watch = Watch::new(
        api.store.clone(),
        request,
        api.faults.watch(resource.plural),
        api.stop.clone(),
        api.bookmark_interval,
    )?;
    Ok(respond(
        StatusCode::OK,
        JSON,
        Body::from_stream(watch.into_stream()),
    ))
}

fn options_invalid(why: &str) -> ApiError {
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        format!("ListOptions.meta.k8s.io \"\" is invalid: {why}"),
    )
}

fn selector(target: &Target<'_>, query: &Query) -> Result<Selector, ApiError> {
    Selector::new(
        target.namespace,
        query.label_selector.as_deref(),
        query.field_selector.as_deref(),
    )
}

fn list(api: &Api, target: &Target<'_>, query: &Query) -> Result<Response, ApiError> {
    if query.send_initial_events.is_some() {
        return Err(options_invalid(
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ));
    }
    let version = query.version()?;
    let now = api.store.version();
    if let Some(version) = version.filter(|version| *version > now) {
        return Err(ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            format!("Timeout: Too large resource version: {version}, current: {now}"),
        ));
    }
    let exactly = version.filter(|_| query.resource_version_match.as_deref() == Some("Exact"));
    // A list at version 0 is answered from a cache, which knows no pages.
    let from_cache = query.resource_version.as_deref() == Some("0");
    let limit = query.limit.filter(|limit| *limit > 0 && !from_cache);
    let token = query
        .r#continue
        .as_deref()
        .filter(|token| !token.is_empty());
    if token.is_some() && version.is_some() {
        return Err(ApiError::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let Page {
        version,
        objects,
        next,
    } = api.store.list(
        target.resource,
        &selector(target, query)?,
        exactly,
        limit,
        token,
    )?;

    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(next) = next {
        metadata["continue"] = next.into();
    }
    let head = format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{metadata},"items":["#,
        target.resource.kind,
        target.resource.api_version(),
    );
    // The stored bytes, one after the other: nothing is gathered or serialised again.
    let items = objects.into_iter().enumerate().flat_map(|(index, object)| {
        let (start, rest) = object.item();
        let comma = if index > 0 { "," } else { "" };
        [comma, start]
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| Bytes::from_static(text.as_bytes()))
            .chain([rest])
            .collect::<Vec<_>>()
    });
    let chunks = std::iter::once(Bytes::from(head))
        .chain(items)
        .chain([Bytes::from_static(b"]}\n")])
        .map(Ok::<_, std::io::Error>);
    Ok(respond(
        StatusCode::OK,
        JSON,
        Body::from_stream(stream::iter(chunks)),
    ))
}

/// Requests about one object.
fn one(
    api: &Api,
    target: &Target<'_>,
    verb: Verb,
    query: &Query,
    parts: &Parts,
    body: &[u8],
) -> Result<Response, ApiError> {
    let Target {
        resource, status, ..
    } = *target;
    let (namespace, name) = (
        target.namespace.unwrap_or_default(),
        target.name.unwrap_or_default(),
    );
    let store = &api.store;
    let mut code = StatusCode::OK;
    let object = match verb {
        Verb::Get => store.get(resource, namespace, name)?,
        Verb::Create => {
            let mut object = parse(target, body)?;
            // A new pod has no status and no history, whatever its maker says; its kubelet has to speak first.
            if resource.status {
                object["status"] = if resource.kind == "Pod" {
                    json!({"phase": "Pending"})
                } else {
                    json!({})
                };
            }
            object["metadata"]["creationTimestamp"] = Value::Null;
            code = StatusCode::CREATED;
            store.create(resource, object)?
        }
        Verb::Update if status => store.replace_status(resource, parse(target, body)?)?,
        Verb::Update => {
            let object = parse(target, body)?;
            if store.get(resource, namespace, name).is_err() {
                code = StatusCode::CREATED; // or it fails
            }
            store.replace(resource, object)?
        }
        Verb::Patch => {
            let content_type = parts.headers.get(header::CONTENT_TYPE);
            // A strategic merge differs from a plain one in lists, which it merges by key. kubectl and kubelets use it, alertkube does not.
            if content_type.is_none_or(|is| is != "application/merge-patch+json") {
                return Err(ApiError::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "only application/merge-patch+json is supported",
                ));
            }
            let patch = json_body(body)?;
            if status {
                store.patch_status(resource, namespace, name, &patch)?
            } else {
                store.patch(resource, namespace, name, &patch)?
            }
        }
        Verb::Delete => {
            let mut options: DeleteOptions = if body.is_empty() {
                DeleteOptions::default()
            } else {
                serde_json::from_slice(body)
                    .map_err(|error| ApiError::bad_request(error.to_string()))?
            };
            options.grace_period_seconds =
                query.grace_period_seconds.or(options.grace_period_seconds);
            let object = store.delete(resource, namespace, name, &options)?;
            // Of what is gone, only pods are sent back.
            if resource.kind != "Pod" && store.get(resource, namespace, name).is_err() {
                let success = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"});
                return Ok(respond(StatusCode::OK, JSON, success.to_string().into()));
            }
            object
        }
        Verb::List | Verb::Watch => {
            return Err(ApiError::bad_request("not a request about one object"));
        }
    };
    Ok(respond(code, JSON, object.bytes().into()))
}

fn json_body(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// The object in a body, of the namespace and the name in the path.
fn parse(target: &Target<'_>, body: &[u8]) -> Result<Value, ApiError> {
    let mut object = json_body(body)?;
    if !object["metadata"].is_object() {
        return Err(ApiError::bad_request("metadata must be an object"));
    }
    for (field, wanted) in [("namespace", target.namespace), ("name", target.name)] {
        let (Some(wanted), given) = (wanted, &mut object["metadata"][field]) else {
            continue;
        };
        if given.is_null() {
            *given = wanted.into();
        } else if given != wanted {
            return Err(ApiError::bad_request(format!(
                "the {field} of the object ({given}) does not match the {field} on the URL ({wanted})"
            )));
        }
    }
    Ok(object)
}

const JSON: &str = "application/json";

fn respond(code: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn refuse(error: &ApiError) -> Response {
    let mut response = respond(error.code, JSON, error.status().to_string().into());
    if let Some(seconds) = error.retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
