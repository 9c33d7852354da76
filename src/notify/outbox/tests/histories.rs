//! Random histories of alerts, failures and refusals, against a model of the receiver. Time is simulated.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const ALERTS: [&str; 3] = ["web", "api", "db"];
const REASONS: [&str; 3] = ["CrashLoopBackOff", "Error", "OOMKilled"];

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Something happens to an alert; what, depends on how it is.
    Turn { alert: usize, to: usize },
    /// An attempt starts, if there is one and the gate lets it.
    Start { gate: bool },
    /// An attempt ends.
    Finish { which: usize, outcome: Outcome },
    /// Time passes.
    Wait { seconds: u64 },
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Arrived,
    /// A failure that leaves it open, and whether it arrived all the same.
    Unknown {
        arrived: bool,
    },
    Busy,
    LeaveAlone,
    Content,
    Permanent,
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Arrived),
        2 => any::<bool>().prop_map(|arrived| Outcome::Unknown { arrived }),
        1 => Just(Outcome::Busy),
        1 => Just(Outcome::LeaveAlone),
        1 => Just(Outcome::Content),
        1 => Just(Outcome::Permanent),
    ];
    prop_oneof![
        4 => (0..ALERTS.len(), 0..=REASONS.len()).prop_map(|(alert, to)| Step::Turn { alert, to }),
        4 => prop::bool::weighted(0.8).prop_map(|gate| Step::Start { gate }),
        4 => (0..4_usize, outcome).prop_map(|(which, outcome)| Step::Finish { which, outcome }),
        2 => (0..400_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// The truth about one alert, and what its receiver has seen.
#[derive(Debug, Default)]
struct Model {
    /// The reason with which it fires now.
    fires: Option<usize>,
    /// It has fired, and no confirmed message since has said so.
    unseen: bool,
    /// What the receiver holds as firing, by reason: all that arrived, confirmed or not.
    held: BTreeSet<String>,
    /// Whether the receiver has confirmed that it holds it as firing.
    confirmed: bool,
}

/// An attempt under way, and what was true at its start.
struct UnderWay {
    attempt: Attempt,
    /// How many times its alert had fired by then.
    fired: u32,
    /// Whether its alert was over by then.
    over: bool,
}

struct World {
    bench: Bench,
    late: Late,
    send_resolved: bool,
    models: BTreeMap<String, Model>,
    /// How many times each alert has fired.
    fired: BTreeMap<String, u32>,
    under_way: Vec<UnderWay>,
}

fn name_of(message: &Message) -> String {
    message.alert.labels.get("workload").unwrap().to_owned()
}

fn reason_of(labels: &Labels) -> String {
    labels.get("reason").unwrap().to_owned()
}

impl World {
    fn new(late: Late, send_resolved: bool) -> Self {
        Self {
            bench: Bench {
                outbox: Outbox::new(send_resolved, late, 7),
                now: Instant::now(),
            },
            late,
            send_resolved,
            models: ALERTS
                .iter()
                .map(|name| ((*name).to_owned(), Model::default()))
                .collect(),
            fired: ALERTS.iter().map(|name| ((*name).to_owned(), 0)).collect(),
            under_way: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Turn { alert, to } => self.turn(ALERTS[alert], to),
            Step::Start { gate } => self.start(gate),
            Step::Finish { which, outcome } => {
                if which < self.under_way.len() {
                    self.finish(which, outcome);
                }
            }
            Step::Wait { seconds } => self.bench.now += Duration::from_secs(seconds),
        }
    }

    /// The engine's transitions: an alert that does not fire can only fire; one that fires can change or end.
    fn turn(&mut self, name: &str, to: usize) {
        let model = self.models.get_mut(name).unwrap();
        let notice = match (model.fires, REASONS.get(to)) {
            (None, reason) => {
                let to = reason.map_or(0, |_| to);
                model.fires = Some(to);
                model.unseen = true;
                *self.fired.get_mut(name).unwrap() += 1;
                with_reason(mk_fired(name), REASONS[to])
            }
            (Some(old), Some(_)) if old == to => return,
            (Some(_), Some(reason)) => {
                model.fires = Some(to);
                with_reason(mk_changed(name), reason)
            }
            (Some(old), None) => {
                model.fires = None;
                with_reason(mk_resolved(name), REASONS[old])
            }
        };
        self.bench.push(notice);
    }

    fn start(&mut self, gate: bool) {
        let now = self.bench.now;
        let Some(attempt) = self.bench.outbox.next(now, |_| gate.into()) else {
            return;
        };
        assert!(gate, "the gate was closed");
        let name = name_of(&attempt.message);
        assert!(
            self.under_way
                .iter()
                .all(|other| name_of(&other.attempt.message) != name),
            "two messages about one alert are under way"
        );
        let model = &self.models[&name];
        match attempt.message.event {
            Event::Resolved(_) => {
                assert!(self.send_resolved, "a resolve nobody asked for");
                assert!(model.confirmed, "a resolve of what was never delivered");
                assert_eq!(model.fires, None, "a resolve of what still stands");
            }
            Event::FiredAndResolved(_) => {
                assert_eq!(self.late, Late::OneMessage);
                assert_eq!(model.fires, None, "a resolve of what still stands");
            }
            Event::Fired | Event::Changed => {}
        }
        self.under_way.push(UnderWay {
            attempt,
            fired: self.fired[&name],
            over: model.fires.is_none(),
        });
    }

    fn finish(&mut self, which: usize, outcome: Outcome) {
        let UnderWay {
            attempt,
            fired,
            over,
        } = self.under_way.swap_remove(which);
        let message = &attempt.message;
        let name = name_of(message);
        let model = self.models.get_mut(&name).unwrap();
        let arrived = matches!(
            outcome,
            Outcome::Arrived | Outcome::Unknown { arrived: true }
        );
        if arrived {
            for old in &message.stale {
                model.held.remove(&reason_of(&old.labels));
            }
            let reason = reason_of(&message.alert.labels);
            if message.event.is_firing() {
                model.held.insert(reason);
            } else {
                model.held.remove(&reason);
            }
        }
        let result = match outcome {
            Outcome::Arrived => {
                // It covers all that happened before its start.
                if fired == self.fired[&name] {
                    model.unseen = false;
                }
                model.confirmed = message.event.is_firing();
                Ok(())
            }
            Outcome::Unknown { .. } => Err(SendError::timeout(SECOND)),
            Outcome::Busy => Err(answered(429)),
            Outcome::LeaveAlone => Err(leave_alone(MINUTE)),
            Outcome::Content => Err(answered(400)),
            Outcome::Permanent => Err(answered(404)),
        };
        if self.bench.finish(&attempt, &result) == Finished::Dropped {
            let model = self.models.get_mut(&name).unwrap();
            assert!(over, "a page was given up while its alert stood");
            assert_eq!(model.fires, None, "a page was given up unseen");
            // From here on nothing is owed to the receiver about it.
            *model = Model::default();
        }
    }

    /// The receiver is well again, and time passes.
    fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.finish(0, Outcome::Arrived);
        }
        for _ in 0..20 {
            let Some(deadline) = self.bench.outbox.next_deadline() else {
                break;
            };
            self.bench.now = self.bench.now.max(deadline);
            self.start(true);
            while !self.under_way.is_empty() {
                self.finish(0, Outcome::Arrived);
            }
        }
        assert!(self.bench.outbox.is_empty(), "something stays owed");
        let entries = self.bench.outbox.entries.len();
        let firing = self.models.values().filter(|model| model.fires.is_some());
        assert_eq!(entries, firing.count(), "an entry leaks");
        assert_eq!(self.bench.outbox.ids.len(), entries);
        assert!(self.bench.outbox.schedule.is_empty());
        for (name, model) in &self.models {
            assert!(!model.unseen, "{name} fired and nobody was told");
            let truth: BTreeSet<_> = model
                .fires
                .iter()
                .map(|reason| REASONS[*reason].to_owned())
                .collect();
            if self.send_resolved {
                assert_eq!(model.held, truth, "what the receiver holds of {name}");
            } else {
                assert!(model.held.is_superset(&truth), "{name}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_the_receiver_ends_up_with_the_truth(
        steps in prop::collection::vec(step(), 0..120),
        one_message in any::<bool>(),
        send_resolved in prop::bool::weighted(0.8),
    ) {
        let late = if one_message { Late::OneMessage } else { Late::FireThenResolve };
        let mut world = World::new(late, send_resolved);
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}
