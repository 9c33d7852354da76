//! Pods.

use k8s_openapi::api::core::v1::Pod;

use super::noon;
use crate::sim::pods::{Owner, mk_pod};

#[test]
fn pods_are_of_the_size_and_shape_of_real_ones() {
    let exit = noon();
    let healthy = || mk_pod("shop", "web-7d9c5b8f6-x2x4q");
    for pod in [
        healthy(),
        healthy().crash_looping(exit, 3),
        healthy().oom_killed(exit, 1),
        healthy().recovered(exit, 4),
        healthy().not_ready(exit),
        healthy().image_pull_back_off(),
        healthy().init_stuck(exit),
        healthy().unschedulable(),
        healthy().completed(exit),
        healthy().owned_by(Owner::DaemonSet("agent".into())),
        healthy().owned_by(Owner::CronJob("backup".into(), 29_391_040)),
        healthy().owned_by(Owner::Job("import".into())),
        healthy().owned_by(Owner::Bare),
    ] {
        let json = pod.build();
        let size = json.to_string().len();
        assert!((8_000..13_500).contains(&size), "{size} bytes: {pod:?}");
        // The real type reads it, and loses nothing that it knows.
        let typed: Pod = serde_json::from_value(json.clone()).unwrap();
        let again = serde_json::to_value(typed).unwrap();
        assert_eq!(
            again["status"]["containerStatuses"].is_array(),
            json["status"]["containerStatuses"].is_array()
        );
        assert_eq!(
            again["metadata"]["ownerReferences"],
            json["metadata"]["ownerReferences"]
        );
    }
}

#[test]
fn a_crash_loop_looks_as_the_kubelet_writes_it() {
    let pod = mk_pod("shop", "web-7d9c5b8f6-x2x4q")
        .crash_looping(noon(), 3)
        .build();
    let app = &pod["status"]["containerStatuses"][0];
    let message = app["state"]["waiting"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "back-off 40s restarting failed container=app pod=web-7d9c5b8f6-x2x4q_shop("
        ),
        "{message}"
    );
    assert_eq!(app["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(
        app["lastState"]["terminated"]["finishedAt"],
        "2026-11-02T12:00:00Z"
    );
    let long = mk_pod("shop", "web").crash_looping(noon(), 9).build();
    let message = &long["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    assert!(
        message
            .as_str()
            .unwrap()
            .starts_with("back-off 5m0s restarting")
    );
}

#[test]
fn a_pod_tells_its_deployment_by_its_name() {
    let owner =
        |name: &str| mk_pod("shop", name).build()["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owner("web-front-7d9c5b8f6-x2x4q"), "web-front-7d9c5b8f6");
    assert_eq!(owner("web"), "web-7d9c5b8f6");
    let labels = mk_pod("shop", "web-abc12-x2x4q").build()["metadata"]["labels"].clone();
    assert_eq!(labels["pod-template-hash"], "abc12");
}
