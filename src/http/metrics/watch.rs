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

/// Why a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFailure {
    /// 410 Gone: its resource version is too old.
    Expired,
    /// 401 or 403.
    Forbidden,
    /// 404: the kind is not served.
    NotServed,
    /// 422: streaming lists are not served.
    NoStreamingList,
    /// 429.
    Throttled,
    /// 5xx.
    Server,
    /// No connection, or one that broke.
    Connection,
    /// No sign of life for too long.
    Silent,
    /// An answer that cannot be read.
    Malformed,
    /// Anything else.
    Other,
}

impl WatchFailure {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Expired,
        Self::Forbidden,
        Self::NotServed,
        Self::NoStreamingList,
        Self::Throttled,
        Self::Server,
        Self::Connection,
        Self::Silent,
        Self::Malformed,
        Self::Other,
    ];

    /// The value of the label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Forbidden => "forbidden",
            Self::NotServed => "notServed",
            Self::NoStreamingList => "noStreamingList",
            Self::Throttled => "throttled",
            Self::Server => "server",
            Self::Connection => "connection",
            Self::Silent => "silent",
            Self::Malformed => "malformed",
            Self::Other => "other",
        }
    }
}
