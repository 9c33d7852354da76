//! The cause tree: which alert explains which. One cause, one page.

use crate::rules::Rule;

/// How a cause explains its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Explanation {
    /// Whether both must be about the same part (container) of the object.
    pub same_part: bool,
    /// Whether the cause also explains while it is held: seen to be over, but not for long enough.
    pub while_held: bool,
}

/// Whether an alert of the rule `cause` explains one of the rule `effect` on the same object, and how.
pub(super) fn explains(cause: &Rule, effect: &Rule) -> Option<Explanation> {
    match (cause.name, effect.name) {
        // The kernel killed the last run: that is why it crash loops. A later run that ends for another reason is not explained.
        ("KubePodOOMKilled", "KubePodCrashLooping" | "KubePodRestarting") => Some(Explanation {
            same_part: true,
            while_held: false,
        }),
        // A container in a crash loop restarts: that is the same fault.
        ("KubePodCrashLooping", "KubePodRestarting") => Some(Explanation {
            same_part: true,
            while_held: true,
        }),
        // Whatever else is wrong with a pod, it is not ready because of that. While a crash loop is between two crashes, still.
        (name, "KubePodNotReady") if cause.kind == effect.kind && name != effect.name => {
            Some(Explanation {
                same_part: false,
                while_held: true,
            })
        }
        _ => None,
    }
}
