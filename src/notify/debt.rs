//! What is written down of a receiver's queue, so that it outlives the process.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Standing, message::Owed};
use crate::{
    alert::{Labels, Notice},
    cluster::Subject,
};

/// How many members of an alert are written down with what is owed about it. The description names as many as anybody reads.
const MEMBERS: usize = 50;

/// What one receiver holds and is owed about one alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// The alert's identity.
    pub identity: Labels,
    /// What it holds as firing, as far as it has confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// What it may hold as firing besides, after attempts whose end is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Standing>,
    /// What it has yet to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedDebt>,
}

/// What a receiver has yet to be told, as it is written down: [`Owed`] without the moment of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedDebt {
    /// The newest transition.
    pub notice: Arc<Notice>,
    /// How many there are.
    pub transitions: u32,
    /// Whether one of them began the alert.
    pub fired: bool,
    /// Whether one of them ended it.
    pub ended: bool,
}

impl From<&Owed> for OwedDebt {
    fn from(owed: &Owed) -> Self {
        let mut notice = Arc::clone(&owed.notice);
        if notice.alert.members.len() > MEMBERS {
            Arc::make_mut(&mut notice).alert.members.truncate(MEMBERS);
        }
        Self {
            notice,
            transitions: owed.transitions,
            fired: owed.fired,
            ended: owed.ended,
        }
    }
}

/// Where it is written down what receivers hold and are owed.
pub trait Ledger: Send + Sync + 'static {
    /// These are all the debts of a receiver about a subject now.
    fn note(&self, receiver: &'static str, subject: &Subject, debts: Vec<Debt>);
}
