//! What the demo shows: the story on one side, and what the replicas page on the other.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use crate::notify::{
    Event, Late, Message, Receiver, Reference, SendError,
    receivers::{Stdout, Style},
};

const BOLD: &str = "1";
const DIM: &str = "2";
const CYAN: &str = "36";

/// Where everything is written to, line by line. Cheap to clone; all clones write to the same place.
#[derive(Clone)]
pub struct Screen {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
    colour: bool,
}

/// What was paged: by subject and alert, the replica, how often it fired, and whether it still stands.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<(String, &'static str), Paged>>>);

/// What was paged about one subject.
#[derive(Debug, Clone, Default)]
pub struct Paged {
    /// The replica.
    pub shard: u32,
    /// How often it fired.
    pub fired: u32,
    /// How often it resolved.
    pub resolved: u32,
}

impl Screen {
    /// A screen that writes to this stream.
    pub fn new(out: impl Write + Send + 'static, colour: bool) -> Self {
        Self {
            out: Arc::new(Mutex::new(Box::new(out))),
            colour,
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn out(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line that is no part of the story.
    ///
    /// # Errors
    ///
    /// Nobody reads it.
    pub fn line(&self, text: &str) -> io::Result<()> {
        writeln!(self.out(), "{text}")
    }

    /// A headline.
    ///
    /// # Errors
    ///
    /// Nobody reads it.
    pub fn title(&self, text: &str) -> io::Result<()> {
        self.line(&self.paint(BOLD, text))
    }

    /// A remark.
    ///
    /// # Errors
    ///
    /// Nobody reads it.
    pub fn remark(&self, text: &str) -> io::Result<()> {
        self.line(&self.paint(DIM, text))
    }

    /// What happens in the cluster.
    ///
    /// # Errors
    ///
    /// Nobody reads it.
    pub fn tell(&self, now: Timestamp, text: &str) -> io::Result<()> {
        let time = self.paint(DIM, &now.strftime("%H:%M:%S").to_string());
        self.line(&format!(
            "{time} {}",
            self.paint(CYAN, &format!("· {text}"))
        ))
    }

    /// A receiver that shows on this screen what a replica pages, and keeps a tally. The replica is named if there is more than one.
    pub fn receiver(&self, shard: u32, shards: u32, tally: &Tally) -> Shown {
        let style = if self.colour {
            Style::Colour
        } else {
            Style::Plain
        };
        let prefix = if shards > 1 {
            self.paint(BOLD, &format!("[shard {shard}] "))
        } else {
            String::new()
        };
        let page = Page {
            screen: self.clone(),
            prefix,
        };
        Shown {
            stdout: Stdout::new(style, page),
            shard,
            tally: tally.clone(),
        }
    }
}

/// Writes pages to the screen, each with the name of its replica in front.
struct Page {
    screen: Screen,
    prefix: String,
}

impl Write for Page {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut out = self.screen.out();
        // A page comes in one piece: its first line is the one to put the name on.
        out.write_all(self.prefix.as_bytes())?;
        out.write_all(text)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.screen.out().flush()
    }
}

/// The receiver of a demo's replica.
#[derive(Debug)]
pub struct Shown {
    stdout: Stdout,
    shard: u32,
    tally: Tally,
}

impl Receiver for Shown {
    fn name(&self) -> &'static str {
        self.stdout.name()
    }

    fn timeout(&self) -> Duration {
        self.stdout.timeout()
    }

    fn send_resolved(&self) -> bool {
        self.stdout.send_resolved()
    }

    fn late(&self) -> Late {
        self.stdout.late()
    }

    fn max_in_flight(&self) -> usize {
        self.stdout.max_in_flight()
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        self.tally.count(self.shard, message);
        self.stdout.send(message).await
    }
}

impl Tally {
    fn count(&self, shard: u32, message: &Message) {
        let alert = &message.alert;
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let paged = tally
            .entry((alert.subject.to_string(), alert.rule.name))
            .or_default();
        paged.shard = shard;
        match message.event {
            Event::Fired => paged.fired += 1,
            Event::Changed => {}
            Event::Resolved(_) => paged.resolved += 1,
            Event::FiredAndResolved(_) => {
                paged.fired += 1;
                paged.resolved += 1;
            }
        }
    }

    /// What was paged so far, by subject and alert.
    pub fn paged(&self) -> Vec<((String, &'static str), Paged)> {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally
            .iter()
            .map(|(key, paged)| (key.clone(), paged.clone()))
            .collect()
    }
}
