//! The task that runs one receiver.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, info, warn};

use super::{
    Attempt, AttemptId, Counts, Debt, Finished, Ledger, Outbox, Receiver, Reference, SendError,
    Verdict,
};
use crate::{
    alert::{Labels, Notice},
    cluster::Subject,
    faults::{self, Point},
    http::Metrics,
    shard::{Gate, Permit, ShardKey},
    text,
};

/// How many alerts are named in one line of the log.
const NAMED: usize = 10;

/// Runs a receiver: takes what is pushed, asks the gate, sends, retries. Dropping it ends it at once.
#[derive(Debug)]
pub struct Worker {
    handle: Handle,
    stop: watch::Sender<Option<Instant>>,
    task: AbortOnDropHandle<()>,
}

/// The way to a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    receiver: &'static str,
    outbox: Mutex<Outbox>,
    changed: Notify,
}

/// A receiver's queue, while nothing is taken from it: what is handed over can be written down before the worker asks for it. Not for long, and never while the
/// coordinator is locked: the worker asks the gate with its queue in hand.
#[derive(Debug)]
pub struct Queue<'a> {
    receiver: &'static str,
    outbox: MutexGuard<'a, Outbox>,
    changed: &'a Notify,
}

impl Queue<'_> {
    /// Hands over a notice. Never drops one.
    pub fn push(&mut self, notice: impl Into<Arc<Notice>>) {
        self.outbox.push(notice.into(), Instant::now());
    }

    /// The receiver's name.
    pub const fn receiver(&self) -> &'static str {
        self.receiver
    }

    /// What the receiver holds and is owed about a subject.
    pub fn debts(&self, subject: &Subject) -> Vec<Debt> {
        self.outbox.debts(subject)
    }

    /// Takes over what was written down about a subject.
    pub fn restore(&mut self, subject: &Subject, debts: &[Debt]) {
        self.outbox.restore(subject, debts, Instant::now());
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Handle {
    pub(crate) fn new(receiver: &'static str, outbox: Outbox) -> Self {
        Self(Arc::new(Shared {
            receiver,
            outbox: Mutex::new(outbox),
            changed: Notify::new(),
        }))
    }

    /// The next attempt, if there is one that the gate lets begin.
    pub(crate) fn next(&self, gate: &dyn Gate, limit: Duration) -> Option<Attempt> {
        let begin = |key: &_| gate.begin(key, limit);
        self.outbox().next(Instant::now(), begin)
    }

    /// When there may be one.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.outbox().next_deadline()
    }

    /// Ends an attempt, and notes what came of it.
    pub(crate) fn finish(
        &self,
        id: AttemptId,
        subject: &Subject,
        result: Result<Option<Reference>, &SendError>,
        ledger: Option<&dyn Ledger>,
    ) -> Finished {
        // Until it is noted, nothing is handed over: what is newer must not be overwritten.
        let mut outbox = self.outbox();
        let finished = outbox.finish(id, result, Instant::now());
        if let Some(ledger) = ledger {
            ledger.note(self.0.receiver, subject, outbox.debts(subject));
        }
        finished
    }

    /// The queue, for as long as the worker can wait for it.
    pub fn queue(&self) -> Queue<'_> {
        Queue {
            receiver: self.0.receiver,
            outbox: self.outbox(),
            changed: &self.0.changed,
        }
    }

    /// Hands over a notice. Never drops one.
    #[cfg(test)]
    pub fn push(&self, notice: impl Into<Arc<Notice>>) {
        self.queue().push(notice);
    }

    /// Says that the emit gate has changed: what it refused is tried again now.
    pub fn poke(&self) {
        self.outbox().poke(Instant::now());
        self.0.changed.notify_one();
    }

    /// The subject under which there is something about the alert of this identity.
    pub fn subject_of(&self, identity: &Labels) -> Option<Subject> {
        self.outbox().subject_of(identity).cloned()
    }

    /// Forgets all about these subjects: another replica pages for them.
    pub fn forget(&self, theirs: impl Fn(&ShardKey) -> bool) {
        self.outbox().forget(theirs);
    }

    /// The number of alerts of which something is owed.
    pub fn owed(&self) -> usize {
        self.outbox().len()
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // An outbox has no state in between: a panic elsewhere is no reason to stop paging.
        self.0.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Starts the task of a receiver. `gate` is asked right before each attempt, and `ledger` is told what became of it.
    pub fn spawn<R: Receiver>(
        receiver: R,
        gate: Arc<dyn Gate>,
        ledger: Option<Arc<dyn Ledger>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let outbox = Outbox::new(receiver.send_resolved(), receiver.late(), fastrand::u64(..));
        let handle = Handle::new(receiver.name(), outbox);
        let name = receiver.name();
        let queue = handle.clone();
        metrics.at_scrape(move |gauges| {
            let outbox = queue.outbox();
            let age = outbox.oldest().map(|oldest| oldest.elapsed());
            gauges.queue(name, outbox.len(), age.unwrap_or_default());
        });
        let (stop, stopping) = watch::channel(None);
        let remembered = ledger.is_some();
        let run = Run {
            receiver,
            gate,
            ledger,
            handle: handle.clone(),
            log: Log {
                receiver: name,
                metrics,
                remembered,
                failing: None,
            },
        };
        let task = AbortOnDropHandle::new(tokio::spawn(run.until_stopped(stopping)));
        Self { handle, stop, task }
    }

    /// The way to this worker.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits for the end of the task. Before [`Worker::shutdown`] it only ends by a defect, and nothing is delivered any more: fatal.
    pub async fn ended(&mut self) {
        // A handle must not be asked again after its end.
        if !self.task.is_finished() {
            // What it panicked with, the panic hook has printed.
            let _ = (&mut self.task).await;
        }
    }

    /// Delivers what can be delivered now, each message tried once, for at most `within`; then ends the task. The number of alerts of which
    /// something is still owed: they are named in the log.
    pub async fn shutdown(self, within: Duration) -> usize {
        let Self { handle, stop, task } = self;
        let deadline = Instant::now() + within;
        stop.send_replace(Some(deadline));
        if !task.is_finished() {
            // The task keeps the deadline itself; this is for one that hangs.
            let _ = timeout(within + Duration::from_secs(1), task).await;
        }
        handle.owed()
    }
}

/// What the task works with.
struct Run<R> {
    receiver: R,
    gate: Arc<dyn Gate>,
    ledger: Option<Arc<dyn Ledger>>,
    handle: Handle,
    log: Log,
}

/// How an attempt went.
struct Ended {
    id: AttemptId,
    permit: Permit,
    subject: Subject,
    alert: String,
    minimal: bool,
    result: Result<Option<Reference>, SendError>,
    took: Duration,
}

impl<R: Receiver> Run<R> {
    /// The loop of the task. It ends when `stopping` shows a deadline, by then at the latest.
    async fn until_stopped(self, mut stopping: watch::Receiver<Option<Instant>>) {
        let Self {
            receiver,
            gate,
            ledger,
            handle,
            mut log,
        } = self;
        let mut under_way = FuturesUnordered::new();
        let mut deadline: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            let limit = receiver.timeout().min(left.unwrap_or(Duration::MAX));
            while under_way.len() < receiver.max_in_flight().max(1) && !limit.is_zero() {
                let Some(attempt) = handle.next(&*gate, limit) else {
                    break;
                };
                under_way.push(send(&receiver, attempt, limit));
            }
            if left.is_some_and(|left| under_way.is_empty() || left.is_zero()) {
                break;
            }
            log.count(&mut handle.outbox());
            let room = under_way.len() < receiver.max_in_flight().max(1);
            let due = handle.next_deadline();
            tokio::select! {
                Some(ended) = under_way.next() => {
                    faults::pass(Point::Sent);
                    let result = match &ended.result {
                        Ok(reference) => Ok(reference.clone()),
                        Err(error) => Err(error),
                    };
                    let finished = handle.finish(ended.id, &ended.subject, result, ledger.as_deref());
                    log.attempt(&ended, finished);
                    faults::pass(Point::Noted);
                    // Only now: whoever waits for the attempt writes down what is noted.
                    drop(ended.permit);
                }
                () = handle.0.changed.notified(), if room => {}
                () = until(due), if room => {}
                () = until(deadline) => {}
                Ok(()) = stopping.changed() => {
                    deadline = *stopping.borrow_and_update();
                    handle.outbox().poke_all(Instant::now());
                }
            }
        }
        drop(under_way);
        let mut outbox = handle.outbox();
        log.count(&mut outbox);
        log.left(&outbox);
    }
}

/// Waits for a moment, or for ever.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Makes one attempt, and gives it up at its limit.
async fn send(receiver: &impl Receiver, attempt: Attempt, limit: Duration) -> Ended {
    let Attempt {
        id,
        message,
        permit,
    } = attempt;
    faults::pass(Point::Send);
    let started = Instant::now();
    let result = timeout(limit, receiver.send(&message))
        .await
        .unwrap_or_else(|_| Err(SendError::timeout(limit)));
    Ended {
        id,
        permit,
        subject: message.alert.subject.clone(),
        alert: text::label_set(&message.alert.labels),
        minimal: message.minimal,
        result,
        took: started.elapsed(),
    }
}

/// Logs and counts what happens to one receiver's messages.
struct Log {
    receiver: &'static str,
    metrics: Arc<Metrics>,
    /// Whether what is owed outlives the process.
    remembered: bool,
    /// What the attempts of late failed with, and how often. The same text again is not logged again.
    failing: Option<(String, u64)>,
}

impl Log {
    fn attempt(&mut self, ended: &Ended, finished: Finished) {
        let Self {
            receiver, metrics, ..
        } = self;
        let Ended {
            id: _,
            permit: _,
            subject: _,
            alert,
            minimal,
            result,
            took,
        } = ended;
        let reason = result.as_ref().err().map(|error| error.reason);
        metrics.send_finished(receiver, reason, *took);
        match (result, finished) {
            (Ok(_), _) => {
                debug!(
                    receiver,
                    alert,
                    took_seconds = took.as_secs_f64(),
                    "delivered"
                );
                if let Finished::Delivered { waited } = finished {
                    metrics.delivered_after(receiver, waited);
                }
                if let Some((_, failures)) = self.failing.take() {
                    info!(receiver, failures, "delivers again");
                }
            }
            (Err(error), Finished::Dropped) => {
                metrics.dropped(receiver);
                error!(receiver, alert, %error, "gave up on a message: the receiver refuses it for good, and its alert is over");
            }
            (Err(error), Finished::Owed { .. } | Finished::Delivered { .. }) => {
                self.failed(alert, *minimal, error);
            }
        }
    }

    /// Logs a failure, unless it has the text of the one before.
    fn failed(&mut self, alert: &str, minimal: bool, error: &SendError) {
        let receiver = self.receiver;
        let text = error.to_string();
        let failures = match &mut self.failing {
            Some((known, failures)) if *known == text => {
                *failures += 1;
                return;
            }
            Some((_, failures)) => *failures + 1,
            None => 1,
        };
        match error.verdict {
            Verdict::Retry { .. } => {
                warn!(receiver, alert, %error, "cannot deliver: will be tried again");
            }
            Verdict::Content if !minimal => {
                warn!(receiver, alert, %error, "a message was refused: its shortest form is tried at once");
                // It is not failing yet.
                return;
            }
            Verdict::Content | Verdict::Permanent => {
                error!(receiver, alert, %error, "cannot deliver, and it will not work until somebody changes something: pages do not arrive");
            }
        }
        self.failing = Some((text, failures));
    }

    fn count(&self, outbox: &mut Outbox) {
        let Counts { refused, coalesced } = outbox.take_counts();
        self.metrics.refused(self.receiver, refused);
        self.metrics.coalesced(self.receiver, coalesced);
    }

    fn left(&self, outbox: &Outbox) {
        let owed = outbox.len();
        if owed > 0 && self.remembered {
            info!(
                receiver = self.receiver,
                owed,
                "ends with messages that are owed: they are written down, and whoever serves their shards next delivers them"
            );
        } else if owed > 0 {
            let alerts: Vec<_> = outbox.owed().take(NAMED).map(text::label_set).collect();
            warn!(
                receiver = self.receiver,
                owed,
                alerts = alerts.join(" "),
                "ends with messages that could not be delivered (the first are named)"
            );
        }
    }
}

#[cfg(test)]
mod tests;
