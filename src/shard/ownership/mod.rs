//! Who owns what, and when.
//!
//! A *generation* is the set of shards of one total. A small [`Record`] says which one is active, and which was before it until that one has been handed
//! over; its epoch grows with each change. Whoever holds a shard's [`Lease`] serves that shard: in the steady state the replica with its index and its
//! total, and nobody else. What happens when replicas die, are cut off, are restarted or rescaled follows from six rules:
//!
//! 1. **Own first.** A replica takes its own shard's Lease when it is ready.
//! 2. **Orphans have an heir.** What nobody holds is taken by the next live replica, until the one with that index claims it back.
//! 3. **A new generation takes over whole**, when all of its replicas are there; until then the old one is served.
//! 4. **Stop, then say so.** Who loses keys stops, lets the sends in flight end, writes its state a last time, and acknowledges. Only then does the new owner
//!    read that state, take it over, and send.
//! 5. **Gate by one's own clock.** What starts must be over before the Lease could be taken.
//! 6. **Take, look, then serve.** Watches are late: who has taken a Lease reads the record and the state directly before it serves.
//!
//! [`decide()`] is rules 1 to 3, and says when 4 is due: a pure function of what is seen, who one is, and one's own clock. [`Replica`] is what one replica does about it, and
//! 4 to 6: it takes in answers, watch events and time, and gives out requests. It does no I/O itself, so that a simulation can put thousands of
//! crashes, pauses, cuts and rescales into minutes (`tests/ownership`).
//!
//! # A shard's state
//!
//! Who has read a state writes it at once, with its own token ([`Writer`]): that write is a fence, since a former holder's, decided from an older version, fails from then
//! on, and nothing is sent before it. What is sent for the first time is [promised](Replica::promise): it waits until a write that contains it has succeeded. Both are
//! waited for 2 s, and not longer: paging comes first. What nobody waits for is written once a second, and less often when it is much.
//!
//! A write that ends in a conflict, or without an answer, costs nothing: the state is read again, after the Lease, and unless somebody else has written it in the
//! same epoch, what is known goes on. What is known, and what is forgotten, is told as [`Change`]s, in portions while a hand-over goes on.

mod coverage;
mod decide;
mod fit;
mod holder;
mod objects;
mod replica;
mod shard;
mod timing;
mod view;

pub use coverage::{By, Covered};
pub use decide::{Action, Situation, decide};
pub use fit::{Fit, fit};
pub use holder::{HeldBy, Holder, HolderError};
pub use objects::{Alerts, Epoch, HASH_ID, Lease, Record, State, Version, Writer};
pub use replica::{Answer, Call, Change, Leave, Output, Replica, Request, RequestId, Step};
pub use shard::Shard;
pub use timing::{Timing, TimingError};
pub use view::View;

#[cfg(test)]
mod tests;
