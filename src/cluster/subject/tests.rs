//! Whose an object is: the table of subjects, row by row.

use super::*;

/// Creation of the objects below.
const CREATED: &str = "2026-11-03T09:00:30Z";
/// The minute before it, as the `CronJob` controller writes it.
const MINUTE: i64 = 29_894_940;

fn mk_meta(name: &str) -> Meta {
    Meta {
        namespace: "shop".into(),
        name: name.into(),
        creation_timestamp: Some(CREATED.parse().unwrap()),
        ..Meta::default()
    }
}

fn mk_owned(name: &str, api_version: &str, kind: &str, owner: &str) -> Meta {
    Meta {
        owner: Some(Owner {
            api_version: api_version.into(),
            kind: kind.into(),
            name: owner.into(),
        }),
        ..mk_meta(name)
    }
}

fn with_hash(hash: &str, meta: Meta) -> Meta {
    Meta {
        pod_template_hash: Some(hash.into()),
        ..meta
    }
}

fn with_rollouts_hash(hash: &str, meta: Meta) -> Meta {
    Meta {
        rollouts_pod_template_hash: Some(hash.into()),
        ..meta
    }
}

/// The subject of an object and its label, in one text.
fn subject_of(kind: &str, meta: &Meta) -> String {
    let (subject, workload_type) = Subject::of(kind, meta);
    format!("{subject} {}", workload_type.as_label(&subject))
}

/// A pod with this controller.
fn pod(api_version: &str, kind: &str, owner: &str) -> Meta {
    mk_owned("a-pod", api_version, kind, owner)
}

fn assert_subjects<const N: usize>(kind: &str, cases: [(Meta, &str); N]) {
    for (meta, expected) in cases {
        assert_eq!(subject_of(kind, &meta), expected, "{:?}", meta.owner);
    }
}

#[test]
fn a_pod_without_a_controller_is_its_own_subject() {
    assert_subjects(
        "Pod",
        [
            (mk_meta("a-pod"), "Pod/shop/a-pod barepod"),
            // A static pod, as the kubelet mirrors it.
            (
                Meta {
                    mirror: true,
                    ..pod("v1", "Node", "node-1")
                },
                "Pod/shop/a-pod staticpod",
            ),
        ],
    );
}

#[test]
fn a_pod_of_a_replica_set_belongs_to_what_its_hash_shows() {
    assert_subjects(
        "Pod",
        [
            (
                with_rollouts_hash("6f8bc", pod("apps/v1", "ReplicaSet", "web-6f8bc")),
                "Rollout/shop/web rollout",
            ),
            (
                with_rollouts_hash("6f8bc", pod("apps/v1", "ReplicaSet", "web-zzzzz")),
                "ReplicaSet/shop/web-zzzzz replicaset",
            ),
            // A Rollout's template that was copied from a Deployment's pod, and the other way round.
            (
                with_hash(
                    "bc",
                    with_rollouts_hash("6f8bc", pod("apps/v1", "ReplicaSet", "web-6f8bc")),
                ),
                "Rollout/shop/web rollout",
            ),
            (
                with_hash(
                    "6f8bc",
                    with_rollouts_hash("zzzzz", pod("apps/v1", "ReplicaSet", "web-6f8bc")),
                ),
                "Deployment/shop/web deployment",
            ),
            (
                with_hash(
                    "7d9fbc8b5",
                    pod("apps/v1", "ReplicaSet", "web-api-7d9fbc8b5"),
                ),
                "Deployment/shop/web-api deployment",
            ),
            (
                with_hash("c8b5", pod("apps/v1", "ReplicaSet", "web-7d9fbc8b5")),
                "ReplicaSet/shop/web-7d9fbc8b5 replicaset",
            ),
            (
                with_hash("web", pod("apps/v1", "ReplicaSet", "web")),
                "ReplicaSet/shop/web replicaset",
            ),
            (
                with_hash("web", pod("apps/v1", "ReplicaSet", "-web")),
                "ReplicaSet/shop/-web replicaset",
            ),
            (
                with_hash("", pod("apps/v1", "ReplicaSet", "web-")),
                "ReplicaSet/shop/web- replicaset",
            ),
            (
                pod("apps/v1", "ReplicaSet", "web-7d9fbc8b5"),
                "ReplicaSet/shop/web-7d9fbc8b5 replicaset",
            ),
            // Somebody else's kind of the same name.
            (
                with_hash("bc", pod("apps.example.com/v1", "ReplicaSet", "web-bc")),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            // By hand, without a version.
            (
                with_hash("bc", pod("", "ReplicaSet", "web-bc")),
                "Deployment/shop/web deployment",
            ),
        ],
    );
}

#[test]
fn a_pod_of_any_other_controller_belongs_to_it() {
    assert_subjects(
        "Pod",
        [
            (
                pod("apps/v1", "StatefulSet", "db"),
                "StatefulSet/shop/db statefulset",
            ),
            // The labels of a template say nothing about other controllers.
            (
                with_hash("bc", pod("apps/v1", "StatefulSet", "db-bc")),
                "StatefulSet/shop/db-bc statefulset",
            ),
            (
                pod("apps/v1", "DaemonSet", "agent"),
                "DaemonSet/shop/agent daemonset",
            ),
            (
                pod("argoproj.io/v1alpha1", "Workflow", "build-x7"),
                "Workflow/shop/build-x7 workflow",
            ),
            (
                pod("v1", "ReplicationController", "old"),
                "ReplicationController/shop/old replicationcontroller",
            ),
        ],
    );
}

#[test]
fn a_pod_of_a_job_belongs_to_the_cron_job_whose_minute_the_name_ends_in() {
    let minute = |minutes: i64| format!("report-{}", MINUTE + minutes);
    let days = |days: i64| minute(days * 24 * 60);
    assert_subjects(
        "Pod",
        [
            (
                pod("batch/v1", "Job", &minute(0)),
                "CronJob/shop/report cronjob",
            ),
            (
                pod("batch/v1", "Job", &minute(60)),
                "CronJob/shop/report cronjob",
            ),
            (
                pod("batch/v1", "Job", &minute(62)),
                "Job/shop/report-29895002 job",
            ),
            (
                pod("batch/v1", "Job", &days(-31)),
                "CronJob/shop/report cronjob",
            ),
            (
                pod("batch/v1", "Job", &days(-33)),
                "Job/shop/report-29847420 job",
            ),
            (
                pod("batch/v1", "Job", "report-20260101"),
                "Job/shop/report-20260101 job",
            ),
            (pod("batch/v1", "Job", "report"), "Job/shop/report job"),
            (pod("batch/v1", "Job", "report-"), "Job/shop/report- job"),
            (pod("batch/v1", "Job", "29894940"), "Job/shop/29894940 job"),
            (
                pod("batch/v1", "Job", "-29894940"),
                "Job/shop/-29894940 job",
            ),
            (
                pod("batch/v1", "Job", "report-029894940"),
                "Job/shop/report-029894940 job",
            ),
            (
                pod("batch/v1", "Job", "report-+29894940"),
                "Job/shop/report-+29894940 job",
            ),
            (
                pod("batch/v1", "Job", "report-9223372036854775807"),
                "Job/shop/report-9223372036854775807 job",
            ),
            (
                pod("batch/v1", "Job", "report-99999999999999999999"),
                "Job/shop/report-99999999999999999999 job",
            ),
            (
                Meta {
                    creation_timestamp: None,
                    ..pod("batch/v1", "Job", &minute(0))
                },
                "Job/shop/report-29894940 job",
            ),
            (
                pod("batch.volcano.sh/v1alpha1", "Job", &minute(0)),
                "Job/shop/report-29894940 job",
            ),
        ],
    );
}

#[test]
fn the_name_of_a_cron_job_has_52_characters_at_most() {
    for (length, kind) in [(52, "CronJob"), (53, "Job")] {
        let job = format!("{}-{MINUTE}", "x".repeat(length));
        let (subject, _) = Subject::of("Pod", &mk_owned("a-pod", "batch/v1", "Job", &job));
        assert_eq!(&*subject.kind, kind);
    }
}

#[test]
fn a_replica_set_or_job_is_of_its_owner_only_if_its_name_agrees() {
    let job = format!("report-{MINUTE}");
    let job = job.as_str();
    let cases = [
        (
            "ReplicaSet",
            with_hash("bc", mk_owned("web-bc", "apps/v1", "Deployment", "web")),
            "Deployment/shop/web deployment",
        ),
        (
            "ReplicaSet",
            with_rollouts_hash(
                "bc",
                mk_owned("web-bc", "argoproj.io/v1alpha1", "Rollout", "web"),
            ),
            "Rollout/shop/web rollout",
        ),
        // Another owner, another kind of owner, none, another hash, none.
        (
            "ReplicaSet",
            with_hash("bc", mk_owned("web-bc", "apps/v1", "Deployment", "api")),
            "ReplicaSet/shop/web-bc replicaset",
        ),
        (
            "ReplicaSet",
            with_hash("bc", mk_owned("web-bc", "example.com/v1", "App", "web")),
            "ReplicaSet/shop/web-bc replicaset",
        ),
        (
            "ReplicaSet",
            with_hash("bc", mk_meta("web-bc")),
            "ReplicaSet/shop/web-bc replicaset",
        ),
        (
            "ReplicaSet",
            with_hash("xx", mk_owned("web-bc", "apps/v1", "Deployment", "web")),
            "ReplicaSet/shop/web-bc replicaset",
        ),
        (
            "ReplicaSet",
            mk_owned("web-bc", "apps/v1", "Deployment", "web"),
            "ReplicaSet/shop/web-bc replicaset",
        ),
        (
            "Job",
            mk_owned(job, "batch/v1", "CronJob", "report"),
            "CronJob/shop/report cronjob",
        ),
        ("Job", mk_meta(job), "Job/shop/report-29894940 job"),
        (
            "Job",
            mk_owned(job, "batch/v1", "CronJob", "other"),
            "Job/shop/report-29894940 job",
        ),
        (
            "Job",
            mk_owned("report-by-hand", "batch/v1", "CronJob", "report"),
            "Job/shop/report-by-hand job",
        ),
        (
            "Job",
            Meta {
                manual: true,
                ..mk_owned(job, "batch/v1", "CronJob", "report")
            },
            "Job/shop/report-29894940 job",
        ),
    ];
    for (kind, meta, expected) in cases {
        assert_eq!(subject_of(kind, &meta), expected, "{:?}", meta.owner);
    }
}

#[test]
fn any_other_object_is_its_own_subject() {
    let owned = mk_owned("web", "example.com/v1", "App", "shop");
    assert_eq!(
        subject_of("Deployment", &owned),
        "Deployment/shop/web deployment"
    );
    let node = Meta {
        namespace: "".into(),
        ..mk_meta("node-1")
    };
    assert_eq!(subject_of("Node", &node), "Node//node-1 node");
}
