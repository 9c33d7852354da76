//! A steady flow of failures and recoveries, each noted with its time.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use fastrand::Rng;
use kube::Client;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

use super::{Bounds, Condition, Fault, History, Moment, Receipt, judge};
use crate::{
    bed::Bed,
    support::{Message, Sketch, create_namespace, minutes, mk_pod, say},
};

/// Where things break.
const NAMESPACE: &str = "shop";

/// What breaks about it: see [`Breaks`].
const ALERTS: [&str; 2] = ["KubePodCrashLooping", "KubePodOOMKilled"];
/// How many things break independently of each other.
const LANES: usize = 16;
/// How many stay broken from the beginning to the end.
const STANDING: usize = 6;
/// After this time nobody waits any more for what should be told; the judgement will say that it was not.
const HOPELESS: Duration = Duration::from_secs(120);
/// After this time, with everything mended and nothing going wrong any more, nobody waits for resolves.
const RESOLVED_WITHIN: Duration = Duration::from_secs(45);
/// How long after a fault its consequences go on: a Lease runs out, and somebody notices.
const AFTERMATH: Duration = Duration::from_secs(30);

/// The flow, while it goes on.
pub struct Flow {
    name: String,
    started: Instant,
    client: Client,
    receipts: watch::Receiver<Receipts>,
    recorder: JoinHandle<()>,
    lanes: JoinSet<Vec<Condition>>,
    stop: watch::Sender<bool>,
    standing: Vec<(Subject, Moment)>,
    faults: Mutex<Vec<Fault>>,
}

/// By subject.
type Receipts = BTreeMap<String, Vec<Receipt>>;

impl Flow {
    /// Starts one; its name is what its figures are headed with.
    pub async fn start(bed: &Bed, name: &str, seed: u64) -> Self {
        let client = bed.client.clone();
        create_namespace(&client, NAMESPACE).await;
        let (sender, receipts) = watch::channel(Receipts::new());
        let recorder = tokio::spawn(record(bed.webhook.subscribe(), sender));
        let mut standing = Vec::new();
        for number in 0..STANDING {
            let subject = Subject::new(&format!("standing-{number}"), number);
            subject.create(&client).await;
            let broke = subject.fail(&client, false).await;
            standing.push((subject, broke));
        }
        let (stop, stopped) = watch::channel(false);
        let mut lanes = JoinSet::new();
        for number in 0..LANES {
            let lane = Lane {
                number,
                rng: Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(number as u64)),
                client: client.clone(),
                receipts: receipts.clone(),
                conditions: Vec::new(),
            };
            lanes.spawn(lane.run(stopped.clone()));
        }
        Self {
            name: format!("{name}, seed {seed}"),
            started: Instant::now(),
            client,
            receipts,
            recorder,
            lanes,
            stop,
            standing,
            faults: Mutex::default(),
        }
    }

    /// Does something that goes wrong, or may be noticed, for as long as it takes: from its beginning until some time after its end, things may be told twice.
    pub async fn fault<T>(&self, what: impl Into<String>, fault: impl Future<Output = T>) -> T {
        let from = Instant::now();
        let what = what.into();
        let done = fault.await;
        let until = Instant::now() + AFTERMATH;
        self.faults
            .lock()
            .unwrap()
            .push(Fault { what, from, until });
        done
    }

    /// Waits until this many more pages and resolves have come, to have something to judge.
    pub async fn wait_for_more(&self, count: usize) {
        let mut receipts = self.receipts.clone();
        let total = |receipts: &Receipts| receipts.values().map(Vec::len).sum::<usize>();
        let wanted = total(&receipts.borrow()) + count;
        let came = receipts.wait_for(|receipts| total(receipts) >= wanted);
        let in_time = timeout(HOPELESS, came).await.is_ok();
        assert!(in_time, "{}: nothing is told any more", self.name);
    }

    /// Mends everything, waits until that was told, and judges. Says the figures, and panics if anything is against the promise.
    pub async fn finish(mut self, bounds: Bounds) {
        self.stop.send_replace(true);
        let mut conditions = Vec::new();
        while let Some(lane) = self.lanes.join_next().await {
            conditions.extend(lane.unwrap());
        }
        for (subject, broke) in self.standing {
            let ended = subject.mend(&self.client).await;
            conditions.push(Condition {
                subject: subject.name,
                broke,
                ended,
            });
        }
        let all_resolved = |receipts: &Receipts| {
            receipts
                .values()
                .all(|of_subject| of_subject.last().is_none_or(|last| !last.is_firing))
        };
        let _ = timeout(RESOLVED_WITHIN, self.receipts.wait_for(all_resolved)).await;
        self.recorder.abort();

        let history = History {
            conditions,
            receipts: self.receipts.borrow().clone(),
            faults: self.faults.into_inner().unwrap(),
        };
        let (wrong, figures) = judge(&history, bounds);
        say(format_args!(
            "{}: {} faults in {:.0} s\n{figures}",
            self.name,
            history.faults.len(),
            self.started.elapsed().as_secs_f64(),
        ));
        assert!(
            wrong.is_empty(),
            "{}: {} times against the promise:\n{}",
            self.name,
            wrong.len(),
            wrong.join("\n")
        );
    }
}

/// Sorts what the receiver is told.
async fn record(mut messages: watch::Receiver<Vec<Message>>, receipts: watch::Sender<Receipts>) {
    let mut seen = 0;
    loop {
        let news = {
            let messages = messages.borrow_and_update();
            let news = messages[seen..].to_vec();
            seen = messages.len();
            news
        };
        receipts.send_modify(|receipts| {
            for message in news {
                let ours = message.alerts.into_iter().filter(|page| {
                    page.label("namespace") == NAMESPACE
                        && ALERTS.contains(&page.label("alertname"))
                });
                for page in ours {
                    let subject = page.label("workload").to_owned();
                    receipts.entry(subject).or_default().push(Receipt {
                        at: message.at,
                        is_firing: page.status == "firing",
                        key: page.labels,
                    });
                }
            }
        });
        if messages.changed().await.is_err() {
            return;
        }
    }
}

/// Things that break one after the other.
struct Lane {
    number: usize,
    rng: Rng,
    client: Client,
    receipts: watch::Receiver<Receipts>,
    conditions: Vec<Condition>,
}

impl Lane {
    async fn run(mut self, stopped: watch::Receiver<bool>) -> Vec<Condition> {
        for round in 0.. {
            self.pause(0..3_000).await;
            if *stopped.borrow() {
                break;
            }
            let subject = Subject::new(&format!("lane-{}-{round}", self.number), round);
            subject.create(&self.client).await;
            self.break_and_mend(&subject).await;
        }
        self.conditions
    }

    /// Breaks it, once or a few times, each after it was told to be well.
    async fn break_and_mend(&mut self, subject: &Subject) {
        for time in 0.. {
            let is_last = !subject.breaks_again() || time == 2 || self.rng.bool();
            // Some are brief, whether anybody sees them or not; the others wait until somebody was told.
            let is_brief = self.rng.u8(..4) == 0;
            let broke = subject.fail(&self.client, time > 0).await;
            if is_brief {
                self.pause(0..10_000).await;
            } else {
                self.wait_until_told(&subject.name, 2 * time + 1).await;
                self.pause(0..4_000).await;
            }
            let ended = subject.mend(&self.client).await;
            self.conditions.push(Condition {
                subject: subject.name.clone(),
                broke,
                ended,
            });
            // One that nobody may have been told of is not used again: it could not be said which of the two a page is about.
            if is_last || is_brief || !self.wait_until_told(&subject.name, 2 * time + 2).await {
                return;
            }
            // Times of the API are in seconds: the next one has to begin after the end of this one by them, too.
            self.pause(1_100..3_000).await;
        }
    }

    /// Waits until a subject was told to be broken and well, in turns, this many times; false if it is hopeless.
    async fn wait_until_told(&mut self, subject: &str, turns: usize) -> bool {
        let told = self.receipts.wait_for(|receipts| {
            let of_subject = receipts.get(subject).map_or(&[][..], Vec::as_slice);
            // What is told twice is one turn.
            let turn_of = |pair: &[Receipt]| usize::from(pair[0].is_firing != pair[1].is_firing);
            let changes: usize = of_subject.windows(2).map(turn_of).sum();
            usize::from(!of_subject.is_empty()) + changes >= turns
        });
        matches!(timeout(HOPELESS, told).await, Ok(Ok(_)))
    }

    async fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        sleep(Duration::from_millis(self.rng.u64(milliseconds))).await;
    }
}

/// A workload of one pod that breaks in a way that is due at once, and over at once, by the times that the API tells.
///
/// Those times must make sense to whoever saw nothing of it: replicas are dead while things happen. A crash loop that is due at once began minutes ago, before the end of
/// the one before it, so it does not come back; and what is deleted may have crash looped to its end, which holds its alert for two minutes, so it stays.
struct Subject {
    /// The workload's.
    name: String,
    pod: Sketch,
    breaks: Breaks,
}

/// How something breaks, and how it ends.
#[derive(Debug, Clone, Copy)]
enum Breaks {
    /// It crash loops, until it has run for long enough. Once.
    CrashLooping,
    /// It was killed for its memory, until it is deleted. Another pod may take its place.
    OutOfMemory,
}

impl Subject {
    /// A healthy one, of one kind or another.
    fn new(name: &str, number: usize) -> Self {
        let pod = mk_pod(&format!("{name}-pod"));
        let (pod, name) = match number % 4 {
            0 => (pod.of_deployment(name), name.to_owned()),
            1 => (pod.of("apps/v1", "StatefulSet", name), name.to_owned()),
            2 => (pod.of("apps/v1", "DaemonSet", name), name.to_owned()),
            _ => (pod, format!("{name}-pod")),
        };
        let breaks = match number % 3 {
            0 => Breaks::OutOfMemory,
            _ => Breaks::CrashLooping,
        };
        Self { name, pod, breaks }
    }

    fn breaks_again(&self) -> bool {
        matches!(self.breaks, Breaks::OutOfMemory)
    }

    async fn create(&self, client: &Client) {
        change(client, Change::Create, &self.pod).await;
    }

    async fn fail(&self, client: &Client, again: bool) -> Moment {
        if again {
            self.create(client).await;
        }
        let broken = self.pod.clone();
        let broken = match self.breaks {
            Breaks::CrashLooping => broken.crash_looping(),
            Breaks::OutOfMemory => broken.oom_killed(minutes(if again { 0 } else { 1 })),
        };
        change(client, Change::Update, &broken).await
    }

    async fn mend(&self, client: &Client) -> Moment {
        match self.breaks {
            Breaks::CrashLooping => {
                let well = self.pod.clone().recovered(minutes(11));
                change(client, Change::Update, &well).await
            }
            Breaks::OutOfMemory => change(client, Change::Delete, &self.pod).await,
        }
    }
}

/// What is done to a pod.
#[derive(Debug, Clone, Copy)]
enum Change {
    Create,
    Update,
    Delete,
}

/// Asks for a change until the API server has answered that it is made.
async fn change(client: &Client, change: Change, pod: &Sketch) -> Moment {
    let earliest = Instant::now();
    loop {
        let made = match change {
            Change::Create => pod.try_create(client, NAMESPACE).await,
            Change::Update => pod.try_update(client, NAMESPACE).await,
            Change::Delete => pod.try_delete(client, NAMESPACE).await,
        };
        match made {
            Ok(()) => {
                return Moment {
                    earliest,
                    latest: Instant::now(),
                };
            }
            // A refusal is a defect of the test.
            Err(kube::Error::Api(answer)) if answer.code < 500 && answer.code != 429 => {
                panic!("{change:?} {pod:?}: {answer}")
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}
