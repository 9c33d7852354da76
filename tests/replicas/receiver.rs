//! A receiver that keeps what it was told, and fails on demand.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use alertkube::notify::{Event, Late, Message, Receiver, Reference, SendError};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

pub const TIME_OUT: Duration = Duration::from_millis(300);

/// What becomes of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Fine,
    Down,
    /// It arrives, and the answer is lost.
    AnswersLost,
    /// It does not arrive, and nobody says so.
    Lost,
}

/// One attempt to send, by one life of a replica.
#[derive(Debug, Clone)]
pub struct Sent {
    pub by: u32,
    pub workload: String,
    pub key: String,
    pub event: Event,
    pub at: Instant,
    /// When the attempt ended, or was dropped.
    pub end: Option<Instant>,
    pub arrived: bool,
    /// Whether the sender was told that it did.
    pub clear: bool,
}

impl Sent {
    pub const fn firing(&self) -> bool {
        self.event.is_firing()
    }
}

#[derive(Clone)]
pub struct Log {
    pub sent: Arc<watch::Sender<Vec<Sent>>>,
    pub weather: Arc<Mutex<Weather>>,
}

impl Log {
    pub fn new() -> Self {
        Self {
            sent: Arc::new(watch::Sender::new(Vec::new())),
            weather: Arc::new(Mutex::new(Weather::Fine)),
        }
    }

    pub fn set(&self, weather: Weather) {
        *self.weather.lock().unwrap() = weather;
    }

    pub fn all(&self) -> Vec<Sent> {
        self.sent.borrow().clone()
    }
}

/// The receiver as one life of a replica has it.
pub struct Recorder {
    pub by: u32,
    pub log: Log,
}

/// Notes the end of an attempt, also of one that is dropped.
struct Attempt {
    log: Log,
    index: usize,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.log
            .sent
            .send_modify(|sent| sent[self.index].end = Some(Instant::now()));
    }
}

impl Receiver for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn timeout(&self) -> Duration {
        TIME_OUT
    }

    fn late(&self) -> Late {
        Late::FireThenResolve
    }

    fn max_in_flight(&self) -> usize {
        4
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        let weather = *self.log.weather.lock().unwrap();
        let key = message.alert.dedup_key();
        let reference = Reference::new(&key);
        // Whoever tells of it, and whatever has failed: a reference is that of the same alert.
        assert!(message.reference.is_none() || message.reference == reference);
        let sent = Sent {
            by: self.by,
            workload: message.alert.labels.get("workload").unwrap().to_owned(),
            key,
            event: message.event,
            at: Instant::now(),
            end: None,
            arrived: matches!(weather, Weather::Fine | Weather::AnswersLost),
            clear: weather == Weather::Fine,
        };
        let mut index = 0;
        self.log.sent.send_modify(|all| {
            index = all.len();
            all.push(sent);
        });
        let _attempt = Attempt {
            log: self.log.clone(),
            index,
        };
        match weather {
            Weather::Fine => Ok(reference),
            Weather::Down => {
                let mut error = SendError::timeout(TIME_OUT);
                error.may_have_arrived = false;
                Err(error)
            }
            Weather::AnswersLost | Weather::Lost => {
                sleep(10 * TIME_OUT).await;
                Ok(reference)
            }
        }
    }
}
