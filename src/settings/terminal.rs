//! Whether output may be coloured.

/// Whether to colour what is written to a terminal (or not to one): never if `NO_COLOR` is set (<https://no-color.org>) or the terminal is a dumb one.
pub fn colour(is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}
