//! What happens to watches, as closed sets of label values.

/// What a watch tells of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEvent {
    /// It was in a list.
    Listed,
    /// It was made or has changed.
    Applied,
    /// It is gone.
    Deleted,
}

impl WatchEvent {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Listed, Self::Applied, Self::Deleted];

    /// The value of the label `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Applied => "applied",
            Self::Deleted => "deleted",
        }
    }
}
