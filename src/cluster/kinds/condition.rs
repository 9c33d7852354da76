//! Conditions: what an object says about itself, by type.

use jiff::Timestamp;

use crate::cluster::lenient::trimmed;

trimmed! {
    /// A condition, of any kind of object.
    pub struct Condition {
        /// Such as `Ready`.
        pub r#type: Box<str> = "type",
        /// `True`, `False` or `Unknown`.
        pub status: Box<str> = "status",
        /// One word, for programs.
        pub reason: Box<str> = "reason",
        /// A sentence, for people.
        pub message: Box<str> = "message",
        /// When `status` last changed (never when the reason does).
        pub last_transition_time: Option<Timestamp> = "lastTransitionTime",
        /// When it was last written, of a Deployment: with every change of the reason too, and with every progress of a rollout.
        pub last_update_time: Option<Timestamp> = "lastUpdateTime",
    }
}

impl Condition {
    /// The condition of this type, if there is one.
    pub fn find<'a>(conditions: &'a [Self], r#type: &str) -> Option<&'a Self> {
        conditions
            .iter()
            .find(|condition| &*condition.r#type == r#type)
    }

    /// Whether its status is `True`.
    pub fn is_true(&self) -> bool {
        &*self.status == "True"
    }

    /// Whether its status is `False`; `Unknown` is neither.
    pub fn is_false(&self) -> bool {
        &*self.status == "False"
    }
}
