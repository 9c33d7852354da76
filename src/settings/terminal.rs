//! What the environment says for all programs: whether output may be coloured, where the kubeconfig is, and what is not reached through a proxy.

use std::{ffi::OsString, path::PathBuf};

/// Whether to colour what is written to a terminal (or not to one): never if `NO_COLOR` is set (<https://no-color.org>) or the terminal is a dumb one.
pub fn colour(is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// The hosts that are not reached through the proxy that the environment names: `NO_PROXY`, else `no_proxy`.
pub fn no_proxy() -> Option<String> {
    ["NO_PROXY", "no_proxy"]
        .iter()
        .find_map(|name| std::env::var_os(name)?.into_string().ok())
}

/// The files of the kubeconfig: `KUBECONFIG`, as it is.
pub fn kubeconfig() -> Option<OsString> {
    std::env::var_os("KUBECONFIG")
}

/// The configuration file: `ALERTKUBE_CONFIG`, for the commands that need no other setting.
pub fn config_file() -> Option<PathBuf> {
    std::env::var_os("ALERTKUBE_CONFIG")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}
