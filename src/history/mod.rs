//! Histories: what was seen of a cluster, as a file; and what would have been paged for it. Pure but for the file that is given to it.
//!
//! A history is a file of JSON lines, each with the `time` at which something was seen, a `type`, and what was seen. `ADDED`, `MODIFIED` and `DELETED` are those of a
//! watch of Kubernetes, with the `object`. A `SNAPSHOT` is a list of all objects of a kind: it begins, has objects, and ends (`of`, `part`). What it does not have is
//! gone. `RECORDING` says where a recording begins, of which cluster, and which kinds it waits for; a history that is written by hand needs none.
//!
//! ```json
//! {"time":"2026-01-31T02:00:00Z","type":"RECORDING","cluster":"prod","kinds":["Pod","Node"]}
//! {"time":"2026-01-31T02:00:01Z","type":"SNAPSHOT","of":"Pod","part":"begin"}
//! {"time":"2026-01-31T02:00:01Z","type":"SNAPSHOT","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1"}}}
//! {"time":"2026-01-31T02:00:01Z","type":"SNAPSHOT","of":"Pod","part":"end"}
//! {"time":"2026-01-31T02:17:25Z","type":"DELETED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1"}}}
//! ```

mod line;
mod reader;
mod recorder;
mod replay;

pub use line::{Part, Seen};
pub use reader::{HistoryError, LineError, Reader};
pub use recorder::Recorder;
pub use replay::{Replay, Unordered};

#[cfg(test)]
mod tests;
