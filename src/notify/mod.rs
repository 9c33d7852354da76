//! Delivery: from a decision to the people who must know.
//!
//! A [`Worker`] runs each [`Receiver`]. It owns the receiver's outbox, asks the emit gate right before each attempt, and retries. [`Queue::push`] is all that
//! the rest of the program needs. A new receiver is a file in [`receivers`] that implements [`Receiver`].

mod backoff;
mod client;
mod debt;
mod error;
mod message;
mod outbox;
pub mod receivers;
mod schedule;
mod secret;
mod worker;

use std::{future::Future, time::Duration};

pub use client::{SEND_TIMEOUT, http_client};
pub use debt::{Besides, Debt, Ledger, OwedDebt};
pub use error::{Reason, SendError, Verdict};
pub use message::{Event, Late, Message, Reference, Standing};
pub use secret::Secret;
pub use worker::{Handle, Queue, Worker};

pub(crate) use outbox::Outbox;
use outbox::{Attempt, AttemptId, Counts, Finished};

/// A place where alerts are delivered.
pub trait Receiver: Send + Sync + 'static {
    /// Its name: in logs and as the label `receiver` of metrics.
    fn name(&self) -> &'static str;

    /// How long one attempt may take. After that it is given up, and the message stays owed.
    fn timeout(&self) -> Duration {
        SEND_TIMEOUT
    }

    /// Whether it is told that an alert is over.
    fn send_resolved(&self) -> bool {
        true
    }

    /// How it is told of an alert that was over before it could be told that it fired.
    fn late(&self) -> Late;

    /// How many messages, of different alerts, may be under way at once.
    fn max_in_flight(&self) -> usize;

    /// Delivers a message, once: the caller retries. It may be dropped before it ends.
    ///
    /// What it returns comes back as [`Message::reference`] with what follows about the same alert, also after a restart and from another replica, until the alert
    /// is over. Without a new one, the one before stays.
    ///
    /// # Errors
    ///
    /// The message did not arrive, or nobody knows whether it did.
    fn send(
        &self,
        message: &Message,
    ) -> impl Future<Output = Result<Option<Reference>, SendError>> + Send;
}

/// A client for tests. (`main` installs the TLS provider; here it is whoever comes first.)
#[cfg(test)]
pub(crate) fn test_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    http_client().unwrap()
}

#[cfg(test)]
mod test_support;
