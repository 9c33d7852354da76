//! Whether a replica's total fits to what is there.

/// How a replica's total fits to the generation that is served, and to its `StatefulSet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Fits,
    /// The total is the one that is served, or there is none yet; but the `StatefulSet` has another number of replicas. What nobody owns has heirs.
    ButReplicasDiffer,
    /// It is neither the total that is served, nor the one of the `StatefulSet`: a mistake, or a template of which only a part was changed. Such a replica takes no part.
    Misfit,
}

/// Whether a total (`mine`) fits to the one that is served (none, if there is no record yet) and to the number of replicas of the `StatefulSet` (none, if it is not
/// known).
///
/// A total that differs from what is served is the beginning of a change if the `StatefulSet` agrees. If it is not known, it is given the benefit of the doubt: a
/// generation only takes over whole.
pub fn fit(active: Option<u32>, mine: u32, replicas: Option<u32>) -> Fit {
    if replicas.is_none_or(|replicas| replicas == mine) {
        Fit::Fits
    } else if active.is_none_or(|active| active == mine) {
        Fit::ButReplicasDiffer
    } else {
        Fit::Misfit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_of_neither_what_is_served_nor_of_the_set_does_not_fit() {
        for (active, mine, replicas, expected) in [
            (Some(3), 3, Some(3), Fit::Fits),
            (Some(3), 3, None, Fit::Fits),
            (None, 3, Some(3), Fit::Fits),
            (None, 3, None, Fit::Fits),
            // A change that has begun.
            (Some(2), 3, Some(3), Fit::Fits),
            (Some(2), 3, None, Fit::Fits),
            // Scaled, with the total as it was.
            (Some(3), 3, Some(4), Fit::ButReplicasDiffer),
            (Some(3), 3, Some(0), Fit::ButReplicasDiffer),
            (None, 3, Some(4), Fit::ButReplicasDiffer),
            // The total changed, and not the set.
            (Some(2), 3, Some(2), Fit::Misfit),
            (Some(2), 3, Some(4), Fit::Misfit),
        ] {
            let found = fit(active, mine, replicas);
            assert_eq!(found, expected, "{active:?} {mine} {replicas:?}");
        }
    }
}
