//! Where the servers and kubectl come from: a folder that was given, or Go modules.

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

/// A folder with the programs `etcd` and `kube-apiserver`, and perhaps the others; the name is that of other projects (envtest of controller-runtime, which has
/// kubectl, but no controllers).
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A program of Kubernetes that tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// etcd.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers.
    ControllerManager,
    /// The command line.
    Kubectl,
}

impl Binary {
    /// The command line by which it is started: the program, and the words before its flags.
    ///
    /// The program of `KUBEBUILDER_ASSETS` if that is set, else that of `tests/cluster`, built if it is not there yet.
    pub fn command(self) -> Vec<OsString> {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        if let Some(folder) = std::env::var_os(ASSETS) {
            let program = Path::new(&folder).join(self.name());
            if program.is_file() {
                return vec![program.into()];
            }
            // A mix of an API server from there and an etcd from here is nobody's wish; the others are rarely there, and fit all the same.
            assert!(
                !matches!(self, Self::Etcd | Self::ApiServer),
                "{ASSETS} is {}, which has no program {}",
                Path::new(&folder).display(),
                self.name()
            );
        }
        vec![BUILT.get_or_init(build).into(), self.word().into()]
    }

    /// The name of the program that is nothing else.
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }

    /// Its word in the program of `tests/cluster`.
    fn word(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Kubectl => "kubectl",
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
    say(
        "building etcd, kube-apiserver, the controllers and kubectl for the tests: about 7 minutes the first time",
    );
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
            "the tests need Kubernetes, and `go` to build it cannot be started ({error}): install Go 1.26 or \
             later (https://go.dev/dl), or set {ASSETS} to a folder with the programs etcd and kube-apiserver (tests/sharded also \
             needs kube-controller-manager and kubectl)"
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
