//! Writing what is there: a trimmed object as Kubernetes would write it, without what the rules do not read and without what is unset.

use jiff::Timestamp;
use serde::Serialize;

/// A part of a trimmed object, as it is written: by Kubernetes' own names, so that it can be read like any other object.
///
/// What is absent is left out. Reading makes the same of a value that is absent and of one that [`Sparse::is_absent`] calls so: nothing is lost.
pub trait Sparse: Serialize {
    /// Whether it says no more than if it were not there.
    fn is_absent(&self) -> bool;
}

impl Sparse for Box<str> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Sparse for bool {
    fn is_absent(&self) -> bool {
        !*self
    }
}

impl Sparse for i32 {
    fn is_absent(&self) -> bool {
        *self == 0
    }
}

impl Sparse for i64 {
    fn is_absent(&self) -> bool {
        *self == 0
    }
}

impl Sparse for Timestamp {
    fn is_absent(&self) -> bool {
        false
    }
}

/// One that is there, and empty, is not the same as none.
impl<T: Sparse> Sparse for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Sparse> Sparse for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}
