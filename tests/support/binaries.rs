//! Where etcd and the API server come from: a folder that was given, or Go modules.

use std::{
    ffi::OsString,
    fs::{self, File},
    hash::Hasher as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use tokio::time::Instant;

use super::say;

/// A folder with the programs `etcd` and `kube-apiserver`; the name is that of other projects (envtest of controller-runtime).
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The command lines by which the servers are started: the program, and the words before its flags.
#[derive(Debug)]
pub struct Binaries {
    /// etcd.
    pub etcd: Vec<OsString>,
    /// The API server.
    pub apiserver: Vec<OsString>,
}

impl Binaries {
    /// The servers of `KUBEBUILDER_ASSETS` if that is set, else those of `tests/cluster`, built if they are not there yet.
    pub fn get() -> &'static Self {
        static BINARIES: OnceLock<Binaries> = OnceLock::new();
        BINARIES.get_or_init(|| match std::env::var_os(ASSETS) {
            Some(folder) => Self::of_folder(Path::new(&folder)),
            None => Self::of_module(&build()),
        })
    }

    fn of_folder(folder: &Path) -> Self {
        let program = |name: &str| {
            let path = folder.join(name);
            assert!(
                path.is_file(),
                "{ASSETS} is {}, which has no program {name}",
                folder.display()
            );
            vec![path.into_os_string()]
        };
        Self {
            etcd: program("etcd"),
            apiserver: program("kube-apiserver"),
        }
    }

    fn of_module(program: &Path) -> Self {
        Self {
            etcd: vec![program.into(), "etcd".into()],
            apiserver: vec![program.into(), "apiserver".into()],
        }
    }
}

/// Builds the Go program of `tests/cluster`, once for each state of its sources: the file's name has their hash. Test processes that run at the same
/// time wait for the first one by the lock of a file.
fn build() -> PathBuf {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster");
    let mut hasher = fnv::FnvHasher::default();
    for name in ["go.mod", "go.sum", "main.go"] {
        hasher.write(&fs::read(module.join(name)).unwrap());
    }
    let program = folder.join(format!("cluster-{:016x}", hasher.finish()));

    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if program.is_file() {
        return program;
    }
    say("building etcd and kube-apiserver for the tests: about 5 minutes the first time");
    let started = Instant::now();
    // Under another name until it is whole, so that a build that is killed leaves nothing that looks like a program.
    let unfinished = program.with_extension("unfinished");
    let built = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
        .args([unfinished.as_os_str(), ".".as_ref()])
        .current_dir(&module)
        .stdin(Stdio::null())
        .output();
    let output = match built {
        Ok(output) => output,
        Err(error) => panic!(
            "the tests need a Kubernetes API server, and `go` to build it cannot be started ({error}): install Go 1.26 or \
             later (https://go.dev/dl), or set {ASSETS} to a folder with the programs etcd and kube-apiserver"
        ),
    };
    assert!(
        output.status.success(),
        "`go build` in {} failed with {}:\n{}",
        module.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&unfinished, &program).unwrap();
    say(format_args!(
        "built {} in {:.0} s",
        program.display(),
        started.elapsed().as_secs_f64()
    ));
    program
}
