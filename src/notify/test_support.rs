//! Alerts for the tests of delivery.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    alert::{Alert, Labels, Member, Notice, Resolution, Severity, State, Transition},
    cluster::{KindId, ObjectRef, Subject},
    rules::Rule,
    shard::ShardKey,
};

/// The rule of all alerts here.
pub static RULE: Rule = Rule {
    name: "KubePodCrashLooping",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    hold: Duration::ZERO,
    quorum: 1,
    description: "A container crashes again and again.",
};

/// The time of the first transition.
pub const START: Timestamp = Timestamp::constant(1_790_000_000, 0);

/// This many seconds after the start.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START.as_second() + seconds).unwrap()
}

/// A firing alert on the Deployment `shop/<name>`.
pub fn mk_alert(name: &str, severity: Severity) -> Alert {
    let subject = Subject {
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: name.into(),
    };
    let summary = "container app: back-off 5m0s restarting failed container, exit code 1";
    Alert {
        rule: &RULE,
        shard_key: ShardKey::of(&subject),
        subject,
        labels: Labels::new()
            .with("alertname", RULE.name)
            .with("severity", severity.as_str())
            .with("cluster", "prod")
            .with("namespace", "shop")
            .with("workload", name)
            .with("workload_type", "deployment")
            .with("container", "app")
            .with("reason", "CrashLoopBackOff"),
        annotations: Labels::new().with("summary", summary).with(
            "description",
            "2 pods of Deployment shop/web crash again and again.",
        ),
        severity,
        reason: "CrashLoopBackOff".into(),
        state: State::Firing,
        starts_at: START,
        fires_at: at(60),
        ends_at: None,
        members: vec![
            mk_member(&format!("{name}-7d9f-a")),
            mk_member(&format!("{name}-7d9f-b")),
        ],
    }
}

/// A pod that shows it.
pub fn mk_member(name: &str) -> Member {
    Member {
        object: ObjectRef {
            kind: "Pod".into(),
            namespace: "shop".into(),
            name: name.into(),
        },
        node: "node-1".into(),
        since: START,
        reason: "CrashLoopBackOff".into(),
        summary: "container app: back-off 5m0s restarting failed container, exit code 1".into(),
    }
}

/// It fires, 60 s after the start.
pub fn mk_fired(name: &str) -> Notice {
    Notice {
        transition: Transition::Fired,
        alert: mk_alert(name, Severity::Warning),
        at: at(60),
    }
}

/// It has become critical, 120 s after the start.
pub fn mk_changed(name: &str) -> Notice {
    Notice {
        transition: Transition::Changed,
        alert: mk_alert(name, Severity::Critical),
        at: at(120),
    }
}

/// It has recovered, 960 s after the start.
pub fn mk_resolved(name: &str) -> Notice {
    let alert = Alert {
        state: State::Resolved,
        ends_at: Some(at(960)),
        ..mk_alert(name, Severity::Warning)
    };
    Notice {
        transition: Transition::Resolved(Resolution::Recovered),
        alert,
        at: at(960),
    }
}
