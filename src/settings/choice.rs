//! Settings that are one word of a few.

/// Defines an enum whose values are words, and how they are read: `FromStr` with an error that lists what is valid.
macro_rules! choices {
    ($(#[$outer:meta])* pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl std::str::FromStr for $name {
            type Err = $crate::settings::NotOneOf;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::settings::NotOneOf(&[$($word),+])),
                }
            }
        }
    };
}
pub(super) use choices;

/// A word that is none of the valid ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", .0.join(", "))]
pub struct NotOneOf(pub &'static [&'static str]);
